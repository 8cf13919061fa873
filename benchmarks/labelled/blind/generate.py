"""The blind sessions: real programs (``live.py``) and simulated servers (``simulated.py``).

FROSTLINE_LABELLED_BLIND is the number of faults that one real program is asked for (60; fewer is a trial).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.labelled.blind import live, simulated
from benchmarks.labelled.truth import Labelled

#: Simulated sessions of each kind, and faults in one.
SESSIONS, FAULTS = 5, 24


def sessions(folder: Path, seed: int) -> Iterator[Labelled]:
    """Real ones first: what is said of a session that is being made is not known yet."""
    faults = int(os.environ.get("FROSTLINE_LABELLED_BLIND", "60"))
    for program in live.ALL:
        labelled, left = live.served(program, folder / program.name, seed, faults)
        told = ", ".join(f"{many} {reason}" for reason, many in left.items())
        print(
            f"{'':12s} labelled: {program.name}: {len(labelled.stalls)} stalls; left out: {told}",
            file=sys.stderr,
            flush=True,
        )
        yield labelled
    yield from simulations(folder, seed)


def simulations(folder: Path, seed: int, many: int = SESSIONS, faults: int = FAULTS) -> Iterator[Labelled]:
    """The simulated half alone. The same seed gives the same recordings, but for the wall clock."""
    for number in range(many):
        yield simulated.Engine(seed, number, faults).run(folder / f"engine-{number}")
        yield simulated.Web(seed, number, faults).run(folder / f"web-{number}")
