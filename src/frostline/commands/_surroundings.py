"""What the caller's shell gives this process, and what of it is meant for the command alone.

First of all that runs, before anything third-party is imported. The environment itself is left as it
is: the command inherits it.
"""

# Entries of sys.path are strings.
# ruff: noqa: PTH100, PTH118, PTH120

import os
import sys
import warnings

import frostline


def settle() -> None:
    """Makes this process independent of the command's Python settings and of closed streams."""
    open_streams()
    sys.path[:] = without_pythonpath(sys.path, os.environ.get("PYTHONPATH", ""))
    if os.environ.get("PYTHONWARNINGS"):
        warnings.resetwarnings()  # "error" is meant for the command's code, and would end ours
    for stream in (sys.stdout, sys.stderr):
        # A name or a path that the terminal's encoding does not have is shown escaped.
        if stream is not None and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def open_streams() -> None:
    """Opens 0, 1 and 2 where the caller closed them: else the next pipe would get such a number.

    They close again when the command replaces us: it is to find them as the caller left them.
    """
    while True:
        try:
            descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return  # no /dev: then nothing can be done
        if descriptor > 2:
            os.close(descriptor)
            return


def without_pythonpath(path: list[str], entries: str) -> list[str]:
    """``sys.path`` without what PYTHONPATH put in front of our own packages.

    PYTHONPATH is the command's: its click, or its numpy for another Python, must not become ours.
    Kept is what would be there without it too, and where this package itself was found.
    """
    if not entries:
        return path
    theirs: set[str] = set()
    for entry in entries.split(os.pathsep):
        try:
            theirs.update((entry, os.path.abspath(entry)))
        except OSError:
            theirs.add(entry)  # relative, and the working folder has been removed
    own = {_real(os.path.dirname(os.path.dirname(os.path.abspath(frostline.__file__))))}
    own.add(_real(os.path.dirname(os.__file__)))
    own.add(_real(os.path.join(os.path.dirname(os.__file__), "lib-dynload")))
    own.update(_real(folder) for folder in _site_folders())
    return [entry for entry in path if entry not in theirs or _real(entry) in own]


def _site_folders() -> list[str]:
    site = sys.modules.get("site")
    if site is None:
        return []
    return [*site.getsitepackages(), site.getusersitepackages()]


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:
        return path
