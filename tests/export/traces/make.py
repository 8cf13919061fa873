"""Makes the stored trace anew: a real profile of torch on the CPU, and the recording of the same run.

    python -m tests.export.traces.make PYTHON

PYTHON is an interpreter with torch in its environment; Frostline comes to it from outside, as to any
program. The engine holds a heap, and hands its worker one step after another; each collects three times.
While the engine does, the worker waits, and its profile shows nothing: the passes are in the recording. Of
the worker's own passes both tell: torch by its own slices, Frostline by its record. The trace is cut to what
a merge looks at, and of the session the segments are kept.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.reach.under_run import FROSTLINE

HERE = Path(__file__).parent
#: Fields of a slice that say where and when; its arguments are left out.
_KEPT = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "s", "id", "bp")
PROGRAM = """
import gc, multiprocessing, sys
gc.disable()

def work(steps):
    import torch
    from torch.profiler import ProfilerActivity, profile
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    more = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)
    steps.send("ready")
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=more) as profiled:
        while (step := steps.recv()) >= 0:
            for _ in range(3):
                b = torch.relu(a @ b) / 8
            if step in (15, 35, 55):
                gc.collect()
            steps.send(step)
    profiled.export_chrome_trace(sys.argv[1])

ours, theirs = multiprocessing.Pipe()
worker = multiprocessing.get_context("fork").Process(target=work, args=(theirs,), name="Worker")
worker.start()
heap = [[{"number": i}] for i in range(200_000)]
assert ours.recv() == "ready"
for step in range(70):
    if step in (10, 30, 50):
        gc.collect()
    ours.send(step)
    ours.recv()
ours.send(-1)
worker.join()
"""


def made(python: str, folder: Path) -> None:
    """Runs the program and keeps what is to be stored under ``folder``."""
    with tempfile.TemporaryDirectory(prefix="torch-") as name:
        place = Path(name)
        (place / "engine.py").write_text(PROGRAM)
        options = ("--no-host", "--no-counters", "--no-control", "-o", str(place / "session"))
        command = [*FROSTLINE, "run", *options, "--", python, str(place / "engine.py"), str(place / "t.json")]
        subprocess.run(command, check=True, cwd=place)
        # Numbers with a fraction are kept as they stand in the text.
        whole = json.loads((place / "t.json").read_text(), parse_float=_Number)
        out = folder / "session"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        subprocess.run([*FROSTLINE, "report", str(place / "session")], check=True, stdout=subprocess.DEVNULL)
        for segment in (place / "session").glob("*.flr"):
            shutil.copy(segment, out)
    with gzip.GzipFile(folder / "trace.json.gz", "wb", mtime=0) as packed:
        packed.write(written(cut(whole)).encode())


class _Number(float):
    """A number that knows how it was written: torch's times have more digits than a float64 holds."""

    def __new__(cls, text: str) -> _Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __repr__(self) -> str:
        return self.text


def cut(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace without stacks, arguments and paths."""
    events = []
    for event in trace["traceEvents"]:
        own = event.get("name") == "Python GC"
        if event.get("ph") != "M" and event.get("cat") == "python_function" and not own:
            continue
        short = {key: event[key] for key in _KEPT if key in event}
        if event.get("ph") == "M":
            short["args"] = event["args"]
        events.append(short)
    left_out = ("traceEvents", "traceName", "host_name")
    head = {key: value for key, value in trace.items() if key not in left_out}
    return {**head, "traceEvents": events}


def written(value: object) -> str:
    """JSON in which a ``_Number`` stands as torch wrote it."""
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(written, value)) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    made(sys.argv[1], HERE / "torch-cpu")
