"""``python -m benchmarks [row ...]``: every row of the table, or those named. Exit 3 if one fails."""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import Result, Row, prepare, pythons

#: Row's name: module and whether it is measured for each interpreter or once.
ROWS = {
    "startup": True,
    "callback": True,
    "pauselog": True,
    "spans": True,
    "requests": True,
    "retained": True,
    "kill": True,
    "share": False,
    "report": False,
    "gaps": False,
    "clients": False,
    "parquet": False,
    "page": False,
    "torchtrace": False,
    "damaged": False,
    "hostile": False,
    "follow": True,
    "control": True,
    "freeze": True,
    "heap": True,
    "load": False,
    "forecast": True,
    "host": False,
    "preempted": False,
    "watch": False,
    "soak": False,
    "labelled": False,
    "ablation": False,
    "honesty": False,
}


def load(name: str) -> Row:
    row: Row = importlib.import_module(f"benchmarks.{name}").measure
    return row


def show(name: str, version: str, result: Result, seconds: float) -> None:
    verdict = {True: "pass", False: "FAIL", None: "not measured"}[result.passed]
    print(f"{verdict:12s} {name:9s} {version:8s} {result.what}: {result.measured} (bound {result.bound})")
    print(f"{'':12s} {'':9s} {'':8s} {result.how}; {seconds:.0f} s", flush=True)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        print(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    failed = unmeasured = 0
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as folder:
        interpreters = [prepare(path, Path(folder)) for path in pythons()]
        print("interpreters:", ", ".join(map(str, interpreters)), flush=True)
        for name in names or ROWS:
            measure = load(name)
            for interpreter in interpreters if ROWS[name] else interpreters[:1]:
                begun = time.monotonic()
                try:
                    results = measure(interpreter)
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"
                    results = [Result(name, "no value", "", False, text)]
                for result in results:
                    show(name, str(interpreter), result, time.monotonic() - begun)
                    failed += result.passed is False
                    unmeasured += result.passed is None
    print(f"{failed} failed, {unmeasured} not measured")
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
