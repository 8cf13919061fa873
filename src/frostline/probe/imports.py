"""Calls back when a module has been imported, for spans and for the recorder's own needs.

Loaded in every recorded process, so it imports nothing that an interpreter has not
loaded already, and an import that nobody watches costs one dictionary look-up.

A finder at the head of ``sys.meta_path`` asks the finders behind it for the spec of a
watched module and puts a proxy in front of the spec's loader. The proxy runs the
original, then calls back. Loaders are never changed: the ones for built-in and frozen
modules are classes that every module shares. Before the module's body runs, the spec and
the module have their original loader back, so that ``inspect``, ``pkgutil``, resources
and pickles see what they would see without us.

Not seen, and why: a module imported before we came (``watch`` calls back at once), one
that another tool's finder at the head of the path loads on its own account (``sweep``
finds it later), a namespace package (it has no body), and ``__main__`` (its body is the
program).
"""

import sys
from _thread import _local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

#: The modules that the presets wrap something in. Here, because recognising a server must
#: not load the tables; a test holds the two together.
PRESET_MODULES = {
    "asgi": (
        "uvicorn.protocols.http.h11_impl",
        "uvicorn.protocols.http.httptools_impl",
        "uvicorn.protocols.http.zttp_impl",
        "uvicorn.protocols.http.zttp_h2_impl",
        "hypercorn.asyncio.task_group",
        "hypercorn.trio.task_group",
        "gunicorn.asgi.protocol",
    ),
    "wsgi": (
        "gunicorn.workers.sync",
        "gunicorn.workers.gthread",
        "gunicorn.workers.base_async",
    ),
    "celery": ("celery.app.trace",),
    "vllm": (
        "vllm.v1.engine.core",
        "vllm.v1.core.sched.scheduler",
        "vllm.v1.core.sched.diffusion_scheduler",
        "vllm.v1.executor.multiproc_executor",
        "vllm.v1.worker.gpu_worker",
        "vllm.v1.engine.output_processor",
    ),
    "sglang": (
        "sglang.srt.managers.scheduler",
        "sglang.srt.managers.schedule_batch",
        "sglang.srt.managers.tp_worker",
        "sglang.srt.managers.detokenizer_manager",
        "sglang.srt.managers.tokenizer_manager",
    ),
    "dynamo": (
        "dynamo.frontend.vllm_processor",
        "dynamo.frontend.sglang_processor",
        "dynamo.frontend.prepost",
        "dynamo.frontend.sglang_prepost",
    ),
}

_watched: "dict[str, list[Callable[[object], object]]]" = {}
#: Names that have called back at least once, so that sweep() does not do it again.
_seen: "set[str]" = set()
#: Watched modules whose body has run to its end: what they lack now, they lack.
bodies_run: "set[str]" = set()
#: What each thread is looking for, so that a finder that asks the others through
#: importlib.util.find_spec (wrapt, ddtrace) does not come round to us again. A thread's
#: own, so a fork in the middle of another thread's import leaves nothing behind.
_searching = _local()


def watch(name: str, callback: "Callable[[object], object]") -> None:
    """Call ``callback(module)`` after each execution of the module's body, reloads included.

    At once if the module is there already. What the callback raises is dropped: an
    import never fails because of us.
    """
    callbacks = _watched.get(name)
    if callbacks is None:
        callbacks = _watched[name] = []
    if callback in callbacks:
        return
    callbacks.append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    module = sys.modules.get(name)
    if module is not None:
        # One that is still being imported lacks names: sweep() comes back to it.
        if not getattr(getattr(module, "__spec__", None), "_initializing", False):
            _seen.add(name)
        _call(callback, module)


def unwatch(name: str, callback: "Callable[[object], object]") -> None:
    """Forget one callback; with the last one the finder goes too."""
    callbacks = _watched.get(name)
    if callbacks is None or callback not in callbacks:
        return
    callbacks.remove(callback)
    if not callbacks:
        del _watched[name]
        _seen.discard(name)
    if not _watched and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def disarm() -> None:
    """Forgets everything that is watched; the finder goes."""
    _watched.clear()
    _seen.clear()
    state.spans = ""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def sweep() -> "list[str]":
    """Call back for watched modules that came in past us; returns the names still missing."""
    missing = []
    for name in list(_watched):
        if name in _seen:
            continue
        module = sys.modules.get(name)
        if module is None:
            missing.append(name)
        else:
            _arrived(name, module)
    return missing


def arm(spans: str, presets: str) -> None:
    """Watch the modules that FROSTLINE_SPANS and FROSTLINE_PRESETS name.

    ``spans`` is ``module:qualname[=label]`` separated by ``;``. ``presets`` is ``auto``
    (all of them, each recognised by its modules), a comma list, or ``none``.
    """
    state.spans = spans
    # The user's own come first: of two wraps of the same thing the first one's label holds.
    for item in spans.split(";"):
        name, colon, _ = item.partition(":")
        name = name.strip()
        if not colon:
            if name:
                _refuse(item, "")
        elif name == "__main__":
            _watch_main(item)
        else:
            watch(name, _Arrived(name, False))
    wanted = [word.strip() for word in presets.split(",")]
    for preset, names in PRESET_MODULES.items():
        if preset in wanted or "auto" in wanted:
            for name in names:
                watch(name, _Arrived(name, True))


class _State:
    """What arm() was told, for the part that is loaded when a module arrives."""

    __slots__ = ("spans",)

    def __init__(self) -> None:
        self.spans = ""


