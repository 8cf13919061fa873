"""Why a Python process of the tree has no recording: a reason by what can be seen from outside."""

import os
import re
from typing import NamedTuple

from frostline.reach import proc

#: slug -> (what it means, what to do about it).
REASONS = {
    "no-site": (
        "it runs with -S: no start-up hook runs there",
        "Start it without -S.",
    ),
    "scrubbed-environment": (
        "its parent gave it an environment without FROSTLINE_OUTPUT",
        "Let the FROSTLINE_* variables and PYTHONPATH through, or call frostline.install() in it.",
    ),
    "isolated": (
        "it ignores PYTHONPATH (-I or -E) and its environment does not have Frostline",
        "Install Frostline in that environment: only the installed hook works there.",
    ),
    "pythonpath-replaced": (
        "its PYTHONPATH was replaced and its environment does not have Frostline",
        "Install Frostline in that environment, or let the program add to PYTHONPATH.",
    ),
    "pex": (
        "it runs from a PEX or zip file that shuts its environment out",
        "Add Frostline to the PEX, or set PEX_INHERIT_PATH=prefer.",
    ),
    "frozen": (
        "it is an application with Python inside that runs no start-up hook",
        "Call frostline.install() in the application.",
    ),
    "old-python": ("its Python is older than 3.10", "Use Python 3.10 or later."),
    "not-cpython": ("it is no CPython", "There is no such collector in it: nothing to record."),
    "other-user": (
        "it runs as another user, who may not write into the session",
        "Record it as that user.",
    ),
    "disabled": ("FROSTLINE_DISABLE is set in it", "Unset FROSTLINE_DISABLE."),
    "other-session": ("it records into another session", "Join it with -o."),
    "raw-fork": (
        "it was forked by C code, where no at-fork hook runs",
        "Call frostline.install() in the child.",
    ),
    "sitecustomize": (
        "another tool's sitecustomize stands before ours and runs no other",
        "Install Frostline in that environment: the installed hook needs no sitecustomize.",
    ),
    "before-attach": (
        "it ran before the attach, which did not reach it",
        "`frostline attach PID --tree` attaches to a whole server.",
    ),
    "unknown": (
        "its start-up hook did not run, or it ended too early to be looked at",
        "Try `frostline doctor --python` with its interpreter.",
    ),
}

_WITH_ARGUMENT = "WX"
_VERSION = re.compile(r"python(\d)\.?(\d+)?")
_MAPPED_VERSION = re.compile(r"/(?:lib)?python(\d)\.(\d+)")


class Options(NamedTuple):
    """An interpreter's own options, and what it runs."""

    flags: frozenset[str]
    target: str
    module: bool


def options(argv: list[str]) -> Options:
    """Reads an interpreter's command line as the interpreter does."""
    flags: set[str] = set()
    position = 1
    while position < len(argv):
        word = argv[position]
        position += 1
        if word == "--check-hash-based-pycs":
            position += 1
            continue
        if word.startswith("--"):
            continue
        if len(word) < 2 or word[0] != "-":
            return Options(frozenset(flags), word, False)
        for index, letter in enumerate(word[1:], 1):
            if letter in "cm":
                value = word[index + 1 :] or (argv[position] if position < len(argv) else "")
                return Options(frozenset(flags), value if letter == "m" else "", letter == "m")
            if letter in _WITH_ARGUMENT:
                position += 0 if word[index + 1 :] else 1
                break
            flags.add(letter)
    return Options(frozenset(flags), "", False)


def version_of(executable: str, maps: str) -> "tuple[int, int] | None":
    """The interpreter's version by its file's name, else by what it has mapped."""
    found = _VERSION.search(executable.rpartition("/")[2])
    if found is not None and found.group(2):
        return int(found.group(1)), int(found.group(2))
    found = _MAPPED_VERSION.search(maps)
    return (int(found.group(1)), int(found.group(2))) if found else None


def reason(
    pid: int,
    executable: str,
    argv: list[str],
    environment: "dict[str, str] | None",
    session: str,
    fallback: str,
    owner_is_us: bool,
) -> tuple[str, str]:
    """The reason's slug and a detail ("" if there is none).

    Args:
        environment: as it was at the program's start, None if it could not be read.
        session: the session that the process should have written to.
        fallback: the folder that should be on its PYTHONPATH.
    """
    name = executable.rpartition("/")[2]
    if name.startswith(("pypy", "graalpy", "micropython")):
        return "not-cpython", name
    interpreter = proc.is_interpreter(executable)
    version = version_of(executable, "" if not interpreter else proc.mapped(pid))
    if version is not None and version < (3, 10):
        return "old-python", f"Python {version[0]}.{version[1]}"
    if not owner_is_us:
        return "other-user", ""
    found = options(argv)
    if interpreter and "S" in found.flags:
        return "no-site", ""
    if environment is not None:
        if environment.get("FROSTLINE_DISABLE"):
            return "disabled", ""
        output = environment.get("FROSTLINE_OUTPUT", "")
        if not output:
            return "scrubbed-environment", ""
        if output != session:
            return "other-session", output
    if not interpreter:
        return "frozen", name
    if found.flags & {"I", "E"}:
        return "isolated", ""
    if found.target.endswith((".pex", ".pyz", ".zip")):
        return "pex", found.target
    if environment is not None:
        if "PEX" in environment or "__PEX_UNVENDORED__" in environment:
            return "pex", ""
        entries = environment.get("PYTHONPATH", "").split(":")
        if fallback not in entries:
            return "pythonpath-replaced", ""
        for entry in entries[: entries.index(fallback)]:
            # A folder before ours that holds none does no harm.
            if os.path.isfile(os.path.join(entry, "sitecustomize.py")):
                return "sitecustomize", entry
    return "unknown", ""
