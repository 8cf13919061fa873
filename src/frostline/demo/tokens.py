"""Token ids as the server keeps them, and the edges where lists of them come in and go out (A12).

A list of ids costs each full pass an object and a look at each id in it, and a server that keeps one for each
block pays more as its prefix cache fills. The ids in an array are no objects, so nothing in it is looked at:
tokens are ``array("i")`` from one edge to the other. The array itself *is* walked (CPython 3.10 and later
track it), so the blocks share one: `blocks.BlockTokens`.

The danger is a list that slips in between. A list and an array never compare equal, so it raises nothing by
itself: the prefix cache finds nothing any more. Hence two assertions where the type matters, and they are no
``assert`` statements, which ``python -O`` leaves out:

- what stores refuses a list (`stored`, called by `blocks`);
- what encodes refuses an array (`encodable`, called by `events.EventEncoder`), which msgpack has no form for.

Only `from_json` and `to_json` convert, and only the edges call them; a test holds that.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

#: Tokens in memory: ``array("i")`` and nothing else.
Tokens: TypeAlias = "array[int]"


def from_json(ids: list[int]) -> Tokens:
    """The edge inwards: what a client or a tokenizer gives.

    Raises:
        OverflowError: an id does not fit into 32 bits.
        TypeError: one is no integer.
    """
    return array("i", ids)


def to_json(tokens: Tokens) -> list[int]:
    """The edge outwards: what JSON and msgpack can encode."""
    return stored(tokens).tolist()


def tokens_of(packed: bytes) -> Tokens:
    """The tokens that ``Tokens.tobytes()`` packed, as they travel between the processes."""
    tokens = array("i")
    tokens.frombytes(packed)
    return tokens


def stored(tokens: Tokens) -> Tokens:
    """``tokens``, which are about to be kept.

    Raises:
        TypeError: they are a list, or an array of another width.
    """
    if not isinstance(tokens, array):
        raise TypeError(f'tokens are kept as array("i"), not {type(tokens).__name__}')
    if tokens.typecode != "i":
        raise TypeError(f'tokens are kept as array("i"), not array("{tokens.typecode}")')
    return tokens


def encodable(ids: list[int]) -> list[int]:
    """``ids``, which are about to be encoded.

    Raises:
        TypeError: they are an array.
    """
    if not isinstance(ids, list):
        raise TypeError(f"an event carries a list of token ids, not {type(ids).__name__}")
    return ids