state = _State()


class _Arrived:
    """The callback for modules with spans: loads the part that wraps only now."""

    __slots__ = ("_name", "_preset")

    def __init__(self, name: str, preset: bool) -> None:
        self._name = name
        self._preset = preset

    def __eq__(self, other: object) -> bool:
        return type(other) is _Arrived and (other._name, other._preset) == (self._name, self._preset)

    def __hash__(self) -> int:
        return hash((self._name, self._preset))

    def __call__(self, module: object) -> None:
        from frostline.probe import spans

        (spans.preset_arrived if self._preset else spans.spans_arrived)(self._name, module)


def _runs_as_main(name: str) -> None:
    """``python -m`` takes this module's code and runs it as ``__main__``: it is not imported."""
    for item in state.spans.split(";"):
        if item.partition(":")[0].strip() == name:
            _watch_main(item)


def _watch_main(item: str) -> None:
    try:
        from frostline.probe import main_module

        reason = main_module.watch(item)
        if reason:
            _refuse(item, reason)
    except Exception:
        pass


def _refuse(item: str, reason: str) -> None:
    try:
        from frostline.probe import spans

        spans.refuse(item, reason)
    except Exception:
        pass


def _call(callback: "Callable[[object], object]", module: object) -> None:
    try:
        callback(module)
    except Exception:
        pass


def _arrived(name: str, module: object) -> None:
    _seen.add(name)
    # A body may put something else in its place; that is what everybody else will get.
    module = sys.modules.get(name) or module
    for callback in tuple(_watched.get(name, ())):
        _call(callback, module)


class _Finder:
    """The entry in ``sys.meta_path``."""

    __slots__ = ()

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name in _watched:
            return _search(name, path, target)
        return None


_finder = _Finder()


def _search(name: str, path: "Sequence[str] | None", target: "ModuleType | None") -> "ModuleSpec | None":
    searching: "tuple[str, ...]" = getattr(_searching, "names", ())
    if name in searching:
        return None
    _searching.names = (*searching, name)
    try:
        spec = _ask_the_others(name, path, target)
    finally:
        _searching.names = searching
    loader: "Any" = getattr(spec, "loader", None)
    if spec is None or loader is None or type(loader) in (_Loader, _OldLoader):
        return spec
    if hasattr(loader, "exec_module"):
        if hasattr(loader, "create_module"):
            spec.loader = _Loader(name, loader)  # type: ignore[assignment]
    elif hasattr(loader, "load_module"):
        spec.loader = _OldLoader(name, loader, spec)  # type: ignore[assignment]
    return spec


def _ask_the_others(
    name: str, path: "Sequence[str] | None", target: "ModuleType | None"
) -> "ModuleSpec | None":
    finders = list(sys.meta_path)
    if _finder in finders:
        # Those before us have been asked and said no.
        finders = finders[finders.index(_finder) + 1 :]
    for finder in finders:
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is None:
            # Up to 3.11 such a finder is asked through find_module; the import system
            # does that, unwatched. Going on would change who answers.
            if hasattr(finder, "find_module"):
                return None
            continue
        spec: "ModuleSpec | None" = find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


class _Proxy:
    """Stands in for a loader until the module's body is about to run."""

    # No slots: what a tool puts in the place of our methods is kept here.
    _loader: "Any"
    _name: str

    def __init__(self, name: str, loader: object) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_loader", loader)

    # isinstance() believes this; type() does not, and _search relies on it.
    __class__ = property(lambda self: self._loader.__class__)

    def __getattr__(self, attribute: str) -> "Any":
        if attribute == "get_code" and getattr(sys, "argv", [])[:1] == ["-m"]:
            # The start of python -m, which sets argv right later. Not a method of ours: ddtrace
            # takes a loader's get_code and puts its own in the place, and must get the loader's.
            _runs_as_main(self._name)
        return getattr(self._loader, attribute)

    def __setattr__(self, attribute: str, value: object) -> None:
        # A method of ours that was taken and replaced calls us: it must not end up behind us.
        if attribute in type(self).__dict__:
            object.__setattr__(self, attribute, value)
        else:
            setattr(self._loader, attribute, value)

    def __repr__(self) -> str:
        return repr(self._loader)


def _restore(proxy: _Proxy, module: "Any") -> None:
    try:
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is proxy:
            spec.loader = proxy._loader
        if getattr(module, "__loader__", None) is proxy:
            module.__loader__ = proxy._loader
    except Exception:
        pass


class _Loader(_Proxy):
    def create_module(self, spec: object) -> "Any":
        return self._loader.create_module(spec)

    def exec_module(self, module: object) -> None:
        _restore(self, module)
        self._loader.exec_module(module)
        bodies_run.add(self._name)  # the import system still calls it unfinished
        _arrived(self._name, module)


class _OldLoader(_Proxy):
    """For a loader that has only ``load_module``: the module gets its spec after that has run."""

    _spec: "ModuleSpec | None"

    def __init__(self, name: str, loader: object, spec: "ModuleSpec") -> None:
        super().__init__(name, loader)
        object.__setattr__(self, "_spec", spec)

    def load_module(self, name: str) -> object:
        spec = self._spec
        proxy: object = None if spec is None else spec.loader
        if spec is not None and proxy is self:
            spec.loader = self._loader
        object.__setattr__(self, "_spec", None)
        module: object = self._loader.load_module(name)
        _restore(self, module)
        _arrived(self._name, module)
        return module
