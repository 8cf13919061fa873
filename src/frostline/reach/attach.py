"""Putting the recorder into processes that run already: one process, or a whole tree.

Each process is asked by a script that it runs itself (``injected``): through ``sys.remote_exec`` where the
interpreter has it (3.14 and later), else by ``injection``. Each answer is awaited; who failed is named.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from frostline import __version__
from frostline.errors import FrostlineError
from frostline.reach import asking, elf, environment, injection, permission, proc
from frostline.reach.inside import Python, check

_REMOTE_EXEC = (3, 14)
_BUSY_PAUSE = 0.1
#: A main thread that has not come to `sys.remote_exec`'s script by then waits, most likely, seconds.
_SOON = 0.3
_LATE_ANSWER = 10.0
#: The script of a process that `sys.remote_exec` is to run: pid namespace and pid.
_DOOR = re.compile(r"frostline-attach-([0-9]+)-([0-9]+)-[0-9a-f]{8}\.py")
_SAID = {
    "already": "it is recorded already",
    "stopped": "it was recorded, and the recording stopped by itself; it is not begun again",
    "free-threaded": "a free-threaded build: this version does not record it",
    "disabled": "FROSTLINE_DISABLE is set in it",
    "cannot-write": "it cannot write into the session folder",
    "not-supported": "its Python is older than 3.10, or no CPython",
    "other-version": "it has loaded another version of Frostline by itself",
    "busy": "it was inside a collector's callback each time",
}


class Attached(NamedTuple):
    """What became of one process."""

    pid: int
    name: str
    #: Empty where it is recorded now.
    why_not: str
    remedy: str
    #: ns that its main thread was stopped from outside, an upper bound; 0 where nothing is stopped.
    stopped_ns: int
    #: ns from the first to the last line of ours in its main thread, by its own clock, waits for the GIL and
    #: for a processor included; and the processor time of it.
    busy_ns: int
    cpu_ns: int
    python: str

    @property
    def done(self) -> bool:
        return not self.why_not

    @property
    def recorded(self) -> bool:
        """Whether it was recorded before."""
        return self.why_not.startswith(_SAID["already"])


class _Said(NamedTuple):
    """What a process answered: `Attached` has the words."""

    word: str
    detail: str
    stopped_ns: int
    busy_ns: int
    cpu_ns: int


def processes(pid: int, tree: bool) -> list[int]:
    """The pids meant: the process, and with ``tree`` each of its descendants that is a Python.

    Raises:
        FrostlineError: ``no-process`` or ``not-yours``.
    """
    found = asking.of_pid(pid, tree, "attach")
    return [target.pid for target in found]


def is_recorded(pid: int) -> bool:
    """Whether a recorder is at work in it."""
    return asking.is_recorded(pid)


def into(pid: int) -> str:
    """Behind "it is recorded already": into which session, where that is known."""
    session = asking.session_of(pid)
    return f", into {session}" if session else ""


def left_out(pid: int) -> list[asking.Target]:
    """The Python processes among its descendants that nobody records."""
    return [one for one in asking.of_pid(pid, True)[1:] if not is_recorded(one.pid)]


def refused(pids: list[int]) -> "list[Attached] | None":
    """Why none of them can be attached to; None where one can, or is recorded. Nothing is touched."""
    rows: list[Attached] = []
    for pid in pids:
        row = None if is_recorded(pid) else _refusal(pid)
        if row is None:
            return None
        rows.append(row)
    return rows


def _refusal(pid: int) -> "Attached | None":
    try:
        check(pid)
    except FrostlineError as error:
        return Attached(pid, asking.name_of(pid), error.message, error.remedy, 0, 0, 0, "")
    except OSError as error:
        why = f"{error.filename or 'it'}: {error.strerror}"
        return Attached(pid, asking.name_of(pid), why, permission.why_refused(pid), 0, 0, 0, "")
    return None


class Injector:
    """Attaches to one process after the other, with the settings of one session."""

    def __init__(
        self, folder: str, fallback: str, settings: dict[str, str], children: bool, wait: float
    ) -> None:
        """Args:
        folder: the session, absolute.
        fallback: its folder for PYTHONPATH.
        settings: environment variables.
        children: whether processes that start later are recorded too.
        wait: seconds to wait for one process.
        """
        self.folder = folder
        self.fallback = fallback
        self.settings = settings
        self.children = children
        self.wait = wait
        self._compiled: set[tuple[int, int, int]] = set()

    def _compile(self, pid: int, inside: Python) -> None:
        """Has the fallback compiled by another process of that interpreter: the target only loads it then."""
        program = proc.executable(pid)
        if inside.version in self._compiled or not proc.is_interpreter(program):
            return
        self._compiled.add(inside.version)
        library = os.path.join(self.folder, environment.BOOT, "lib", "frostline")
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [program, "-S", "-m", "compileall", "-q", library],
                env=_environment(pid),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                timeout=30,
                check=False,
            )

    def attach(self, pid: int) -> Attached:
        """Attaches to one process and awaits its answer. Raises nothing of the process's."""
        name = asking.name_of(pid)
        python = ""
        try:
            inside = check(pid)
            python = inside.shown
            self._compile(pid, inside)
            until = time.monotonic() + self.wait
            pause = _BUSY_PAUSE
            while True:
                said = self._once(pid, inside, until)
                if said.word != "busy" or time.monotonic() + pause + _SOON > until:
                    break
                time.sleep(pause)
                pause *= 2  # each try below 3.14 takes some of the spare bytes
            why = "" if said.word == "attached" else _SAID.get(said.word, said.detail or said.word)
            if said.word == "already":
                why += into(pid)
            return Attached(pid, name, why, "", said.stopped_ns, said.busy_ns, said.cpu_ns, python)
        except FrostlineError as error:
            return Attached(pid, name, error.message, error.remedy, 0, 0, 0, python)
        except OSError as error:
            why = f"{error.filename or 'it'}: {error.strerror}"
            return Attached(pid, name, why, permission.why_refused(pid), 0, 0, 0, python)

    def _once(self, pid: int, inside: Python, until: float) -> _Said:
        script = os.path.join(self.folder, f"attach-{pid}-{os.urandom(4).hex()}.py")
        reply = script.removesuffix(".py") + ".reply"
        self._write(script, reply)
        try:
            door = inside.version >= _REMOTE_EXEC
            stopped = self._knock(pid, inside, script) if door else self._inject(pid, inside, script)
            answer = self._await(pid, reply, min(until, time.monotonic() + _SOON) if door else until)
            if answer is None and door and os.path.exists(script) and _by_hand():
                # A main thread that waits for a lock looks at pending calls, and not at this door.
                stopped = self._inject(pid, inside, script)
                answer = self._await(pid, reply, until)
            if answer is None and not _unlinked(script):
                # It has begun: it loads the recorder.
                answer = self._await(pid, reply, time.monotonic() + _LATE_ANSWER)
                if answer is None:
                    raise FrostlineError(
                        "no-answer",
                        "it has begun to load the recorder and has not ended: it may still attach itself",
                        "`frostline ping` tells.",
                    )
            if answer is None:
                raise FrostlineError(
                    "no-answer",
                    f"no answer within {self.wait:g} s: its main thread is in C, or waits for a lock;"
                    " nothing is left in it that could still run",
                    "Give it work (a request), or --wait longer.",
                )
            word, busy, worked, detail = (answer + "\t0\t0\t").split("\t")[:4]
            return _Said(word, detail, stopped, int(busy), int(worked))
        finally:
            for path in (script, reply, reply + ".new"):
                _unlinked(path)

    def _write(self, script: str, reply: str) -> None:
        parameters = {
            "script": script,
            "reply": reply,
            "library": os.path.join(self.folder, environment.BOOT, "lib"),
            "fallback": self.fallback,
            "settings": self.settings,
            "children": self.children,
            "version": __version__,
        }
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "injected.py")
        with open(source, encoding="ascii") as file:
            text = f"PARAMETERS = {parameters!a}\n{file.read()}"
        _write_file(script, text)

    def _knock(self, pid: int, inside: Python, script: str) -> int:
        """`sys.remote_exec`, with a script that removes itself and is not of the session.

        The process may come to it when we have gone, and of a missing one it complains on its stderr.
        """
        folder = tempfile.gettempdir()
        _sweep(folder)
        name = f"frostline-attach-{proc.pid_namespace()}-{pid}-{os.urandom(4).hex()}.py"
        door = os.path.join(folder, name)
        _write_file(door, f"__import__('os').unlink({door!a})\n" + _line(script))
        try:
            _remote_exec(pid, inside, door)
        except (FrostlineError, OSError):
            _unlinked(door)  # nobody was told of it
            raise
        except subprocess.TimeoutExpired as error:  # whether it was told is not known
            raise FrostlineError(
                "remote-failed", "sys.remote_exec has not returned within 30 s", "Try again when it has time."
            ) from error
        return 0

    def _inject(self, pid: int, inside: Python, script: str) -> int:
        """Returns the ns that it was stopped."""
        if inside.images[0].machine != elf.X86_64 or not _by_hand():
            raise FrostlineError(
                "no-attach-here",
                "below Python 3.14 an attach is made for x86-64 only",
                "Restart it under `frostline run`.",
            )
        return injection.plant(pid, inside.functions, inside.images, _line(script)).stopped_ns

    def _await(self, pid: int, reply: str, until: float) -> "str | None":
        while True:
            with contextlib.suppress(OSError), open(reply, encoding="utf-8") as file:
                return file.read()
            now = proc.stat(pid)
            if now is None or not now.alive:
                raise FrostlineError("process-gone", "it ended before it answered", "Nothing to do.")
            if time.monotonic() >= until:
                return None
            time.sleep(0.005)


