"""The interpreter inside a process, and why one that is not recorded cannot be: the same words for every
command that takes a pid.
"""

from typing import NamedTuple

from frostline.errors import FrostlineError
from frostline.reach import elf, injection, permission, proc

#: Exported by free-threaded builds only.
_FREE_THREADED = "_Py_MergeZeroLocalRefcount"
OLDEST = (3, 10)


class Python(NamedTuple):
    """The interpreter inside a process, as its symbols tell."""

    version: tuple[int, int, int]
    free_threaded: bool
    functions: dict[str, int]
    images: list[elf.Image]

    @property
    def shown(self) -> str:
        """``3.11.7``, or as much of it as is known."""
        return ".".join(str(part) for part in self.version if part >= 0)


def python_in(pid: int) -> Python:
    """Finds the interpreter.

    Raises:
        FrostlineError: ``not-python``: there is none, or it exports nothing; ``no-ptrace``.
    """
    images = elf.images(pid)
    for image in images:
        found = elf.symbols(image, (*injection.FUNCTIONS, "Py_Version", "PyIter_Send", _FREE_THREADED))
        if "Py_AddPendingCall" not in found:
            continue
        if "Py_Version" in found:
            word = elf.word(pid, found["Py_Version"])
            version = word >> 24 & 255, word >> 16 & 255, word >> 8 & 255
        else:
            version = (3, 10, -1) if "PyIter_Send" in found else (0, -1, -1)  # it does not say
        images.remove(image)
        return Python(version, _FREE_THREADED in found, found, [image, *images])
    if not images:
        raise FrostlineError("no-ptrace", "its memory map cannot be read", permission.why_refused(pid))
    raise FrostlineError(
        "not-python",
        "it is no CPython, or a static build that exports none of its functions",
        "Name the pid of the Python process, or use --tree; a static build is recorded by `frostline run`.",
    )


def supported(python: Python) -> None:
    """Whether this version of Frostline records such an interpreter.

    Raises:
        FrostlineError: ``free-threaded`` or ``old-python``.
    """
    if python.version[:2] < OLDEST:
        shown = f" ({python.shown})" if python.version[0] else ""
        raise FrostlineError(
            "old-python", f"its Python{shown} is older than 3.10", "Run it on Python 3.10 or later."
        )
    if python.free_threaded:
        raise FrostlineError(
            "free-threaded",
            "a free-threaded build: this version does not record it",
            "Run it on the build with the GIL.",
        )


def check(pid: int) -> Python:
    """Whether a process may be attached to, and what is in it.

    That it is no Python comes first: how to be let in helps nobody then.

    Raises:
        FrostlineError: why not, and what to do.
    """
    try:
        permission.check(pid)
    except FrostlineError as error:
        if error.slug in ("no-process", "other-namespace") or by_name(pid):
            raise
        if proc.executable(pid) and proc.mapped(pid):
            python_in(pid)
            raise
        raise FrostlineError(
            error.slug,
            f"by its name ({proc.title(pid)}) it is no Python; {error.message}",
            f"Name the pid of a Python process. If it is one all the same: {error.remedy}",
        ) from error
    found = python_in(pid)
    supported(found)
    return found


def by_name(pid: int) -> bool:
    """Whether its program, its command line or its title are an interpreter's."""
    names = (proc.executable(pid), *proc.arguments(pid)[:1], proc.title(pid))
    return any(map(proc.is_interpreter, names))


def why_not_recorded(pid: int) -> str:
    """Of a process without a recorder: the command that records it, or why none can."""
    try:
        check(pid)
    except FrostlineError as error:
        return f"not recorded, and not to be attached to: {error.message}. {error.remedy}".rstrip()
    except OSError as error:
        return f"not recorded, and not to be looked into: {error.strerror}"
    return f"not recorded: `frostline attach {pid}` records it"
