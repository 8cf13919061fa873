"""Odd ways to be started, and a helper that cannot be: the command runs all the same."""

from __future__ import annotations

import itertools
import json
import os
import pwd
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from frostline.reach.helper import take_back
from tests.interpreters import SOURCE, found
from tests.reach.under_run import FROSTLINE, discard, environment, notes, wait_for, wait_for_helper, write

PYTHON = found()[0].executable
ENTRY = [sys.executable, "-c", "from frostline.commands.main import main; main()"]

#: What a command sees of its standard streams.
STREAMS = (
    "import os, sys; seen = [os.path.exists(f'/proc/self/fd/{i}') for i in (0, 1, 2)]\n"
    "os.write(int(sys.argv[1]), repr(seen).encode())"
)


@pytest.mark.parametrize("closed", [c for n in (1, 2, 3) for c in itertools.combinations(range(3), n)])
def test_closed_streams_are_closed_for_the_command_and_harm_nobody(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    read, passed = os.pipe()
    os.set_inheritable(passed, True)
    # -S -E: a command that is no recorded Python shows the descriptors as they were at the exec; the
    # interpreter itself opens none of the three.
    command = [*FROSTLINE, "run", "-o", "rec", "--", PYTHON, "-SE", "-c", STREAMS, str(passed)]
    redirections = "".join(f" {i}{'<' if i == 0 else '>'}&-" for i in closed)
    script = f"exec {shlex.join(command)}{redirections}"
    done = subprocess.run(
        ["sh", "-c", script],
        env=environment(tmp_path),
        cwd=tmp_path,
        pass_fds=(passed,),
        capture_output=True,
        text=True,
        timeout=60,
    )
    os.close(passed)
    with os.fdopen(read) as file:
        seen = file.read()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert seen == repr([i not in closed for i in range(3)])
    helper = wait_for_helper(tmp_path / "rec")
    assert helper["ended"] and helper["warnings"] == []


def without_a_helper(tmp_path: Path, *command: str, **options: str) -> subprocess.CompletedProcess[str]:
    """The helper's interpreter is one that ends at once."""
    code = "import sys; sys.executable = '/bin/false'; from frostline.commands.main import main; main()"
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    return subprocess.run(
        [sys.executable, "-c", code, "run", "-o", "rec", *arguments, "--", *command],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_helper_that_does_not_start_is_a_warning(tmp_path: Path) -> None:
    done = without_a_helper(tmp_path, PYTHON, "-c", "import gc, sys; gc.collect(); sys.exit(3)")
    assert done.returncode == 3
    assert done.stderr.startswith("frostline: the helper process did not start") and "[helper]" in done.stderr
    (note,) = notes(tmp_path / "rec", "run")
    assert "did not start" in note["warnings"][0]
    from frostline.reach.sealing import seal_dead
    from frostline.recording import read_session

    assert seal_dead(str(tmp_path / "rec")).moved == 1
    (series,) = read_session(tmp_path / "rec").series
    assert len(series.passes) >= 1


def test_without_a_helper_the_output_goes_where_it_went(tmp_path: Path) -> None:
    """Nobody would pass on what --ready-log puts aside."""
    done = without_a_helper(tmp_path, "sh", "-c", "echo out; echo err >&2", ready_log="out")
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert done.stderr.splitlines()[-1] == "err" and "[helper]" in done.stderr
    assert not list((tmp_path / "rec").glob("output-*"))
    discard(tmp_path / "rec")


def test_without_a_helper_a_command_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    script = write(tmp_path / "script", "#!/surely/not/there\n", 0o755)
    done = without_a_helper(tmp_path, str(script))
    assert done.returncode == 126 and not (tmp_path / "rec").exists()


def test_a_helper_that_hangs_is_given_up(tmp_path: Path) -> None:
    hanging = write(tmp_path / "hanging", "#!/bin/sh\nexec sleep 600\n", 0o755)
    code = (
        f"import sys; sys.executable = {str(hanging)!r}; from frostline.reach import launch\n"
        "launch._PATIENCE = 0.3\nfrom frostline.commands.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "-o", "rec", "--", "echo", "ran"],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "ran\n") and "no answer within 0.3 s" in done.stderr
    discard(tmp_path / "rec")


# --- environments -----------------------------------------------------------------------
def started(
    tmp_path: Path, prefix: list[str], options: list[str], command: list[str], **more: object
) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
        [*prefix, *ENTRY, "run", *options, "--", *command],
        **{
            "env": environment(tmp_path),
            "cwd": tmp_path,
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "text": True,
            "timeout": 60,
            **more,
        },
    )
    return done


COLLECT = [PYTHON, "-c", "import gc; gc.collect(); print('ran')"]


@pytest.mark.parametrize(
    "prefix",
    [
        ["nohup"],
        ["setsid", "--wait"],
        ["env", "-i", f"PATH={os.environ['PATH']}"],
        ["env", "-u", "HOME", "-u", "XDG_STATE_HOME", "-u", "TMPDIR"],
        ["env", "LANG=C", "LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0"],
    ],
    ids=["nohup", "setsid", "empty", "homeless", "C"],
)
def test_any_environment_will_do(tmp_path: Path, prefix: list[str]) -> None:
    # Without HOME the user's own note of the newest session is the one that is written.
    state = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".local/state/frostline/last"
    before = state.read_bytes() if state.exists() else None
    done = started(tmp_path, prefix, ["-o", "rec"], COLLECT)
    assert (done.returncode, done.stdout) == (0, "ran\n") and "frostline" not in done.stderr, done.stderr
    (process,) = wait_for_helper(tmp_path / "rec")["processes"]
    assert process["recorded"]
    if before is not None:
        state.write_bytes(before)


@pytest.mark.parametrize("name", ["a b\nnew line žluťoučký-猫", b"\xff\xfe q'u\"o$te"])
def test_any_folder_will_do(tmp_path: Path, name: str | bytes) -> None:
    """As the session's folder, and as the working folder."""
    folder = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    os.mkdir(folder)
    for options, rec in (
        (["-o", os.fsdecode(folder)], folder),
        (["-o", "rec"], os.path.join(folder, b"rec")),
    ):
        if rec == folder:
            os.rmdir(folder)
        done = started(tmp_path, [], options, COLLECT, cwd=tmp_path if rec == folder else folder)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
        path = Path(os.fsdecode(rec))
        (process,) = wait_for_helper(path)["processes"]
        assert process["recorded"]
        for command in (["status"], ["report"], ["status", str(path)]):
            shown = subprocess.run(
                [*ENTRY, *command], env=environment(tmp_path), capture_output=True, timeout=60, cwd=tmp_path
            )
            assert shown.returncode == 0, (command, shown.stderr)
        shutil.rmtree(folder)
        os.mkdir(folder)


def test_an_empty_folder_name_is_refused(tmp_path: Path) -> None:
    done = started(tmp_path, [], ["-o", ""], ["true"])
    assert done.returncode == 2 and "[session-folder]" in done.stderr


def test_a_command_line_of_a_hundred_kilobytes(tmp_path: Path) -> None:
    words = [f"word-{i:06d}" for i in range(8000)]
    done = started(tmp_path, [], ["-o", "rec"], [PYTHON, "-c", "import sys; print(len(sys.argv))", *words])
    assert (done.returncode, done.stdout) == (0, "8001\n")
    (process,) = wait_for_helper(tmp_path / "rec")["processes"]
    assert process["recorded"]
    shown = subprocess.run(
        [*ENTRY, "status", "rec"], env=environment(tmp_path), capture_output=True, timeout=60, cwd=tmp_path
    )
    assert shown.returncode == 0


@pytest.mark.parametrize("files", [4, 8, 12])
def test_few_descriptors(tmp_path: Path, files: int) -> None:
    """Where even the interpreter cannot start, nothing can be done; where the command can, it runs."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    bare = subprocess.run(COLLECT, preexec_fn=limited, capture_output=True, text=True, timeout=60)
    done = started(tmp_path, [], ["-o", "rec"], COLLECT, preexec_fn=limited)
    if done.returncode != 125 and "Traceback" not in done.stderr:
        assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), done.stderr
        assert done.stderr == "" or "[helper]" in done.stderr or bare.returncode
    else:
        assert files < 12, done.stderr
    if (tmp_path / "rec/active").is_symlink() and not notes(tmp_path / "rec", "helper"):
        discard(tmp_path / "rec")


class Nobody:
    """An interpreter that another user can run, with what the commands need."""

    def __init__(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root may become another user")
        self.user = pwd.getpwnam("nobody")
        shutil.copytree(SOURCE, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
        packages = Path(click.__file__).parent.parent
        self.code = (
            f"import sys; sys.path[:0] = [{str(tmp_path / 'source')!r}, {str(packages)!r}]\n"
            "from frostline.commands.main import main; main()"
        )
        for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
            folder.chmod(folder.stat().st_mode | 0o055)
        (tmp_path / "theirs").mkdir()
        self.cwd = tmp_path / "theirs"
        os.chown(self.cwd, self.user.pw_uid, -1)
        for self.python in (sys.executable, "/usr/bin/python3"):
            if self._can():
                return
        pytest.skip("no interpreter that another user may run")

    def become(self) -> None:
        os.setgroups([])
        os.setgid(self.user.pw_gid)
        os.setuid(self.user.pw_uid)

    def _can(self) -> bool:
        try:
            return self.start("--version").returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False

    def start(self, *arguments: str, processes: int | None = None) -> subprocess.CompletedProcess[str]:
        # As `sudo -u nobody` leaves it: root's home, which is not nobody's to write.
        # The limit is set late: the exec itself fails in a process that is over it.
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_NPROC, ({processes},) * 2)\n"
        kept = {"PATH": os.environ["PATH"], "HOME": "/root"}
        return subprocess.run(
            [self.python, "-c", self.code if processes is None else limit + self.code, *arguments],
            env=kept,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=self.become,
        )


def test_as_another_user_whose_home_is_not_his(tmp_path: Path) -> None:
    nobody = Nobody(tmp_path)
    done = nobody.start(
        "run", "-o", "rec", "--", nobody.python, "-c", "import gc; gc.collect(); print('ran')"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    (process,) = wait_for_helper(nobody.cwd / "rec")["processes"]
    assert process["recorded"]
    assert nobody.start("status", "rec").returncode == 0


def test_no_process_is_left_for_the_helper(tmp_path: Path) -> None:
    nobody = Nobody(tmp_path)
    done = nobody.start("run", "-o", "rec", "--", "echo", "ran", processes=0)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "did not start (Resource temporarily unavailable)" in done.stderr
    discard(nobody.cwd / "rec")


# --- several at once, and tmpfs ---------------------------------------------------------
def test_many_at_the_same_moment_into_one_folder(tmp_path: Path) -> None:
    """They wait at a pipe, so that none has begun before all are there."""
    read, wait = os.pipe()
    many = [
        subprocess.Popen(
            ["sh", "-c", 'read go; exec "$@"', "sh", *ENTRY, "run", "-o", "rec", "--", *COLLECT],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    os.close(read)
    os.close(wait)
    for one in many:
        assert (one.communicate(timeout=120), one.returncode) == (("ran\n", ""), 0)
    wait_for_helper(tmp_path / "rec", len(many))
    helpers = notes(tmp_path / "rec", "helper")
    assert sorted(h["root"] for h in helpers) == sorted(one.pid for one in many)
    assert all(p["recorded"] for h in helpers for p in h["processes"])
    assert not (tmp_path / "rec/active").is_symlink()


def test_two_of_one_second_are_two_sessions(tmp_path: Path) -> None:
    many = [
        subprocess.Popen([*ENTRY, "run", "--", "true"], env=environment(tmp_path), cwd=tmp_path)
        for _ in "1234"
    ]
    assert [one.wait(timeout=60) for one in many] == [0] * 4
    folders = wait_for(lambda: [f for f in tmp_path.glob("frostline-*") if notes(f, "run")], "the sessions")
    assert len(folders) == 4
    for folder in folders:
        wait_for_helper(folder)


def _can_mount() -> bool:
    unshare = shutil.which("unshare")
    command = [unshare or "", "--mount", "mount", "-t", "tmpfs", "none", "/dev/shm"]
    return bool(unshare) and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_mount(), reason="no right to mount")
@pytest.mark.parametrize("how", ["-o ro", "-o size=64k", "-o mode=000,nr_inodes=1", None])
def test_a_shared_memory_that_cannot_be_used(tmp_path: Path, how: str | None) -> None:
    mount = f"mount -t tmpfs {how} none /dev/shm" if how else "mount -t tmpfs -o ro none /dev"
    # A /dev without shm is bound over: /dev/null must stay.
    if how is None:
        mount = "mkdir d && touch d/null && mount --bind /dev/null d/null && mount --rbind d /dev"
    script = f'{mount} && exec "$@"'
    done = started(tmp_path, ["unshare", "--mount", "sh", "-c", script, "sh"], ["-o", "rec"], COLLECT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    helper = wait_for_helper(tmp_path / "rec")
    assert [p["recorded"] for p in helper["processes"]] == [True]
    assert any("not on tmpfs" in warning for warning in helper["warnings"])
    assert json.loads(next((tmp_path / "rec").glob("run-*.json")).read_text())["warnings"]


def test_a_command_that_cannot_start_takes_no_other_runs_session_away(tmp_path: Path) -> None:
    """Both made the folder, as far as each can tell."""
    session = tmp_path / "rec"
    mine, other = (write(session / f"run-{pid}-1.json", "{}") for pid in (1, 2))
    take_back({"session": str(session), "run_file": str(mine), "created": True})
    assert not mine.exists() and other.exists()
    take_back({"session": str(session), "run_file": str(other), "created": True})
    assert not session.exists()
