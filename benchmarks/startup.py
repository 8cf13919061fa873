"""What the start-up hook costs an interpreter: modules and instructions, against an empty ``.pth``."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.common import TARGETS, Interpreter, Result, environment, session

REPEATS = 3
MOST_MODULES = 12
MOST_INSTRUCTIONS = 1.05


def modules(python: str, **settings: str) -> set[str]:
    script = str(TARGETS / "modules.py")
    done = subprocess.run(
        [python, script], check=True, capture_output=True, text=True, env=environment(**settings)
    )
    return set(done.stdout.split())


def instructions(python: str, **settings: str) -> int:
    """Fewest instructions of several starts, by callgrind (perf counts are not there in most machines)."""
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(REPEATS):
            out = Path(folder) / f"out-{number}"
            subprocess.run(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", python, "-c", "pass"],
                check=True,
                capture_output=True,
                env=environment(**settings),
            )
            found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
            if found is None:
                raise RuntimeError("callgrind wrote no total")
            counts.append(int(found[1]))
    return min(counts)


def measure(interpreter: Interpreter) -> list[Result]:
    plain = modules(interpreter.bare)
    unset = modules(interpreter.python) - plain
    # On 3.13 and later a .pth with an import line costs encodings.utf_8_sig: any one does.
    unset -= {"encodings.utf_8_sig"}
    with session() as folder:
        recording = (
            modules(interpreter.python, FROSTLINE_OUTPUT=str(folder)) - plain - {"encodings.utf_8_sig"}
        )
    how = "sys.modules of a script against the same environment with an empty .pth"
    results = [
        Result("modules, nothing asked for", str(sorted(unset) or 0), "0 more", not unset, how),
        Result(
            "modules, recording",
            f"{len(recording)} more",
            f"{MOST_MODULES} more",
            len(recording) <= MOST_MODULES,
            how + ": " + " ".join(sorted(recording)),
        ),
    ]
    what = "instructions of a start, nothing asked for"
    if shutil.which("valgrind") is None:
        results.append(Result(what, "no valgrind", f"{MOST_INSTRUCTIONS} x", None, "install valgrind"))
        return results
    bare, hooked = instructions(interpreter.bare), instructions(interpreter.python)
    ratio = hooked / bare
    how = f"callgrind, fewest of {REPEATS}: {hooked:,} against {bare:,}"
    results.append(Result(what, f"{ratio:.3f} x", f"{MOST_INSTRUCTIONS} x", ratio <= MOST_INSTRUCTIONS, how))
    return results
