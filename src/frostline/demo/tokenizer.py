"""Text to tokens and back: bytes in, made-up syllables out.

A prompt is its UTF-8 bytes, one token each. The model may only produce the 256
tokens above them, which stand for syllables, so that what streams is readable.
"""

from __future__ import annotations

from itertools import product

from frostline.demo.tokens import Tokens, from_json

BYTES = 256
VOCABULARY = 512


def _syllables() -> tuple[str, ...]:
    onsets = "bdfgklmnprstvwzh"
    endings = (
        "a",
        "e",
        "i",
        "o",
        "u",
        "an",
        "on",
        "in",
        "a ",
        "e ",
        "or ",
        "el ",
        "is ",
        "ar ",
        "et ",
        "um ",
    )
    return tuple(onset + ending for onset, ending in product(onsets, endings))


#: What each token above the bytes stands for.
SYLLABLES = _syllables()
#: The same as lists of byte values, the form in which OpenAI's ``top_logprobs`` carries it.
SYLLABLE_BYTES = tuple(tuple(text.encode()) for text in SYLLABLES)


def encode(text: str) -> Tokens:
    return from_json(list(text.encode()))


def decode(token: int) -> str:
    """The text of one produced token."""
    return SYLLABLES[token - BYTES]
