"""The labelled set: stalls whose cause is known, and what the report says of each.

Half of it is made here: the reference server and a small real server with faults put in (``reference.py``,
``real.py``), and simulated servers (``synthetic.py``, ``requests.py``). The other half is made by somebody
who did not write the analysis (``blind/``). ``score.py`` says what is judged and how.

FROSTLINE_LABELLED_FAULTS is the number of real faults in one run of the small server (90; fewer is a
trial), FROSTLINE_LABELLED_SEED the seed (1), FROSTLINE_LABELLED_KEEP a folder to keep the sessions in.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.common import Interpreter, Result
    from benchmarks.labelled.score import Said, Score
    from benchmarks.labelled.truth import Labelled

#: Bounds of the row: stalls, causes, the two shares at least, false claims at most.
STALLS, CAUSES, AT_LEAST, FALSE = 600, 8, 0.97, 0.05


def tell(text: str) -> None:
    print(f"{'':12s} labelled: {text}", file=sys.stderr, flush=True)


def measure(interpreter: Interpreter) -> list[Result]:
    """The labelled set, made, judged and counted."""
    from benchmarks.labelled import blind
    from benchmarks.labelled.score import aligned, confusion

    seed = int(os.environ.get("FROSTLINE_LABELLED_SEED", "1"))
    with ExitStack() as stack:
        kept = os.environ.get("FROSTLINE_LABELLED_KEEP")
        folder = Path(kept or stack.enter_context(tempfile.TemporaryDirectory(prefix="frostline-labelled-")))
        ours = list(_judged(ours_sessions(interpreter.python, folder / "ours", seed)))
        theirs: list[Said] = []
        if blind.there():
            (folder / "blind").mkdir(parents=True)
            theirs = list(_judged(blind.sessions(folder / "blind", seed)))
    both = ours + theirs
    print(aligned(confusion(both)), flush=True)
    for one in both:
        if not one.right:
            stall = one.stall
            tell(
                f"wrong: {one.source}, {stall.cause}: {(stall.end - stall.begin) / 1e6:.0f} ms of "
                f"{stall.label or 'a gap'} in {stall.victim}, by {stall.culprit or 'no collector'}; "
                f"said: {one.text or one.word}"
            )
    return _results(ours, theirs)


def ours_sessions(python: str, folder: Path, seed: int) -> Iterator[Labelled]:
    """The half that is made here, one session after the other."""
    from benchmarks.labelled import real, reference, requests, synthetic

    faults = int(os.environ.get("FROSTLINE_LABELLED_FAULTS", "90"))
    for number in range(2):
        tell(f"the small server, run {number + 1} of 2")
        with real.served(python, folder / f"small-{number}", seed + number, faults, tell=tell) as labelled:
            yield labelled
    tell("the reference server")
    with reference.served(folder / "reference", seed, max(6, faults * 2 // 3), tell=tell) as labelled:
        yield labelled
    tell("simulated servers")
    yield from synthetic.sessions(folder, seed, max(2, faults // 10), 16)
    yield from requests.sessions(folder, seed, max(2, faults // 20), 16)


def _judged(sessions: Iterator[Labelled]) -> Iterator[Said]:
    from benchmarks.labelled.score import judge
    from frostline.analysis import analyse
    from frostline.recording import read_session

    for labelled in sessions:
        yield from judge(labelled, analyse(read_session(labelled.session)))


def _results(ours: list[Said], theirs: list[Said]) -> list[Result]:
    from benchmarks.common import Result
    from benchmarks.labelled.score import score

    both = ours + theirs
    causes = {one.stall.cause for one in both}
    sources = sorted({one.source for one in both})
    counts = ", ".join(f"{name} {sum(one.source == name for one in both)}" for name in sources)
    enough = len(both) >= STALLS and len(causes) >= CAUSES
    results = [
        Result(
            "stalls with a known cause",
            f"{len(both)} of {len(causes)} causes",
            f"at least {STALLS} of {CAUSES}",
            enough or None,
            f"{counts}; {len(theirs)} labelled by somebody else",
        )
    ]
    halves: list[tuple[str, list[Said]]] = [("ours", ours), ("the blind half", theirs), ("all", both)]
    for name, said in halves if theirs else halves[:1]:
        results += _shares(name, score(said))
    return results


def _shares(name: str, found: Score) -> list[Result]:
    from benchmarks.common import Result

    how = "the report's row of each stall against what was done; exact binomial interval"
    rows = [
        (f"precision of the process named, {name}", found.precision, AT_LEAST, True),
        (f"recall of the process whose collector it was, {name}", found.recall, AT_LEAST, True),
        (f"a process named where no collector was the cause, {name}", found.false_claims, FALSE, False),
    ]
    results = []
    for what, share, bound, least in rows:
        passed = None if not share.tries else share.value >= bound if least else share.value <= bound
        words = f"{'at least' if least else 'at most'} {bound}"
        results.append(Result(what, str(share), words, passed, how))
    return results
