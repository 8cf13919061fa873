"""Host signals of real runs: who is sampled, what survives the helper, and how to do without."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frostline.analysis.hostcause import COLUMN
from frostline.recording import read_session
from frostline.recording.host import HostLog, HostProcess, read_host
from frostline.recording.loss import Losses
from tests.reach.under_run import discard, notes, run, running, wait_for

#: Times steps until it is told to stop; a child computes for a while first.
TARGET = """
import subprocess, sys, threading, time
import frostline
busy = "import time\\nwhile time.process_time() < 0.2: pass\\nopen(0).read()"
child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE)
told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), told.set())).start()
print("ready", flush=True)
while not told.wait(0.01):
    with frostline.span("step"):
        sum(range(50_000))
child.communicate(b"")
"""

STUB = """
typedef unsigned int u; typedef unsigned long long ull;
struct use { u gpu, memory; };
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(u *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(u i, void **h)
{ if (i == 1) return 15; *h = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetName(void *h, char *s, u n) { s[0] = 'A' + (long)h; s[1] = 0; return 0; }
int nvmlDeviceGetClockInfo(void *h, u kind, u *v) { *v = kind == 1 ? 1980 : 2600; return 0; }
int nvmlDeviceGetPowerUsage(void *h, u *v) { *v = 650000; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, ull *v) { *v = 0x44; return 0; }
int nvmlDeviceGetUtilizationRates(void *h, struct use *v) { v->gpu = 93; v->memory = 40; return 0; }
int nvmlDeviceGetTemperature(void *h, u kind, u *v) { return 3; }
"""


def logs(folder: Path) -> list[HostLog]:
    losses = Losses()
    found = read_host(folder, losses)
    assert losses.all() == ()
    return found


def of(log: HostLog, pid: int) -> HostProcess:
    (found,) = [process for process in log.processes if process.pid == pid]
    return found


def sampled_often(folder: Path) -> bool:
    often = [p.track for log in logs(folder) for p in log.processes if p.fast and len(p.track) > 30]
    return any(track.values[-1, COLUMN["private_dirty_kib"]] > 0 for track in often)


def child_computed(folder: Path) -> bool:
    each = [
        p.track.values[-1, COLUMN["main_cpu_us"]] for log in logs(folder) for p in log.processes if not p.fast
    ]
    return bool(each) and max(each) > 150_000


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "target.py").write_text(TARGET)
    return str(tmp_path / "target.py")


def test_who_times_steps_is_looked_at_often_and_others_once_a_second(tmp_path: Path, target: str) -> None:
    with running(tmp_path, sys.executable, target) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        wait_for(lambda: sampled_often(tmp_path / "rec"), "samples")
        wait_for(lambda: child_computed(tmp_path / "rec"), "the child's CPU time")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(60) == 0
        (note,) = wait_for(lambda: [n for n in notes(tmp_path / "rec", "helper") if n["ended"]], "the end")
    (log,) = read_session(tmp_path / "rec").host
    main = of(log, process.pid)
    (other,) = [one for one in log.processes if one.pid != process.pid]
    assert main.fast and not other.fast
    assert main.start_ticks == next(p["start_ticks"] for p in note["processes"] if p["pid"] == process.pid)
    # Counters grow; what the child computed is in its own.
    for one in (main, other):
        counted = one.track.values[:, : COLUMN["disk_ticks"] + 1]
        assert (counted[1:] >= counted[:-1]).all()
    assert main.track.values[-1, COLUMN["main_cpu_us"]] > 20_000
    assert other.track.values[-1, COLUMN["main_cpu_us"]] > 150_000
    assert main.track.values[:, COLUMN["resident_kib"]].max() > 5_000
    assert main.track.values[:, COLUMN["threads"]].max() == 2
    assert main.track.values[-1, COLUMN["voluntary"]] > 50
    assert main.track.values[:, COLUMN["private_dirty_kib"]].max() > 1_000
    assert log.host is not None and len(log.host) > 10 and log.cost > 0 and log.rounds > 30
    # Sealed: nothing but the compressed part is left.
    assert [path.suffix for path in (tmp_path / "rec").glob("host-*")] == [".gz"]


def test_a_killed_helper_leaves_what_it_had_seen(tmp_path: Path, target: str) -> None:
    with running(tmp_path, sys.executable, target) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        wait_for(lambda: sampled_often(tmp_path / "rec"), "samples")
        (note,) = notes(tmp_path / "rec", "helper")
        os.kill(note["pid"], signal.SIGKILL)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(60) == 0
    (log,) = logs(tmp_path / "rec")
    assert len(of(log, process.pid).track) > 30
    discard(tmp_path / "rec")


def test_without(tmp_path: Path) -> None:
    ended = run(tmp_path, sys.executable, "-c", "pass", options=("--no-host",))
    assert ended.code == 0 and not list(ended.folder.glob("host-*"))
    assert read_session(ended.folder).host == []


def test_gpus_through_a_library_of_nvml(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make a library with")
    (tmp_path / "nvml.c").write_text(STUB)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    with running(tmp_path, sys.executable, "-c", "input()", LD_LIBRARY_PATH=str(tmp_path)) as process:
        wait_for(lambda: any(log.gpus for log in logs(tmp_path / "rec")), "samples of the GPUs")
        process.communicate("\n", timeout=60)
        wait_for(lambda: [n for n in notes(tmp_path / "rec", "helper") if n["ended"]], "the end")
    (log,) = logs(tmp_path / "rec")
    # The second one does not open: the others are told all the same.
    assert [name for name, _ in log.gpus] == ["B", "D"]
    assert log.gpus[0][1].values[-1].tolist() == [1980, 2600, 650_000, 0x44, 93, 0]
