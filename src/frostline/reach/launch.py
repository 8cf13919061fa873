"""Becoming the command: the helper is put aside, then this process is replaced.

``run`` does not stay as a parent. The pid, the exit code, signals, the terminal, socket
activation (LISTEN_PID) and PID 1's duties then are the target's own, with nothing to forward.
"""

import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import sys
from typing import Any, NoReturn

from frostline.errors import FrostlineError
from frostline.reach.environment import package_root

CANNOT_EXECUTE = 126
NOT_FOUND = 127
OWN_FAILURE = 125
#: What the helper's command line says. It must not hold the target's: people pkill by that.
HELPER_TITLE = "frostline-helper"
#: How long the helper may take to start, seconds; a server must not wait for it for ever.
_PATIENCE = 20.0
_BOOTSTRAP = "import sys; sys.path.append(sys.argv[2]); from frostline.reach.helper import main; main()"


def find(command: str, environment: dict[str, str]) -> str:
    """The program that the command names, as exec would find it.

    Before anything starts: a typing error leaves no session behind.

    Raises:
        FrostlineError: ``not-found`` (exit code 127) or ``not-executable`` (126).
    """
    if "/" in command:
        candidates = [command]
    else:
        path = environment.get("PATH", os.defpath)
        candidates = [os.path.join(part or ".", command) for part in path.split(":")]
    refused = ""
    for candidate in candidates:
        if not os.path.exists(candidate):
            continue
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
        refused = refused or candidate
    if refused:
        raise cannot_execute(refused, "it is a folder" if os.path.isdir(refused) else "permission denied")
    raise FrostlineError(
        "not-found",
        f"{command or '(an empty name)'}: command not found",
        "Check the name and PATH. The command stands after `--`: frostline run -- COMMAND",
        exit_code=NOT_FOUND,
    )


def cannot_execute(path: str, why: str) -> FrostlineError:
    """The error for exit code 126."""
    return FrostlineError(
        "not-executable",
        f"{path}: cannot execute: {why}",
        "Check the file's permissions and its first line (#!).",
        exit_code=CANNOT_EXECUTE,
    )


class Helper:
    """The helper process, put outside the target's tree: not a child, its own session, no terminal.

    Started by ``subprocess`` and not by ``os.fork``: where ``run`` itself is recorded by another
    run, a fork would record there. The second fork is the helper's first act.
    """

    def __init__(
        self, config: dict[str, Any], environment: dict[str, str], streams: tuple[int, ...] = ()
    ) -> None:
        """Starts it and waits until it watches.

        Args:
            config: what `helper.main` reads, as JSON through a pipe.
            environment: its environment.
            streams: descriptors that it keeps under their numbers (the real output of
                `--ready-log`). No other of the target's does it keep, or their pipes would not end.

        Raises:
            FrostlineError: ``helper``. The command can do without it.
        """
        self._pipe = -1
        ready_read = -1
        try:
            ready_read, ready_write = os.pipe()
            # Both ends close on exec. The helper sees the end of this pipe when the target has
            # started, and "failed" before it when it has not.
            config_read, self._pipe = os.pipe()
            debug = "FROSTLINE_HELPER_DEBUG" in os.environ
            starter = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-c",
                    _BOOTSTRAP,
                    HELPER_TITLE,
                    package_root(),
                    str(config_read),
                    str(ready_write),
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None
                if debug or (_is_terminal(2) and "attached" not in config)
                else subprocess.DEVNULL,
                cwd="/",  # no folder is held: the target's file system can be unmounted
                start_new_session=True,
                pass_fds=(config_read, ready_write, *streams),
            )
            os.close(ready_write)
            os.close(config_read)
            _write_all(self._pipe, json.dumps(config).encode() + b"\n")
            failed = _answer(ready_read, starter)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            failed = getattr(error, "strerror", None) or str(error)
        if ready_read >= 0:
            os.close(ready_read)
        if failed:
            if self._pipe >= 0:
                os.close(self._pipe)
            raise FrostlineError(
                "helper",
                f"the helper process did not start ({failed}): the command runs and is recorded without it",
                "`frostline report` seals the recording; --ready-* and missed processes need a helper.",
                exit_code=OWN_FAILURE,
            )

    def release(self) -> None:
        """It begins to watch; for a command that is not replaced by the target."""
        os.close(self._pipe)

    def abandon(self) -> None:
        """The target did not start: the helper takes back what was made, and goes."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"failed\n")
        os.close(self._pipe)


def _answer(ready: int, starter: "subprocess.Popen[bytes]") -> str:
    """Waits until the helper watches; returns what went wrong, or nothing."""
    poll = select.poll()  # select() takes no number over 1023
    poll.register(ready, select.POLLIN)
    found = poll.poll(_PATIENCE * 1000)
    if not found:
        with contextlib.suppress(OSError):
            os.killpg(starter.pid, signal.SIGKILL)  # its fork too: they are a session of their own
    starter.wait()
    if not found:
        return f"no answer within {_PATIENCE:g} s"
    if os.read(ready, 1) == b"1":
        return ""
    return "it ended before it was ready; FROSTLINE_HELPER_DEBUG=1 shows why"


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def become(path: str, command: list[str], environment: dict[str, str]) -> NoReturn:
    """Replaces this process by the command.

    Raises:
        FrostlineError: ``not-executable`` or ``not-found``; nothing was replaced.
    """
    # Python ignores these at its start, and an ignored signal stays ignored over exec: a target
    # would no longer die of a closed pipe. (What it was before cannot be known; default is right
    # for everything but a parent that ignored them on purpose.)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None where it was closed
            with contextlib.suppress(OSError):
                stream.flush()
    try:
        os.execve(path, command, environment)
    except OSError as error:
        if error.errno == errno.ENOEXEC and _is_text(path):
            # A script without a first line: what execvp and every shell do.
            with contextlib.suppress(OSError):
                os.execve("/bin/sh", ["/bin/sh", path, *command[1:]], environment)
        if error.errno == errno.ENOENT:
            raise cannot_execute(path, "the interpreter of its first line is not there") from error
        raise cannot_execute(path, error.strerror or "unknown") from error


def _is_text(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"\0" not in file.read(256)
    except OSError:
        return False
