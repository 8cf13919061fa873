"""What the processes say to each other: msgspec structs, packed, over ZeroMQ.

    front end  -- Submit, Abort -->  engine core  -- Step, Fetch, StartupComplete, Stop -->  worker
    front end  <-- Ready, Outputs -- engine core  <-- Loaded, StepDone, Fetched, StartupDone --  worker

    prefill  -- Transfer, Abort -->  decode          (where the two are apart)
    prefill  <-- Loaded, Taken -- decode
    rank 0  -- Come, Go -->  other ranks             (data-parallel engines in lock-step)
    rank 0  <-- Arrived --  other ranks

Token ids travel as the bytes of an array and are kept as the array: see ``tokens``.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


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
    rank: int | str  # one number, or a text where one number does not tell
    pid: int
    tracked: int  # objects the collector would walk, before any freeze
    frozen: int | None  # what ``frostline.startup_complete()`` returned


class Ready(msgspec.Struct, array_like=True, tag=2):
    """An engine core and its workers have ended their start-up and frozen."""

    processes: list[ProcessReady]
    names: list[str]  # of the same, as each process itself says it (A7)


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
    name: str


class Piece(msgspec.Struct, array_like=True):
    """The tokens of one sequence that this step computes."""

    sequence: int
    start: int  # position of the first of them
    tokens: bytes  # Tokens
    blocks: bytes  # array("q"): the sequence's block table
    sampling: Sampling | None  # None: more of the prompt is to come


class Fill(msgspec.Struct, array_like=True):
    """Keys and values that were computed elsewhere: write them instead of computing them."""

    blocks: bytes  # array("q"): the sequence's block table
    start: int  # positions before it are in this cache already
    end: int  # keys and values are those of the positions 0 to end
    keys: bytes
    values: bytes


class Step(msgspec.Struct, array_like=True, tag=7):
    pieces: list[Piece]  # none: a rank without work takes part in the step all the same
    released: list[int]  # sequences whose history the worker may drop
    fills: list[Fill] = []  # done before the pieces


class StepDone(msgspec.Struct, array_like=True, tag=8):
    items: list[Sampled]


class Stop(msgspec.Struct, array_like=True, tag=9):
    """End, thaw, leave."""


class Fetch(msgspec.Struct, array_like=True, tag=10):
    """Asks for the keys and values of a sequence, to be continued elsewhere."""

    blocks: bytes  # array("q"): the sequence's block table
    end: int


class Fetched(msgspec.Struct, array_like=True, tag=11):
    keys: bytes  # float64, (layers, end, head)
    values: bytes


# --- prefill and decode -------------------------------------------------------------
class Transfer(msgspec.Struct, array_like=True, tag=12):
    """A prompt that was computed, and the first token of its answer."""

    submit: Submit
    first: Sampled
    cached: int
    keys: bytes
    values: bytes


class Taken(msgspec.Struct, array_like=True, tag=13):
    """The decode side has answered the transfer of the warm-up to its end."""


# --- data-parallel ranks ------------------------------------------------------------
class Come(msgspec.Struct, array_like=True, tag=14):
    """A round begins: also a rank without work takes part."""

    round: int


class Arrived(msgspec.Struct, array_like=True, tag=15):
    round: int
    busy: bool


class Go(msgspec.Struct, array_like=True, tag=16):
    """All have arrived."""

    round: int
    busy: bool  # whether any of them has work: then all do a step


ToEngine: TypeAlias = Submit | Abort
FromEngine: TypeAlias = Ready | Outputs
ToWorker: TypeAlias = StartupComplete | Step | Fetch | Stop
FromWorker: TypeAlias = Loaded | StartupDone | StepDone | Fetched
ToDecode: TypeAlias = Transfer | Abort
FromDecode: TypeAlias = Loaded | Taken
ToRank: TypeAlias = Come | Go
