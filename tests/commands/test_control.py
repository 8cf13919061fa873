"""``frostline freeze | thaw | collect | tune | ping`` on live targets of every kind."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.reach import asking, segments
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import FROSTLINE, environment, running, wait_for

PYTHON = found()[0].executable
COMMANDS = ("freeze", "thaw", "collect", "tune", "ping")

#: Each says "up" when it is in the state meant, and ends when its input does, or is killed.
STATES = {
    "sleep": "import time\nprint('up', flush=True)\ntime.sleep(600)",
    "read": "import sys\nprint('up', flush=True)\nsys.stdin.read()",
    "lock": (
        "import threading\nlock = threading.Lock()\nlock.acquire()\nprint('up', flush=True)\nlock.acquire()"
    ),
    "busy": "print('up', flush=True)\nx = 0\nwhile True:\n    x += 1",
    "asyncio": (
        "import asyncio\nasync def main():\n    print('up', flush=True)\n    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    ),
    "join": (
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(600,), daemon=True)\n"
        "t.start()\nprint('up', flush=True)\nt.join()"
    ),
}
#: The main thread does not come back from C for longer than any test waits.
IN_C = "import hashlib\nprint('up', flush=True)\nhashlib.pbkdf2_hmac('sha256', b'x', b'y', 2_000_000_000)"
#: A parent and two forks of it, each in its own loop.
FORKS = (
    "import os, sys, time\nfor _ in range(2):\n    if os.fork() == 0:\n        print('up', flush=True)\n"
    "        time.sleep(600); os._exit(0)\nprint('up', flush=True)\ntime.sleep(600)"
)


def frostline(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FROSTLINE, *arguments],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )


def up(process: subprocess.Popen[str], times: int = 1) -> None:
    assert process.stdout is not None
    for _ in range(times):
        assert process.stdout.readline() == "up\n"


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    value: list[dict[str, object]] = json.loads(done.stdout)["processes"]
    return value


def marks(tmp_path: Path, pid: int) -> list[tuple[int, int]]:
    """Kind and flags of each mark that a live process has made since it attached."""
    active = Path(os.readlink(tmp_path / "rec" / "active"))
    record = struct.Struct(layout.MARK)
    names = [name for name, _, _ in layout.MARK_FIELDS]
    seen = []
    for name, path in segments.listing(str(active)).items():
        if name.pid != pid:
            continue
        header = segments.read_header(path)
        assert header is not None
        data = Path(path).read_bytes()
        for region in header.regions:
            if region.kind != layout.REGION_MARKS:
                continue
            for slot in range(region.capacity):
                at = region.offset + slot * region.record_size
                if data[at + region.record_size - 8 : at + region.record_size] != bytes(8):
                    value = dict(zip(names, record.unpack_from(data, at), strict=True))
                    seen.append((value["kind"], value["flags"]))
    return seen


@pytest.mark.parametrize("state", STATES)
def test_every_command_is_answered(tmp_path: Path, state: str) -> None:
    with running(tmp_path, PYTHON, "-c", STATES[state]) as process:
        up(process)
        for command in (("ping",), ("freeze",), ("collect",), ("tune", "900,8,7"), ("thaw",)):
            done = frostline(tmp_path, *command)  # the newest session
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert str(process.pid) in done.stdout and "1 of 1 processes did it" in done.stdout
        kinds = [kind for kind, _ in marks(tmp_path, process.pid)]
        assert layout.MARK_FREEZE in kinds and layout.MARK_THAW in kinds and layout.MARK_THRESHOLD in kinds
        assert all(
            flags & layout.MARK_FLAG_OURS
            for kind, flags in marks(tmp_path, process.pid)
            if kind in (layout.MARK_FREEZE, layout.MARK_THAW, layout.MARK_THRESHOLD)
        )
        again = frostline(tmp_path, "thaw", str(process.pid))
        assert again.returncode == 0 and "nothing of Frostline's was frozen" in again.stdout


@every_interpreter
def test_what_the_target_sees(tmp_path: Path, interpreter: Interpreter) -> None:
    code = (
        "import gc, sys\nbefore = gc.get_freeze_count()\nfor line in sys.stdin:\n"
        "    print(gc.get_freeze_count() - before > 100, gc.get_threshold(), flush=True)\n"
    )
    with running(tmp_path, interpreter.executable, "-c", code) as process:
        assert process.stdin is not None and process.stdout is not None

        def see() -> str:
            process.stdin.write("?\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return process.stdout.readline().strip()  # type: ignore[union-attr]

        assert see().startswith("False")
        assert frostline(tmp_path, "freeze", str(process.pid)).returncode == 0
        assert frostline(tmp_path, "tune", "50000,20,100", "rec").returncode == 0
        assert see() == "True (50000, 20, 100)"
        assert frostline(tmp_path, "thaw", "rec").returncode == 0
        assert see() == "False (50000, 20, 100)"


def test_a_main_thread_in_c_is_named_and_bounded(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", IN_C) as process:
        up(process)
        done = frostline(tmp_path, "freeze", "--wait", "0.5", "--json")
        (row,) = rows(done)
        assert done.returncode == 1
        assert row["outcome"] == "none" and "its main thread is in C" in str(row["detail"])
        assert 0.4 < float(str(row["took"])) < 5
        assert process.poll() is None
        process.kill()


def test_forked_children_are_asked_each(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", FORKS) as process:
        try:
            up(process, 3)
            done = frostline(tmp_path, "freeze", "rec", "--json")
            assert done.returncode == 0 and len(rows(done)) == 3
            pids = {int(str(row["pid"])) for row in rows(done)}
            assert process.pid in pids
            for pid in pids:
                assert layout.MARK_FREEZE in [kind for kind, _ in marks(tmp_path, pid)]
            alone = frostline(tmp_path, "ping", str(process.pid), "--json")
            assert [row["pid"] for row in rows(alone)] == [process.pid]
            tree = frostline(tmp_path, "ping", str(process.pid), "--tree", "--json")
            assert {row["pid"] for row in rows(tree)} == pids
            child = (pids - {process.pid}).pop()
            assert [row["pid"] for row in rows(frostline(tmp_path, "ping", str(child), "--json"))] == [child]
            # One of them goes, and what is left is still served.
            os.kill(child, signal.SIGKILL)
            wait_for(lambda: not segments_alive(child), "it has gone")
            rest = frostline(tmp_path, "ping", "rec", "--json")
            assert {row["pid"] for row in rows(rest)} == pids - {child}
        finally:
            for row in rows(frostline(tmp_path, "ping", "rec", "--json")):
                os.kill(int(str(row["pid"])), signal.SIGKILL)


def segments_alive(pid: int) -> bool:
    from frostline.reach import proc

    now = proc.stat(pid)
    return now is not None and now.alive


def test_a_process_that_was_missed_is_named_and_counts(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-S', '-c', "
        "'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)\nprint('up', flush=True)\n"
        "sys.stdin.readline(); child.communicate()"
    )
    with running(tmp_path, PYTHON, "-c", code) as process:
        up(process)

        def named() -> str:
            done = frostline(tmp_path, "freeze")
            return done.stdout if done.returncode == 1 and "-S" in done.stdout else ""

        text = wait_for(named, "the missed child is named")
        assert "NOT DONE: not recorded" in text and "1 of 2 processes did it" in text
        process.communicate("\n", timeout=30)


def test_control_off_is_said(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", STATES["read"], options=("--no-control",)) as process:
        up(process)
        done = frostline(tmp_path, "freeze")
        assert done.returncode == 1 and "control is off in it" in done.stdout
        process.communicate(timeout=30)


def test_another_program_after_an_exec_is_not_signalled(tmp_path: Path) -> None:
    """Pid and start stay the same over an exec, and the old series is still there."""
    code = "import os, sys\nprint('up', flush=True)\nsys.stdin.readline()\nos.execv('/bin/cat', ['cat'])"
    with running(tmp_path, PYTHON, "-c", code) as process:
        up(process)
        assert frostline(tmp_path, "ping").returncode == 0
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        wait_for(
            lambda: Path(f"/proc/{process.pid}/exe").resolve().name != Path(PYTHON).resolve().name, "exec"
        )
        done = frostline(tmp_path, "ping", "rec")
        assert done.returncode == 1 and "another program" in done.stdout + done.stderr
        process.communicate(timeout=30)


def test_the_program_after_an_exec_is_asked(tmp_path: Path) -> None:
    code = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {STATES['sleep']!r}])"
    with running(tmp_path, PYTHON, "-c", code) as process:
        up(process)
        for where in ("rec", str(process.pid)):
            done = frostline(tmp_path, "freeze", where)
            assert done.returncode == 0 and "1 of 1" in done.stdout, done.stdout


def test_a_pid_that_is_used_again_is_not_signalled(tmp_path: Path) -> None:
    """The header's start is another process's: as after a pid has come round."""
    with running(tmp_path, PYTHON, "-c", STATES["read"]) as process:
        up(process)
        (target,) = asking.targets(str(process.pid))
        fields = [name for name, _, _ in layout.HEADER_FIELDS]
        codes = [code for _, code, _ in layout.HEADER_FIELDS]
        offset = struct.calcsize("<" + "".join(codes[: fields.index("process_start")]))
        with open(target.mailbox, "r+b") as file:
            file.seek(offset)
            old = file.read(8)
            file.seek(offset)
            file.write((int.from_bytes(old, "little") - 1).to_bytes(8, "little"))
        (answer,) = asking.ask_all([target], layout.OP_PING, seconds=2.0)
        assert answer.outcome == "gone"
        words = segments.read_words(target.mailbox)
        assert words is not None and words["request"] == 0
        done = frostline(tmp_path, "ping", "rec")
        assert done.returncode == 1 and "1 of 1" not in done.stdout
        process.communicate(timeout=30)


def test_a_session_that_has_ended(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", STATES["read"]) as process:
        up(process)
        process.communicate(timeout=30)
    for command in (("freeze",), ("tune", "1,2,3")):
        done = frostline(tmp_path, *command, "rec")
        assert done.returncode == 1 and "no-targets" in done.stderr and not done.stdout


def test_a_pid_that_is_not_there_and_one_that_is_not_recorded(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        done = frostline(tmp_path, "freeze", str(child.pid))
        assert done.returncode == 1 and "not recorded" in done.stdout
    finally:
        child.communicate(b"\n")
    done = frostline(tmp_path, "freeze", str(child.pid))
    assert done.returncode == 1 and "no-process" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("tune",), ("tune", "x"), ("tune", "1,2"), ("tune", "1,2,3,4"), ("tune", "-1,2,3"),
        ("tune", "1,2,1e9"), ("tune", "2147483648,1,1"), ("tune", ""), ("tune", "٣,1,1"),
        ("collect", "--generation", "3"), ("freeze", "--wait", "0"),
        ("freeze", "--wait", "never"), ("ping", "a", "b"), ("thaw", "--all"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_nonsense_is_refused_before_anything_is_sent(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with running(tmp_path, PYTHON, "-c", STATES["read"]) as process:
        up(process)
        (target,) = asking.targets(str(process.pid))
        done = frostline(tmp_path, *arguments)
        assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr
        words = segments.read_words(target.mailbox)
        assert words is not None and words["request"] == 0
        process.communicate(timeout=30)


def test_another_users_process_is_refused() -> None:
    """Process 1 is root's; as root, a child that has become nobody's."""
    if os.geteuid():
        with pytest.raises(FrostlineError) as error:
            asking.targets("1")
        assert error.value.slug == "not-yours"
        return
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", "import os; os.setuid(65534); print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        with pytest.raises(FrostlineError) as error:
            asking.targets(str(child.pid))
        assert error.value.slug == "not-yours"
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize("state", ["busy", "sleep"])
def test_fifty_callers_at_once(tmp_path: Path, state: str) -> None:
    """Each is answered or told so, in bounded time; the target goes on and its memory stays flat."""
    with running(tmp_path, PYTHON, "-c", STATES[state]) as process:
        up(process)
        (target,) = asking.targets(str(process.pid))
        operations = [
            (layout.OP_PING, ()),
            (layout.OP_FREEZE, ()),
            (layout.OP_THAW, ()),
            (layout.OP_COLLECT, (0,)),
        ]
        asking.ask_all([target], layout.OP_PING)
        before = _resident(process.pid)
        answers = []
        for op, arguments in operations:
            answers += asking.ask_all([target] * 50, op, arguments, seconds=20.0)
        assert [answer.outcome for answer in answers] == ["done"] * 200
        assert _resident(process.pid) - before < 4 << 20
        words = segments.read_words(target.mailbox)
        assert words is not None and words["state"] == layout.STATE_RECORDING
        assert words["request"] == words["reply"] and words["request"] >= 201
        assert process.poll() is None


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_signal_that_was_lost_is_sent_again(tmp_path: Path) -> None:
    """The main thread holds SIGURG back when asked, and takes it 0.3 s later: one signal would do, but
    here the pending one is taken away (sigtimedwait), as CPython can lose one."""
    code = (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])\nprint('up', flush=True)\n"
        "signal.sigwait([signal.SIGURG])\nsignal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGURG])\n"
        "import time\ntime.sleep(600)"
    )
    with running(tmp_path, PYTHON, "-c", code) as process:
        up(process)
        done = frostline(tmp_path, "ping", "--json")
        assert done.returncode == 0, done.stdout
        (row,) = rows(done)
        assert float(str(row["took"])) < 3
