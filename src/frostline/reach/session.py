"""The session folder: made or joined, with its folder of active segments."""

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from frostline import __version__
from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.reach import proc

_SHARED = "/dev/shm"
#: Sessions whose paths are kept for commands that are given none.
_REMEMBERED = 20
_LEAST_FREE = 16 << 20


def default_folder() -> str:
    """Makes a new folder in the current one: two commands of one second are two sessions."""
    name = path = time.strftime("frostline-%Y%m%d-%H%M%S")
    number = 1
    while True:
        try:
            os.mkdir(path, 0o700)
            return path
        except FileExistsError:
            number += 1
            path = f"{name}-{number}"
        except OSError:
            return path  # what is wrong with it `prepare` says


def prepare(folder: str) -> tuple[str, list[str]]:
    """Makes a session folder, or joins one, and its folder of active segments.

    Returns:
        The absolute path, and warnings to be kept with the session.

    Raises:
        FrostlineError: ``session-folder``, with what is wrong with it.
    """
    if not folder:
        empty = "the session folder's name is empty"
        raise FrostlineError("session-folder", empty, "Give -o a folder.", exit_code=2)
    try:
        path = os.path.realpath(folder)
    except OSError as error:
        raise _unwritable(folder, "the working folder has been removed") from error
    if ":" in path:
        raise FrostlineError(
            "session-folder",
            f"{path}: a session folder cannot have ':' in its path, it becomes part of PYTHONPATH",
            "Choose another folder with -o.",
            exit_code=2,
        )
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        about = os.stat(path)
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(20, "not a folder")
        # Two commands may make one session at the same moment: the second finds it whole.
        with lock(path):
            _check_folder(path, about.st_uid == os.geteuid())
            return path, _prepare_active(path)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error


def _unwritable(path: str, why: str) -> FrostlineError:
    return FrostlineError(
        "session-folder",
        f"cannot write the session folder {path}: {why}",
        "Choose another folder with -o.",
        exit_code=125,
    )


def _check_folder(path: str, mine: bool) -> None:
    """It is a session of ours or empty, and can be written."""
    if not (mine and _is_session(path)) and os.listdir(path):
        raise FrostlineError(
            "session-folder",
            f"{path} exists, is not empty and is no session of yours",
            "Choose another folder with -o.",
            exit_code=2,
        )
    if mine:
        os.chmod(path, 0o700)
    probe = os.path.join(path, f".write-{os.getpid()}")
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    os.unlink(probe)


def _is_session(path: str) -> bool:
    names = os.listdir(path)
    return layout.ACTIVE_LINK in names or any(
        name.endswith(layout.SUFFIX) or (name.startswith("run-") and name.endswith(".json")) for name in names
    )


def _prepare_active(session: str) -> list[str]:
    """The symbolic link and the folder that it names. A joined session's is used again."""
    link = os.path.join(session, layout.ACTIVE_LINK)
    try:
        target = os.readlink(link)
        about = os.lstat(target)
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid():
            return []
    except OSError:
        pass
    folder, warnings = _make_active(session)
    fresh = f"{link}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.unlink(fresh)
    os.symlink(folder, fresh)
    os.rename(fresh, link)
    return warnings


@contextlib.contextmanager
def lock(session: str) -> Iterator[None]:
    """Two commands may join at once, and a helper may be taking the folder away."""
    descriptor = os.open(session, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_active(session: str) -> tuple[str, list[str]]:
    reason = ""
    if os.getpid() == 1:
        # The end of PID 1 ends the container, and its /dev/shm with it.
        reason = "the command is PID 1: what is on tmpfs would end with the container"
    else:
        try:
            space = os.statvfs(_SHARED)
            if space.f_bavail * space.f_frsize < _LEAST_FREE:
                reason = f"{_SHARED} has less than {_LEAST_FREE >> 20} MiB free"
            else:
                folder = f"{_SHARED}/frostline-{os.geteuid()}-{os.urandom(6).hex()}"
                os.mkdir(folder, 0o700)
                return folder, []
        except OSError as error:
            reason = f"{_SHARED} cannot be used: {error.strerror}"
    folder = os.path.join(session, "live")
    os.makedirs(folder, 0o700, exist_ok=True)
    return folder, [f"active segments are not on tmpfs, and a busy disk can delay a write: {reason}"]


def write_json(path: str, value: object) -> None:
    """Writes a file so that a reader sees the old one or the new one, never half."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode())
    os.rename(temporary, path)


def write_run(session: str, command: list[str], settings: dict[str, str], warnings: list[str]) -> str:
    """Notes one ``frostline run`` that writes into the session; returns the file's path."""
    now = time.monotonic_ns()
    path = os.path.join(session, f"run-{os.getpid()}-{now}.json")
    write_json(
        path,
        {
            "frostline": __version__,
            "pid": os.getpid(),
            "command": layout.redact(command),
            "policy": settings["policy"],
            "presets": settings["presets"],
            "spans": settings["spans"],
            "started_monotonic_ns": now,
            "started_realtime_ns": time.time_ns(),
            "boot_id": proc.boot_id(),
            "host": os.uname().nodename,
            "pid_namespace": proc.pid_namespace(),
            "cpus": os.cpu_count() or 0,
            "cwd": proc.working_folder(),
            "warnings": warnings,
        },
    )
    return path


def add_warning(run_file: str, text: str) -> None:
    """Notes with a run what went wrong after it had been written. Failing to is nobody's concern."""
    with contextlib.suppress(OSError, ValueError):
        with open(run_file, encoding="ascii") as file:
            value = json.load(file)
        value["warnings"].append(text)
        write_json(run_file, value)


def state_file() -> Path:
    """Where the newest sessions' paths are kept."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "frostline" / "last"


def remember(session: str) -> None:
    """Notes the newest session for commands that are given none. Failing to is nobody's concern."""
    try:
        path = state_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        before = [one for one in remembered() if one != session]
        text = "\0".join([session, *before[: _REMEMBERED - 1]])
        path.write_text(text + "\n", encoding="utf-8", errors="surrogateescape")
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        pass


def remembered() -> list[str]:
    """The sessions noted last, the newest first; some may have gone."""
    try:
        text = state_file().read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, RuntimeError):
        return []
    return [path for path in text.removesuffix("\n").split("\0") if path]
