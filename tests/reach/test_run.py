"""What the target notices of being run under Frostline: nothing. And what happens when things die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.interpreters import found
from tests.reach.under_run import (
    FROSTLINE,
    discard,
    environment,
    gone,
    notes,
    run,
    running,
    wait_for,
    wait_for_helper,
    write,
)

PYTHON = found()[0].executable

#: Everything that a process inherits, as JSON.
INHERITED = """
import json, os, resource, signal, sys
fds = {}
for name in os.listdir("/proc/self/fd"):
    try:
        fds[name] = os.readlink("/proc/self/fd/" + name)
    except OSError:
        pass
status = {}
with open("/proc/self/status") as file:
    for line in file:
        key, _, value = line.partition(":")
        if key in ("SigBlk", "SigIgn", "SigCgt", "Umask", "Groups", "NoNewPrivs", "Seccomp", "Cpus_allowed"):
            status[key] = value.strip()
try:
    os.waitpid(-1, os.WNOHANG)
    children = True
except ChildProcessError:
    children = False
names = [n for n in dir(resource) if n.startswith("RLIMIT_")]
print(json.dumps({
    "fds": {k: v for k, v in fds.items() if "/proc/" not in v},
    "status": status, "children": children, "cwd": os.getcwd(), "nice": os.nice(0),
    "limits": [resource.getrlimit(getattr(resource, n)) for n in names],
    "argv": sys.orig_argv, "ppid": os.getppid(), "sid": os.getsid(0),
    "pgid": os.getpgid(0), "tty": [os.isatty(i) for i in range(3)],
    "environ": {k: v for k, v in os.environ.items() if not k.startswith("FROSTLINE_") and k != "PYTHONPATH"},
}))
"""


@pytest.mark.parametrize("stdin", [None, "text"])
def test_the_target_inherits_what_it_would_have(tmp_path: Path, stdin: str | None) -> None:
    """Compared with the same command without Frostline, -S so that no recorder is in it either."""
    read, passed = os.pipe()
    os.set_inheritable(passed, True)
    # The last exec of a shell: nothing of ours may stand between.
    command = [PYTHON, "-S", "-c", INHERITED, "an argument", "--", "-o", "x"]
    clean = environment(tmp_path, LC_ALL="C", LANG="C")
    common = {"capture_output": True, "text": True, "pass_fds": (passed,), "cwd": tmp_path, "umask": 0o027}
    try:
        bare = subprocess.run(command, env=clean, input=stdin, **common)  # type: ignore[call-overload]
        ours = subprocess.run(  # type: ignore[call-overload]
            [*FROSTLINE, "run", "-o", str(tmp_path / "rec"), "--", *command], env=clean, input=stdin, **common
        )
    finally:
        os.close(passed)
        os.close(read)
    expected, seen = json.loads(bare.stdout), json.loads(ours.stdout)
    assert set(expected.pop("fds")) == set(seen.pop("fds"))
    assert seen == expected
    assert ours.stderr == bare.stderr


def test_pid_is_kept_so_socket_activation_works(tmp_path: Path) -> None:
    """systemd sets LISTEN_PID to the pid that it started."""
    with running(tmp_path, PYTHON, "-c", "import os; print(os.getpid())") as process:
        output, _ = process.communicate(timeout=60)
    assert int(output) == process.pid


@pytest.mark.parametrize("code", [0, 1, 3, 125, 255])
def test_the_exit_code_is_the_targets(tmp_path: Path, code: int) -> None:
    assert run(tmp_path, "sh", "-c", f"exit {code}").code == code


def _session_left(tmp_path: Path) -> list[str]:
    return sorted(os.listdir(tmp_path / "rec")) if (tmp_path / "rec").exists() else []


def test_not_found_is_127_and_leaves_nothing(tmp_path: Path) -> None:
    ended = run(tmp_path, "surely-no-such-command", wait=False)
    assert ended.code == 127
    assert "surely-no-such-command: command not found" in ended.errors
    assert _session_left(tmp_path) == []


def test_not_executable_is_126_and_leaves_nothing(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain", "#!/bin/sh\n")
    assert run(tmp_path, str(plain), wait=False).code == 126
    assert run(tmp_path, str(tmp_path), wait=False).code == 126
    assert _session_left(tmp_path) == []


def test_a_script_whose_interpreter_is_not_there_is_126_and_taken_back(tmp_path: Path) -> None:
    """Only exec itself can find this out: the helper is there already and takes everything back."""
    before = set(os.listdir("/dev/shm"))
    script = write(tmp_path / "script", "#!/surely/not/there\n", 0o755)
    ended = run(tmp_path, str(script), wait=False)
    assert ended.code == 126
    wait_for(lambda: not (tmp_path / "rec").exists(), "the session is taken back")
    user = f"frostline-{os.geteuid()}-"
    mine = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith(user)}
    assert not any(_empty(name) for name in mine)


def _empty(name: str) -> bool:
    """An empty folder, twice: other tests' sessions come and go beside this one."""
    path = Path("/dev/shm") / name
    try:
        if os.listdir(path) or time.time() - path.stat().st_mtime < 5:
            return False
    except OSError:
        return False
    return True


