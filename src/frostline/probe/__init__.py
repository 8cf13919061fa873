"""The part that runs in the target: what this interpreter is, and its recorder.

Every difference between interpreters that the code in the target relies on stands here, and
nowhere else: each is a fact of CPython that was run or read (``docs/limits.md`` has the table),
and other code asks for the fact, never for a version. (In the package's own file because a
module more is a cost in every recorded interpreter.)
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from frostline.probe.recorder import Recorder

_VERSION = sys.version_info[:3]

SUPPORTED = sys.implementation.name == "cpython" and _VERSION >= (3, 10, 0)

#: No GIL: passes report generation 0, and polling counters starves the collector.
FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()

#: 3.14.0 to 3.14.4 have the incremental collector; generation 2 starts only by gc.collect().
INCREMENTAL = (3, 14, 0) <= _VERSION < (3, 14, 5)

#: Some hundred objects of the interpreter's own are frozen before any program runs (375 on 3.12.1).
FREEZES_AT_START = (3, 12) <= _VERSION < (3, 13)

#: The callback's info carries "candidates" and "duration".
HAS_CANDIDATES = _VERSION >= (3, 15, 0)

#: mmap(trackfd=False): the mapping keeps no descriptor, so closing it closes nothing of the host's.
HAS_TRACKFD = _VERSION >= (3, 13, 0)

#: Children that multiprocessing forks run atexit functions, those registered in the child: their parent's are
#: forgotten. Before 3.13 only its own finalizers.
MULTIPROCESSING_RUNS_ATEXIT = _VERSION >= (3, 13, 0)

#: A functools.partial in a class body receives the object, as a function does.
PARTIAL_BINDS = _VERSION >= (3, 14, 0)


def build_flags() -> int:
    """BUILD_* flags of the header (1 free-threaded, 2 debug build)."""
    return (1 if FREE_THREADED else 0) | (2 if hasattr(sys, "gettotalrefcount") else 0)


#: The recorder of this interpreter, None where nothing asked for one. Set by ``hooks.start``.
_recorder: "Recorder | None" = None


def recorder_of_this_process() -> "Recorder | None":
    """The recorder of this interpreter, or None. It follows the process through forks."""
    return _recorder


def set_recorder(recorder: "Recorder | None") -> None:
    """Makes ``recorder`` the one of this interpreter."""
    global _recorder
    _recorder = recorder
