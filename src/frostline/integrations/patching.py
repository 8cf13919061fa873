"""Wrappers that an integration puts around functions of a host, and what it tells the policy from there.

Each calls the host's function with what it was given, returns and raises what that does, and tells
afterwards. What goes wrong in the telling is ours alone.
"""

from _weakref import ref
from time import monotonic

from frostline import probe
from frostline.format import MARK_REFUSED
from frostline.policy import engine, moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]

#: ``inspect.CO_COROUTINE`` and ``CO_ASYNC_GENERATOR``, without 30 modules.
_COROUTINE = 0x80
_ASYNC_GENERATOR = 0x200


def put(owner: "Any", name: str, make: "Callable[[Function], Function]") -> bool:
    """Puts ``make(function)`` in the place of ``owner.name``, once. False, with a mark, where it is missing.

    Args:
        owner: a class or a module.
        make: one of the makers below.
    """
    real = getattr(owner, name, None)
    if real is None or not callable(real):
        refused(f"{getattr(owner, '__module__', '')}.{getattr(owner, '__qualname__', owner)}.{name}")
        return False
    if getattr(real, "_frostline", False):
        return True
    wrapper: Any = make(real)
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, attribute, getattr(real, attribute, None))
    wrapper.__wrapped__ = real
    wrapper._frostline = True
    setattr(owner, name, wrapper)
    return True


def on_object(thing: "Any", name: str, make: "Callable[[Function], Function]") -> bool:
    """The same for a method of one object: ``put`` would change all of its class.

    What is kept by the object holds it weakly, so no cycle is made.
    """
    own = getattr(thing, "__dict__", {}).get(name)
    if getattr(own, "_frostline", False):
        return True
    method: Any = getattr(type(thing), name, None)
    if own is None and not callable(method):
        refused(f"{type(thing).__module__}.{type(thing).__qualname__}.{name}")
        return False
    held = ref(thing)

    def real(*args: "Any", **keywords: "Any") -> "Any":
        return method(held(), *args, **keywords)

    wrapper: Any = make(own or real)
    wrapper._frostline = True
    setattr(thing, name, wrapper)
    return True


def refused(what: str) -> None:
    """A mark: this version of the host lacks what we know of others."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(
            MARK_REFUSED,
            a=recorder.name_id(f"integration {what}"),
            b=recorder.name_id("this version does not have it"),
        )


def ready(owner: object = None) -> None:
    """Start-up has ended and nothing has been admitted: the boundary."""
    moments.guarded(lambda: engine.boundary(engine.BY_INTEGRATION, owner))


def closed(owner: object = None) -> None:
    """The owner's life has ended: thaws, if it was the last one. No collection: the host is ending."""
    moments.guarded(lambda: engine.release(False, owner))


def _tell(tell: "Callable[[Any], object]", args: "tuple[Any, ...]") -> None:
    moments.guarded(lambda: tell(args[0] if args else None))


# --- makers ---------------------------------------------------------------------------
def then(tell: "Callable[[Any], object]") -> "Callable[[Function], Function]":
    """Calls ``tell(self)`` when a method has returned."""

    def make(real: "Function") -> "Function":
        def wrapper(*args: "Any", **keywords: "Any") -> "Any":
            result = real(*args, **keywords)
            _tell(tell, args)
            return result

        return wrapper

    return make


def then_async(tell: "Callable[[Any], object]") -> "Callable[[Function], Function]":
    """The same for a coroutine function."""

    def make(real: "Function") -> "Function":
        async def wrapper(*args: "Any", **keywords: "Any") -> "Any":
            result = await real(*args, **keywords)
            _tell(tell, args)
            return result

        return wrapper

    return make


def before(tell: "Callable[[Any], object]") -> "Callable[[Function], Function]":
    """Calls ``tell(self)`` and then the method."""

    def make(real: "Function") -> "Function":
        def wrapper(*args: "Any", **keywords: "Any") -> "Any":
            _tell(tell, args)
            return real(*args, **keywords)

        return wrapper

    return make