def test_a_text_without_a_first_line_runs_as_in_a_shell(tmp_path: Path) -> None:
    script = write(tmp_path / "script", "echo ran $1\n", 0o755)
    assert run(tmp_path, str(script), "well").output.strip() == "ran well"


def test_a_failure_of_ours_is_125(tmp_path: Path) -> None:
    write(tmp_path / "rec", "a file")
    ended = run(tmp_path, "true", wait=False)
    assert ended.code == 125 and "[session-folder]" in ended.errors


def test_a_foreign_folder_is_not_written_into(tmp_path: Path) -> None:
    write(tmp_path / "rec/thesis.txt", "")
    ended = run(tmp_path, "true", wait=False)
    assert ended.code == 2 and "no session" in ended.errors
    assert _session_left(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        (("--policy", "freez"), "freeze"),
        (("--policy", "tune:1,2"), "tune:50000,20,100"),
        (("--span", "no colon"), "module:qualname"),
        (("--ready-url", "ftp://x"), "http://127.0.0.1:8000/health"),
        (("--ready-log", "("), "regular expression"),
        (("--ready-after", "soon"), "60s"),
        (("--ready-after", "1s", "--ready-url", "http://x/"), "exclude each other"),
        (("--ready-after", "1s", "--no-control"), "--no-control"),
        (("--retention", "much"), "256M"),
        (("--preset", "vlm"), "auto, none"),
        (("--no-such-option",), "--no-such-option"),
    ],
)
def test_nonsense_is_refused_before_anything_starts(
    tmp_path: Path, options: tuple[str, ...], meant: str
) -> None:
    ended = run(tmp_path, "touch", str(tmp_path / "started"), options=options, wait=False)
    assert ended.code == 2
    assert meant in ended.errors and "Traceback" not in ended.errors
    assert not (tmp_path / "started").exists()
    assert _session_left(tmp_path) == []


def test_no_command_is_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, wait=False)
    assert ended.code == 2 and "frostline run [OPTIONS] -- COMMAND" in ended.errors


def test_stdin_reaches_the_target(tmp_path: Path) -> None:
    ended = run(tmp_path, PYTHON, "-c", "import sys; print(sys.stdin.read()[::-1])", stdin="abc")
    assert ended.output.strip() == "cba"