def _line(script: str) -> str:
    """In the program's own namespace: it binds no name there, and uses builtins only."""
    return (
        f"try: exec((lambda f: (f.read(), f.close()))(__import__('io').open({script!a}))[0],"
        " {'__name__': 'frostline-attach'})\n"
        "except FileNotFoundError: pass\n"
    )


def _by_hand() -> bool:
    return os.uname().machine == "x86_64"


def _write_file(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.write(text)


def _sweep(folder: str) -> None:
    """Takes away the scripts of processes that have ended before they came to them.

    Those of an attach that was killed are among them. What waits for a process that lives stays: it may come
    to it yet, and would complain. Pids are known in our own namespace alone.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            named = _DOOR.fullmatch(name)
            if named is None or int(named[1]) != proc.pid_namespace():
                continue
            now = proc.stat(int(named[2]))
            if now is None or not now.alive:
                _unlinked(os.path.join(folder, name))


def _unlinked(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _remote_exec(pid: int, inside: Python, script: str) -> None:
    """Through the interpreter's own door, which opens for an interpreter of the very same version only."""
    if sys.version_info[:3] == inside.version and sys.implementation.name == "cpython":
        program = sys.executable
    else:
        program = _interpreter_for(pid, inside)
    run = subprocess.run(
        [
            program,
            "-S",
            "-B",
            "-c",
            "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])",
            str(pid),
            script,
        ],
        env=_environment(pid),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    if run.returncode == 0:
        return
    last = run.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if "not enabled" in last or "disabled" in last or "does not support" in last:
        raise FrostlineError(
            "remote-disabled",
            "remote debugging is disabled in it: PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug,"
            f" or a build without it ({last})",
            "Restart it without that, or under `frostline run`.",
        )
    if "Permission" in last or "Operation not permitted" in last:
        raise FrostlineError("no-ptrace", f"sys.remote_exec is refused: {last}", permission.why_refused(pid))
    raise FrostlineError(
        "remote-failed",
        f"sys.remote_exec failed: {last or run.returncode}",
        "Start it under `frostline run`.",
    )


def _environment(pid: int) -> dict[str, str]:
    """For a process of the target's interpreter: ours, and what that may need to find its library."""
    told = proc.environment(pid) or {}
    ours = {name: told[name] for name in ("PYTHONHOME", "LD_LIBRARY_PATH") if name in told}
    return environment.for_helper(environment.started_with()) | ours


def _interpreter_for(pid: int, inside: Python) -> str:
    """A program that is the same interpreter: the process's own, where it is one."""
    program = proc.executable(pid)
    if proc.is_interpreter(program):
        return program if os.path.exists(program) else f"/proc/{pid}/exe"
    raise FrostlineError(
        "no-interpreter",
        f"it embeds Python {'.'.join(map(str, inside.version))}: its program is no interpreter to ask with",
        "Run Frostline by that very version of Python.",
    )
