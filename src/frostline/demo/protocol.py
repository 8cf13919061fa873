"""What the processes say to each other: msgspec structs, packed, over ZeroMQ.

    front end  -- Submit, Abort -->  engine core  -- Step, StartupComplete, Stop -->  worker
    front end  <-- Ready, Outputs -- engine core  <-- Loaded, StartupDone, Sampled --  worker

Token ids travel and are kept as the bytes of an array: one object that the
collector need not walk, where a list would be one that it must (requirement A12).
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

import msgspec

#: Tokens in memory are ``array("i")`` everywhere; only the JSON edge converts.
Tokens: TypeAlias = "array[int]"


def tokens_of(packed: bytes) -> Tokens:
    """The tokens that ``Tokens.tobytes()`` packed."""
    tokens = array("i")
    tokens.frombytes(packed)
    return tokens


class Sampling(msgspec.Struct, array_like=True):
    """How the next token of a sequence is chosen."""

    temperature: float
    seed: int
    candidates: int  # how many of the likeliest tokens to report with each token


class Candidate(msgspec.Struct, array_like=True):
    """One of the likeliest tokens at a position, as OpenAI's ``top_logprobs`` reports it."""

    token: int
    logprob: float
    bytes: list[int]


class Sampled(msgspec.Struct, array_like=True):
    """The token a worker chose for one sequence."""

    sequence: int
    token: int
    logprob: float
    candidates: list[Candidate]


# --- front end and engine core ------------------------------------------------------
class Submit(msgspec.Struct, array_like=True, tag=0):
    request: int
    prompt: bytes
    limit: int  # most tokens to produce
    sampling: Sampling


class Abort(msgspec.Struct, array_like=True, tag=1):
    request: int


class ProcessReady(msgspec.Struct, array_like=True):
    """One process at the end of its start-up."""

    role: str
    rank: int
    pid: int
    tracked: int  # objects the collector would walk, before any freeze
    frozen: int | None  # what ``frostline.startup_complete()`` returned


class Ready(msgspec.Struct, array_like=True, tag=2):
    processes: list[ProcessReady]


class Output(msgspec.Struct, array_like=True):
    sampled: Sampled
    finish: str | None  # "length" on the last token
    cached: int  # prompt tokens found in the prefix cache


class Outputs(msgspec.Struct, array_like=True, tag=3):
    items: list[Output]


# --- engine core and worker ---------------------------------------------------------
class Loaded(msgspec.Struct, array_like=True, tag=4):
    """The worker has its model; start-up is not over before the engine says so."""


class StartupComplete(msgspec.Struct, array_like=True, tag=5):
    """Only the engine knows that warm-up is over, so it asks; a reply always comes (A2)."""


class StartupDone(msgspec.Struct, array_like=True, tag=6):
    process: ProcessReady


class Piece(msgspec.Struct, array_like=True):
    """The tokens of one sequence that this step computes."""

    sequence: int
    start: int  # position of the first of them
    tokens: bytes  # Tokens
    blocks: bytes  # array("q"): the sequence's block table
    sampling: Sampling | None  # None: more of the prompt is to come


class Step(msgspec.Struct, array_like=True, tag=7):
    pieces: list[Piece]
    released: list[int]  # sequences whose history the worker may drop


class StepDone(msgspec.Struct, array_like=True, tag=8):
    items: list[Sampled]


class Stop(msgspec.Struct, array_like=True, tag=9):
    """End, thaw, leave."""


ToEngine: TypeAlias = Submit | Abort
FromEngine: TypeAlias = Ready | Outputs
ToWorker: TypeAlias = StartupComplete | Step | Stop
FromWorker: TypeAlias = Loaded | StartupDone | StepDone