#: SIGHUP as it is by itself: a suite under nohup hands it on ignored.
WAITING = (
    "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); print('up', flush=True); signal.pause()"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_signal_ends_the_target_and_all_is_sealed(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, PYTHON, "-c", WAITING) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
    helper = wait_for_helper(tmp_path / "rec")
    (target,) = helper["processes"]
    assert target["recorded"]
    assert not (tmp_path / "rec/active").is_symlink()
    assert list((tmp_path / "rec").glob("*.flr"))


def test_sigint_becomes_the_targets_keyboard_interrupt(tmp_path: Path) -> None:
    code = (
        "import time\ntry:\n    print('up', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('interrupted')"
    )
    with running(tmp_path, PYTHON, "-c", code) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert (output, process.returncode) == ("interrupted\n", 0)


def test_a_closed_pipe_ends_the_target_as_ever(tmp_path: Path) -> None:
    """Python ignores SIGPIPE and exec passes that on: a shell's `yes | head` would never end."""
    ended = subprocess.run(
        ["sh", "-c", f"{' '.join(FROSTLINE)} run -o {tmp_path}/rec -- yes | head -1; echo done"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stdout == "y\ndone\n" and ended.stderr == ""


def test_the_helper_ends_within_a_second_of_the_last_process(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", WAITING) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (helper,) = wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper's notes")
        process.kill()
        process.wait(timeout=30)
        # A second is the promise; a loaded machine that runs this suite gets three.
        assert gone(helper["pid"], 3.0)


def test_the_helper_is_outside_the_targets_tree_and_holds_nothing(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", WAITING) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (helper,) = wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper's notes")
        pid = helper["pid"]
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        assert int(fields[1]) != process.pid and int(fields[3]) == int(fields[2]) != os.getsid(0)
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        files = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        # A pidfd tells the command's end; it holds nothing of the command's. What it reads of the host
        # are files of /proc, kept open.
        files = {name for name in files if not name.startswith("/proc/")}
        assert files <= {"/dev/null", "anon_inode:[pidfd]"}, files
        assert b"signal.pause" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"FROSTLINE_" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_helper_that_is_killed_breaks_nothing(tmp_path: Path) -> None:
    code = "import gc, sys; print('up', flush=True); sys.stdin.read(); gc.collect(); print('fine')"
    with running(tmp_path, PYTHON, "-c", code) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (helper,) = wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper's notes")
        os.kill(helper["pid"], signal.SIGKILL)
        assert gone(helper["pid"], 10)
        output, errors = process.communicate("go", timeout=30)
    assert (process.returncode, output, errors) == (0, "fine\n", "")
    # What was recorded is where the target left it, for `report` to seal.
    assert len(discard(tmp_path / "rec")) == 1


def test_a_session_that_is_removed_while_it_runs_leaves_nothing(tmp_path: Path) -> None:
    code = "import gc, sys; print('up', flush=True); sys.stdin.read(); gc.collect(); print('fine')"
    with running(tmp_path, PYTHON, "-c", code) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (helper,) = wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper's notes")
        active = os.readlink(tmp_path / "rec/active")
        shutil.rmtree(tmp_path / "rec")
        output, errors = process.communicate("go", timeout=30)
    assert (process.returncode, output, errors) == (0, "fine\n", "")
    assert gone(helper["pid"], 10)
    assert not os.path.exists(active)


def test_without_a_folder_the_session_has_a_name_and_is_remembered(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*FROSTLINE, "run", "--", "true"], env=environment(tmp_path), cwd=tmp_path, timeout=60, check=False
    )
    assert ended.returncode == 0
    (folder,) = tmp_path.glob("frostline-*")
    wait_for_helper(folder)
    assert (tmp_path / "state/frostline/last").read_text().strip() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_session_that_cannot_be_remembered_is_no_failure(tmp_path: Path) -> None:
    write(tmp_path / "state", "a file where a folder should be")
    assert run(tmp_path, "true").code == 0


def test_secrets_are_not_written(tmp_path: Path) -> None:
    run(
        tmp_path,
        PYTHON,
        "-c",
        "import time; time.sleep(0.6)",
        "--api-key",
        "hunter2",
        "https://u:hunter3@host/",
    )
    for path in (tmp_path / "rec").glob("*"):
        if path.is_file():
            assert b"hunter" not in path.read_bytes(), path


def test_a_run_inside_a_run_records_each_once(tmp_path: Path) -> None:
    inner = f"{' '.join(FROSTLINE)} run -o inner -- {PYTHON} -c 'import time; time.sleep(0.5)'"
    ended = run(tmp_path, "sh", "-c", inner)
    helper = wait_for_helper(tmp_path / "inner")
    assert [p["recorded"] for p in helper["processes"] if p["python"]] == [True]
    assert all(p["missed"] in (None, "other-session") for p in ended.processes), ended.processes
    assert not any("frostline-helper" in p["argv"] for p in ended.processes)
    assert not (ended.folder / "active").is_symlink(), "nothing of the inner helper was recorded"


def test_sigchld_that_is_ignored_is_no_problem(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*FROSTLINE, "run", "-o", "rec", "--", "sh", "-c", "exit 4"],
        env=environment(tmp_path),
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        timeout=60,
        check=False,
    )
    assert ended.returncode == 4


def _can_unshare() -> bool:
    unshare = shutil.which("unshare")
    command = [unshare or "", "--pid", "--fork", "--mount-proc", "true"]
    return bool(unshare) and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_unshare(), reason="no right to make a pid namespace")
def test_as_pid_1_nothing_is_lost_with_the_container(tmp_path: Path) -> None:
    code = "import os, gc, time; gc.collect(); print(os.getpid()); time.sleep(0.5)"
    done = subprocess.run(
        [
            "unshare",
            "--pid",
            "--fork",
            "--mount-proc",
            *FROSTLINE,
            "run",
            "-o",
            "rec",
            "--",
            PYTHON,
            "-c",
            code,
        ],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "1\n")
    # The kernel killed the helper with the namespace: what was written is in the session itself.
    assert list((tmp_path / "rec/live").glob("1-*.flr"))
    (helper,) = notes(tmp_path / "rec", "helper")
    assert helper["ended"] is False and "PID 1" in helper["warnings"][0]
    from frostline.recording import read_session

    (series,) = read_session(tmp_path / "rec").series
    assert len(series.passes) >= 1