def in_flight(real: "Function") -> "Function":
    """Each call is a request."""
    enter, leave = moments.enter, moments.leave

    def wrapper(*args: "Any", **keywords: "Any") -> "Any":
        enter()
        try:
            return real(*args, **keywords)
        finally:
            leave()

    return wrapper


def in_flight_async(real: "Function") -> "Function":
    """Each run of the coroutine is a request."""
    enter, leave = moments.enter, moments.leave

    async def wrapper(*args: "Any", **keywords: "Any") -> "Any":
        enter()
        try:
            return await real(*args, **keywords)
        finally:
            leave()

    return wrapper


def in_flight_generator(real: "Function") -> "Function":
    """Each run of the asynchronous generator is a request, from its first step to its end.

    In a version of the host where it is a coroutine function or a plain one, each call is.
    """
    from frostline.probe.wrappers import code_flags

    flags = code_flags(real)
    if not flags & _ASYNC_GENERATOR:
        return in_flight_async(real) if flags & _COROUTINE else in_flight(real)
    enter, leave = moments.enter, moments.leave

    async def wrapper(*args: "Any", **keywords: "Any") -> "Any":
        enter()
        try:
            running = real(*args, **keywords)
            try:
                async for item in running:
                    yield item
            finally:
                await running.aclose()
        finally:
            leave()

    return wrapper


def quiet_get(get: "Function", empty: type[BaseException]) -> "Function":
    """For a loop that sleeps in ``queue.get()``: where a policy waits for an idle moment and nothing has
    come for ``moments.quiet()`` seconds, there is one, before the host goes on to sleep. Calls with arguments pass by.

    Args:
        get: ``get(timeout=seconds)`` raises ``empty``; ``get()`` waits.
    """

    def wrapper(*args: "Any", **keywords: "Any") -> "Any":
        if not args and not keywords and moments.wanted():
            try:
                return get(timeout=moments.quiet())
            except empty:
                moments.now()
        return get(*args, **keywords)

    return wrapper


def serving(get: "Function", queue: "Any") -> "Function":
    """For the loop of a worker over ``get()``: its first call is the boundary, since what the worker had to
    set up is set up. What a call returns is in flight until the next one, unless it is None. Where a
    policy waits for an idle moment and nothing has come for ``moments.quiet()`` seconds, there is one.

    Args:
        get: the function in whose place the result is put.
        queue: what it reads, a queue over a pipe.
    """
    told = busy = False

    def wrapper(*args: "Any", **keywords: "Any") -> "Any":
        nonlocal told, busy
        if busy:
            busy = False
            moments.leave()
        if not told:
            told = True
            ready()
        if moments.wanted() and _empty_for_a_while(queue):
            moments.now()
        task = get(*args, **keywords)
        if task is not None:
            busy = True
            moments.enter()
        return task

    return wrapper


def _empty_for_a_while(queue: "Any") -> bool:
    """Nothing can be read for ``moments.quiet()`` seconds. Nothing is read, and no lock is held when it returns."""
    reader = getattr(queue, "_reader", None)
    lock = getattr(queue, "_rlock", None)
    if reader is None:
        return False
    # Who does not get the lock in that time has a sibling that waits on the empty pipe.
    if lock is not None and not lock.acquire(True, moments.quiet()):
        return True
    try:
        return not reader.poll(moments.quiet())
    except (OSError, EOFError, ValueError):
        return False  # closed: get() says so
    finally:
        if lock is not None:
            lock.release()


class Work:
    """Whether a loop over a queue is at work. One loop, in one thread."""

    __slots__ = ("at_work", "since")

    def __init__(self) -> None:
        self.at_work = False
        self.since = monotonic()

    def begin(self) -> None:
        """Something has come."""
        if not self.at_work:
            self.at_work = True
            moments.enter()

    def end(self) -> None:
        """Nothing is left to do."""
        if self.at_work:
            self.at_work = False
            self.since = monotonic()
            moments.leave()

    def quiet(self) -> None:
        """The loop is about to sleep: an idle moment, if there has been nothing to do for ``moments.quiet()``."""
        if moments.wanted() and monotonic() - self.since >= moments.quiet():
            moments.now()
