"""What a target inherits: the settings, and the fallback folder for environments without us."""

import os
import shutil
from pathlib import Path

import frostline
from frostline.errors import FrostlineError

#: Packages that run in a target. Nothing else goes into the fallback folder: a numpy of ours
#: there would shadow the target's.
IN_TARGET = ("format", "probe", "policy", "agent", "heap", "embed", "integrations")
PREFIX = "FROSTLINE_"
BOOT = "boot"
#: Settings that are the program's own: its name, and the flags of ``frostline.add_arguments``.
THEIRS = {
    "FROSTLINE_ROLE",
    "FROSTLINE_RANK",
    "FROSTLINE_DISABLE",
    "FROSTLINE_FREEZE_GC_HEAP",
    "FROSTLINE_GC_THRESHOLDS",
    "FROSTLINE_GC_PAUSE_LOG_MS",
}


def package_root() -> str:
    """The folder that holds the ``frostline`` package."""
    return str(Path(frostline.__file__).resolve().parent.parent)


def write_fallback(session: str) -> str:
    """Makes ``session/boot``; returns the folder for PYTHONPATH, which holds one file.

    Made anew under another name and renamed, so that a target that starts meanwhile in a joined
    session finds the old one or the new one whole.

    Raises:
        FrostlineError: ``session-folder``.
    """
    boot = os.path.join(session, BOOT)
    entry = os.path.join(boot, "path")
    if os.path.isfile(os.path.join(entry, "sitecustomize.py")) and _version_of(boot) == frostline.__version__:
        return entry
    fresh = f"{boot}.{os.getpid()}"
    source = os.path.dirname(os.path.abspath(frostline.__file__))
    library = os.path.join(fresh, "lib", "frostline")
    try:
        os.makedirs(os.path.join(fresh, "path"), 0o700)
        os.makedirs(library, 0o700)
        shutil.copyfile(
            os.path.join(source, "reach", "fallback.py"), os.path.join(fresh, "path", "sitecustomize.py")
        )
        shutil.copyfile(os.path.join(source, "__init__.py"), os.path.join(library, "__init__.py"))
        for name in IN_TARGET:
            shutil.copytree(
                os.path.join(source, name),
                os.path.join(library, name),
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        Path(fresh, "version").write_text(frostline.__version__, encoding="ascii")
        old = f"{fresh}.old"
        if os.path.isdir(boot):
            os.rename(boot, old)
        os.rename(fresh, boot)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise FrostlineError(
            "session-folder",
            f"cannot write {boot}: {_reason(error)}",
            "Choose another folder with -o.",
            exit_code=125,
        ) from error
    return entry


def _reason(error: OSError) -> str:
    """In words; copytree's error is a list of (from, to, why)."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][2]).partition("] ")[2] or str(error)
    return error.strerror or str(error)


def _version_of(boot: str) -> str:
    try:
        return Path(boot, "version").read_text(encoding="ascii")
    except OSError:
        return ""


def started_with() -> dict[str, str]:
    """Our own environment as it was given to us.

    Not ``os.environ`` as it is: in the C locale the interpreter adds LC_CTYPE (PEP 538), and the
    target would inherit what only our own start changed.
    """
    current = dict(os.environ)
    try:
        initial = Path("/proc/self/environ").read_bytes()
    except OSError:
        return current
    names = {part.partition(b"=")[0] for part in initial.split(b"\0")}
    if initial and b"LC_CTYPE" not in names and current.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        del current["LC_CTYPE"]
    return current


def for_target(session: str, run: str, settings: dict[str, str], fallback: str) -> dict[str, str]:
    """The target's environment.

    Args:
        session: absolute path.
        run: this run's name; it tells two runs in one session apart.
        settings: name without prefix, in lower case, to value; an empty value is left out.
        fallback: the folder for PYTHONPATH.
    """
    environment = started_with()
    for name in [name for name in environment if name.startswith(PREFIX)]:
        # A run inside a recorded process starts afresh, but these are the program's.
        if name not in THEIRS:
            del environment[name]
    environment[PREFIX + "OUTPUT"] = session
    environment[PREFIX + "RUN"] = run
    environment[PREFIX + "VERSION"] = frostline.__version__
    for name, value in settings.items():
        if value:
            environment[PREFIX + name.upper()] = value
    theirs = environment.get("PYTHONPATH", "")
    kept = [part for part in theirs.split(":") if not _is_fallback(part)] if theirs else []
    environment["PYTHONPATH"] = ":".join([fallback, *kept])
    return environment


def _is_fallback(entry: str) -> bool:
    """Another session's fallback folder: of two, the inner run's counts."""
    return entry.endswith(f"/{BOOT}/path") and os.path.isfile(os.path.join(entry, "..", "version"))


def for_helper(environment: dict[str, str]) -> dict[str, str]:
    """Ours: recorded by nobody, with nobody's start-up hooks."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(PREFIX) and not name.startswith("PYTHON")
    }
