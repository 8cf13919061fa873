"""``frostline run`` from its checked options to the exec: session, helper, environment, command."""

import contextlib
import os
import signal
import stat
import sys
from types import FrameType
from typing import Any

from frostline.errors import FrostlineError
from frostline.reach import environment, launch, proc, session

#: What ends a process that has not said otherwise. Until the helper watches, nobody would take the
#: session's live folder back from tmpfs.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class _Told(BaseException):
    """A signal came in the middle of the start."""


def _told(number: int, frame: "FrameType | None") -> None:
    raise _Told(number)


def _when_told(action: Any, instead_of: Any) -> None:
    for number in _ENDING:
        if signal.getsignal(number) == instead_of:  # an ignored one (nohup) stays ignored
            signal.signal(number, action)


def start(
    output: "str | None",
    settings: dict[str, str],
    ready: "dict[str, Any] | None",
    command: list[str],
    counters: bool = True,
    host: bool = True,
) -> None:
    """Makes the session, puts the helper aside, becomes the command. Returns never, or raises.

    ``host``: whether the helper samples host signals.
    """
    target = environment.started_with()
    program = launch.find(command[0], target)
    created = output is None or not os.path.lexists(output)
    wanted = session.default_folder() if output is None else output
    # Held back while the folders are made, since only what is known can be taken back.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, signal.SIGINT})
    try:
        folder, warnings = session.prepare(wanted)
    except FrostlineError:
        if created:
            with contextlib.suppress(OSError):
                os.rmdir(wanted)
        raise
    run_file = ""
    helper = None
    _when_told(_told, signal.SIG_DFL)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with session.lock(folder):
            fallback = environment.write_fallback(folder)
        streams, replaced = capture_output(ready, folder) if ready and ready["kind"] == "log" else ([], {})
        run_file = session.write_run(folder, command, settings, warnings)
        run_name = os.path.basename(run_file)[len("run-") : -len(".json")]
        about = proc.stat(os.getpid())
        config = {
            "root": os.getpid(),
            "start_ticks": about.start_ticks if about is not None else 0,
            "session": folder,
            "run": run_name,
            "run_file": run_file,
            "created": created,
            "fallback": fallback,
            "retention": int(settings["retention"]) or 0,
            "ready": ready,
            "counters": counters,
            "warnings": warnings,
            "cwd": proc.working_folder(),
            "host": host,
        }
        try:
            helper = launch.Helper(config, environment.for_helper(target), tuple(streams))
        except FrostlineError as error:
            # A server does not fail because nobody can watch it.
            warn(f"{error.message} [{error.slug}]")
            session.add_warning(run_file, error.message)
            give_up_output(ready, streams, replaced)
        _when_told(signal.SIG_DFL, _told)  # the helper sees this process end, before the exec too
        session.remember(folder)
        if replaced and sys.stderr is not None and os.isatty(2) and ready is not None:
            kept = next(file["path"] for file in ready["files"] if "stream" in file)
            warn(f"--ready-log: the output passes through {kept}; lines that a terminal misses stay there")
        inherited = environment.for_target(folder, run_name, settings, fallback)
        for number, descriptor in replaced.items():
            os.dup2(descriptor, number)
        launch.become(program, command, inherited)
    except BaseException as error:
        if helper is not None:
            helper.abandon()
        elif run_file or created:
            from frostline.reach.helper import take_back

            take_back({"session": folder, "run_file": run_file, "created": created})
        _when_told(signal.SIG_DFL, _told)
        if isinstance(error, _Told):
            os.kill(os.getpid(), error.args[0])
        if isinstance(error, OSError):
            raise FrostlineError(
                "run",
                f"cannot start: {error}",
                "Choose another folder with -o.",
                exit_code=launch.OWN_FAILURE,
            ) from error
        raise


def capture_output(ready: dict[str, Any], folder: str) -> tuple[list[int], dict[int, int]]:
    """Arranges for the helper to see the command's output (``--ready-log``).

    A file that is named, or that stdout and stderr already go to, is followed where it is: nothing
    changes for the command. A terminal or a pipe cannot be read twice. It is replaced by a file in
    the session, which the helper copies to the real one: then the command sees no terminal, but
    it cannot be blocked or ended (SIGPIPE) by us, whatever becomes of the helper.

    Returns:
        The real streams, for the helper to keep; and what replaces 1 and 2.
    """
    if ready["path"]:
        ready["files"] = [{"path": ready["path"], "offset": _size(ready["path"])}]
        return [], {}
    streams: list[int] = []
    replaced: dict[int, int] = {}
    seen: dict[tuple[int, int], int] = {}
    for number in (1, 2):
        try:
            about = os.fstat(number)
        except OSError:
            continue  # closed: there is nothing to see
        key = about.st_dev, about.st_ino
        if key in seen:
            # One terminal or pipe for both: one file for both, or their lines change order.
            if seen[key] >= 0:
                replaced[number] = seen[key]
            continue
        seen[key] = -1
        if stat.S_ISREG(about.st_mode):
            path = os.readlink(f"/proc/self/fd/{number}")
            ready["files"].append({"path": path, "offset": about.st_size})
            continue
        if stat.S_ISCHR(about.st_mode) and not os.isatty(number):
            continue  # /dev/null
        path = os.path.join(folder, f"output-{os.getpid()}-{os.urandom(4).hex()}.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        descriptor = seen[key] = os.open(path, flags, 0o600)
        replaced[number] = descriptor
        kept = os.dup(number)
        ready["files"].append({"path": path, "offset": 0, "stream": kept})
        streams.append(kept)
    if not ready["files"]:
        raise FrostlineError(
            "no-output",
            "the command's output goes nowhere: no line can match",
            "Use --ready-log FILE:REGEX.",
            exit_code=2,
        )
    return streams, replaced


def give_up_output(ready: "dict[str, Any] | None", streams: list[int], replaced: dict[int, int]) -> None:
    """Without a helper nobody would pass the output on: the command keeps the real streams."""
    for descriptor in (*streams, *set(replaced.values())):
        os.close(descriptor)
    for file in ready.get("files", []) if ready is not None else []:
        if "stream" in file:
            os.unlink(file["path"])
    streams.clear()
    replaced.clear()


def warn(text: str) -> None:
    """A line on stderr, before the command has it."""
    if sys.stderr is not None:  # None where it was closed
        with contextlib.suppress(OSError, ValueError):
            print(f"frostline: {text}", file=sys.stderr, flush=True)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
