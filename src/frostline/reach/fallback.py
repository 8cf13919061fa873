# mypy: ignore-errors
# Frostline's way into an interpreter whose environment does not have Frostline.
#
# Copied as ``sitecustomize.py`` into a folder that holds nothing else, which stands first on
# PYTHONPATH. Every Python that inherits the environment runs it, 2.7 too, so the syntax is what
# all of them accept. The next sitecustomize (ddtrace's, the distribution's) runs as if this one were
# not there. Its folder then goes to the end of sys.path, where a module can shadow nothing:
# libraries build their children's PYTHONPATH from sys.path (torch's compile workers, joblib), and
# without it those children would be missed.
import os
import sys


def _stay_first(here):
    # ``opentelemetry-instrument`` puts its folder in front of ours, execs, and its sitecustomize
    # chains to nobody. Ours does: at an exec it goes to the front again.
    def first(environ):
        entries = environ.get("PYTHONPATH")
        entries = entries.split(os.pathsep) if isinstance(entries, str) else []
        if here not in entries or entries[0] == here:
            return environ
        changed = dict(environ)
        changed["PYTHONPATH"] = os.pathsep.join([here] + [entry for entry in entries if entry != here])
        return changed

    real = os.execve

    def execve(path, args, env):
        return real(path, args, first(env))

    def execv(path, args):
        return real(path, args, first(os.environ))

    os.execve, os.execv = execve, execv


def _start(here):
    if os.environ.get("FROSTLINE_DISABLE"):
        return
    if sys.version_info < (3, 10) or sys.implementation.name != "cpython":
        return
    _stay_first(here)
    module = sys.modules.get("frostline")
    if module is None:
        # Already loaded, and so costs no module.
        finder = sys.modules["_frozen_importlib_external"].PathFinder
        found = finder.find_spec("frostline")
        if found is not None and found.loader is not None and found.origin:
            module = __import__("frostline")  # the environment has its own: that one wins
        else:
            library = os.path.join(os.path.dirname(here), "lib")
            sys.path.append(library)
            try:
                module = __import__("frostline")
            finally:
                # What it loads later it finds through its own __path__.
                if library in sys.path:
                    sys.path.remove(library)
    module._boot()
    return os.path.dirname(here) in module.__file__


def _next(here):
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        # Not there, or one that itself lacks something: that failure is the environment's own.
        missing = getattr(error, "name", None) or str(error).split(" ")[-1].strip("'\"")
        if missing != "sitecustomize":
            raise
    finally:
        if "sitecustomize" not in sys.modules and ours is not None:
            sys.modules["sitecustomize"] = ours


def _run():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    needed = False
    try:
        needed = _start(here)
    except Exception:  # noqa: S110 - a target never fails because of us
        pass
    _next(here)
    if needed:
        sys.path.append(here)


_run()
