"""Recordings damaged at random: each gives a clear account or a FrostlineError, nothing else."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.common import Interpreter, Result, run_target, session
from frostline import format as layout
from frostline.analysis import analyse
from frostline.errors import FrostlineError
from frostline.recording import read_session
from frostline.report import report, to_json, write

MANY = int(os.environ.get("FROSTLINE_DAMAGED", "10000"))
#: One that takes this long has stalled.
STALLED = 10.0


def flip(raw: bytearray, dice: random.Random) -> None:
    for _ in range(dice.choice((1, 1, 8, 200))):
        raw[dice.randrange(len(raw))] ^= 1 << dice.randrange(8)


def noise(raw: bytearray, dice: random.Random) -> None:
    size = min(len(raw), dice.choice((1, 8, 64, 512, 4096, 30_000)))
    at = dice.randrange(len(raw) - size + 1)
    raw[at : at + size] = dice.randbytes(size)


def zeros(raw: bytearray, dice: random.Random) -> None:
    size = min(len(raw), dice.choice((8, 64, 512, 4096, 30_000)))
    at = dice.randrange(len(raw) - size + 1)
    raw[at : at + size] = bytes(size)


def ones(raw: bytearray, dice: random.Random) -> None:
    size = min(len(raw), dice.choice((4, 8, 64, 512)))
    at = dice.randrange(len(raw) - size + 1)
    raw[at : at + size] = b"\xff" * size


def cut(raw: bytearray, dice: random.Random) -> None:
    del raw[dice.choice((0, 1, 8, 100, 1024, 4095, 4096, 4097, dice.randrange(len(raw)))) :]


def grow(raw: bytearray, dice: random.Random) -> None:
    raw += dice.randbytes(dice.choice((1, 64, 5000)))


def header(raw: bytearray, dice: random.Random) -> None:
    """Values that mean something, where they mean something: the header, the table, the words."""
    values = (
        0,
        1,
        2,
        5,
        64,
        4096,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        dice.getrandbits(64),
    )
    for _ in range(dice.choice((1, 2, 5))):
        at = dice.choice(
            (dice.randrange(8, 120, 4), dice.randrange(256, 352, 8), dice.randrange(512, 680, 8))
        )
        if at + 8 <= len(raw):
            struct.pack_into(
                "<Q" if dice.random() < 0.7 else "<I", raw, at, dice.choice(values) & (2**32 - 1)
            )
            struct.pack_into("<Q", raw, at, dice.choice(values))


def records(raw: bytearray, dice: random.Random) -> None:
    """A sound commit word over nonsense: what a reader cannot recognise by the commit word."""
    for _ in range(dice.choice((1, 5, 50))):
        at = dice.randrange(layout.HEADER_SIZE, max(layout.HEADER_SIZE + 8, len(raw) - 8), 4)
        if at + 8 <= len(raw) and at % 64 < 56:
            struct.pack_into("<Q", raw, at, dice.choice((0, 2**63, 2**64 - 1, dice.getrandbits(64))))


def swapped(raw: bytearray, dice: random.Random) -> None:
    size = min(len(raw) // 2, dice.choice((64, 128, 4096)))
    one, other = dice.randrange(len(raw) - size), dice.randrange(len(raw) - size)
    raw[one : one + size], raw[other : other + size] = raw[other : other + size], raw[one : one + size]


KINDS = (flip, noise, zeros, ones, cut, grow, header, header, records, swapped)


def account(folder: Path, number: int) -> str:
    """Reads, analyses and reports in this process; what it ends in."""
    try:
        analysis = analyse(read_session(folder))
        out = io.StringIO()
        write(report(analysis), out)
        if number % 10 == 0:
            json.dumps(to_json(analysis))
    except FrostlineError as error:
        return "error " + error.slug
    return "report" if len(out.getvalue()) > 100 else "empty report"


def measure(interpreter: Interpreter) -> list[Result]:
    dice = random.Random(3)
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    longest = 0.0
    with session() as recorded, tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        run_target(interpreter.python, "small_session", FROSTLINE_OUTPUT=str(recorded))
        folder = Path(place)
        sound = {path.name: path.read_bytes() for path in (recorded / "active").iterdir()}
        sound["run-1-1.json"] = json.dumps(
            {"pid": 1, "command": ["a"], "policy": "off", "cpus": 2, "started_monotonic_ns": 1}
        ).encode()
        seen = {"pid": 1, "parent": 0, "argv": ["a"], "python": True, "recorded": False, "missed": "no-hook"}
        sound["helper-1-1.json"] = json.dumps(
            {"ended": True, "processes": [seen], "warnings": ["w"]}
        ).encode()
        for name, raw in sound.items():
            (folder / name).write_bytes(raw)
        if account(folder, 0) != "report":
            raise RuntimeError("the undamaged recording gives no report")
        names = sorted(sound, key=lambda name: (not name.endswith(layout.SUFFIX), name))
        for number in range(MANY):
            name = dice.choice(names if dice.random() < 0.2 else names[:-2])
            damaged = bytearray(sound[name])
            kind = dice.choice(KINDS)
            kind(damaged, dice)
            (folder / name).write_bytes(damaged)
            begun = time.monotonic()
            try:
                outcomes[account(folder, number)] += 1
            except Exception as error:  # every other exception is a failure, whatever it is
                outcomes["traceback"] += 1
                if len(failures) < 5:
                    failures.append(
                        f"{kind.__name__} of {name}, number {number}: {type(error).__name__}: {error}"
                    )
            longest = max(longest, time.monotonic() - begun)
            (folder / name).write_bytes(sound[name])
    bad = outcomes["traceback"] + outcomes["empty report"] + (longest > STALLED)
    how = f"{MANY:,} damaged, read and reported in one process: {dict(outcomes)}; longest {longest:.2f} s"
    return [
        Result(
            "damaged recordings without a clear answer", str(bad), "0", bad == 0, "; ".join([how, *failures])
        )
    ]
