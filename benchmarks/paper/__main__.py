"""``python -m benchmarks.paper [ROW ...] [--quick] [--dir DIR]``: the rows named, or all of them.

Options behind the rows are given to each: ``--quick`` tries the way (small sizes, nothing is judged), and
``--dir`` is where the runs are kept (``paper-runs``): a run that is there is not made again. Exit 1 where a
bound was missed, 2 for a row that is none.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

from frostline.errors import FrostlineError

#: Row -> what it shows.
ROWS = {
    "a10": "which role's passes leave the ranks idle: an ablation by role",
    "a12": "token storage that the collector need not walk",
    "a13": "a backlog of chunks merged in linear time",
    "a14": "half an hour of the reference server, stock and under the policies",
    "b": "the step ledger: a hook that makes the pauses that it measures, and the same repaired",
    "c5": "a ladder of open-loop rates: stock, the engine, the front end, and both frozen",
    "d8": "a heap that keeps growing: stock, frozen once, and follow",
}


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """(rows, options): the rows stand before the first option."""
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:first], words[first:]


def main(words: list[str]) -> int:
    names, options = split(words)
    unknown = [name for name in names if name not in ROWS]
    if unknown or "--help" in options or "-h" in options:
        print(__doc__)
        for name, about in ROWS.items():
            print(f"  {name:4s} {about}")
        if unknown:
            print(f"no such row: {', '.join(unknown)}", file=sys.stderr)
        return 2 if unknown else 0
    present = [name for name in ROWS if importlib.util.find_spec(f"benchmarks.paper.{name}") is not None]
    missed = 0
    for name in names or present:
        row = importlib.import_module(f"benchmarks.paper.{name}")
        try:
            missed += row.main(options) != 0
        except (RuntimeError, OSError, FrostlineError) as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            missed += 1
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
