"""Callables that time what they stand for: one factory for each kind of callable.

Rules that every wrapper here keeps:

* Everything it needs, names of exceptions included, is in its closure: at interpreter exit
  module globals are None, and the wrapper runs in the globals of the host's function.
* It lives only as long as a call, holds no exception, and gives its arguments up where the
  callee may outlive the call, so nothing dies later than without us and no cycle is made.
* It raises what the callee raises. Only a RecursionError of our own is swallowed: the
  stack may end between the callee's frame and ours. Anything wider would swallow what a
  signal handler of the host raises while we write.
"""

import sys
from time import monotonic_ns

from frostline.format import SPAN_ASYNC, SPAN_FLAG_ERROR, SPAN_GENERATOR, SPAN_SYNC
from frostline.probe.callback import OURS
from frostline.probe.kinds import CoroutineType, FunctionType, MethodType, of_functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any

    Record = Callable[[int, int, int, int, int, int, int, int], None]
    #: Makes the wrapper of a function, or (the last argument) of a coroutine function, that tells more
    #: than its time; None where it has nothing for that kind.
    Teller = Callable[[Callable[..., Any], Record, int, int, bool], Any]

_GENERATOR = 0x20
_COROUTINE = 0x80
_ITERABLE_COROUTINE = 0x100
_ASYNC_GENERATOR = 0x200


def nothing(*_: object) -> None:
    """Takes the recorder's place in a wrapper that can no longer be removed."""


def task_id(modules: "dict[str, Any]" = sys.modules) -> int:
    """The running asyncio task, 0 if there is none. Never imports asyncio."""
    tasks = modules.get("asyncio.tasks")
    if tasks is None:
        return 0
    try:
        task = tasks.current_task()
    except (RuntimeError, AttributeError):
        return 0
    return 0 if task is None else id(task)


def code_flags(call: object) -> int:
    """``co_flags`` of the function behind partials and bound methods, 0 if there is none."""
    while True:
        if type(call) is MethodType:
            call = call.__func__
        elif of_functools(call, "partial"):
            call = call.func  # type: ignore[attr-defined]
        else:
            break
    flags = getattr(getattr(call, "__code__", None), "co_flags", 0)
    return flags if isinstance(flags, int) else 0


def timed(
    call: "Callable[..., Any]", record: "Record", label: int, flags: int, teller: "Teller | None" = None
) -> "Any":
    """A function of the same kind as ``call`` that records a span for each call.

    It carries the name, documentation, attributes and, through ``__wrapped__``, the
    signature of ``call``. ``teller``: of ``telling``, for what a span is to tell beside its time.
    """
    code = code_flags(call)
    wrapper = None
    if teller is not None and not code & (_ASYNC_GENERATOR | _GENERATOR):
        wrapper = teller(call, record, label, flags, bool(code & _COROUTINE))
    if wrapper is not None:
        pass
    elif code & _ASYNC_GENERATOR:
        wrapper = _async_generator(call, record, label, flags)
    elif code & _COROUTINE:
        wrapper = _coroutine(call, record, label, flags)
    elif code & _GENERATOR:
        wrapper = _generator(call, record, label, flags)
        if code & _ITERABLE_COROUTINE:  # types.coroutine: must stay awaitable
            wrapper.__code__ = wrapper.__code__.replace(
                co_flags=wrapper.__code__.co_flags | _ITERABLE_COROUTINE
            )
    else:
        wrapper = _plain(call, record, label, flags)
    # In the host function's globals, which frameworks read to resolve annotations (FastAPI for
    # one); the wrappers above use no global of their own.
    namespace = getattr(call, "__globals__", None)
    if type(namespace) is dict:
        wrapper = FunctionType(wrapper.__code__, namespace, "wrapper", None, wrapper.__closure__)
    _dress(wrapper, call)
    return wrapper


def _dress(wrapper: "Any", call: "Any") -> None:
    """What ``functools.update_wrapper`` does."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__type_params__"):
        try:
            setattr(wrapper, name, getattr(call, name))
        except (AttributeError, TypeError):
            pass
    # From 3.14 annotations are computed when asked for; to ask here could raise in the host's code.
    annotate = getattr(call, "__annotate__", None)
    try:
        if annotate is not None:
            wrapper.__annotate__ = annotate
        else:
            wrapper.__annotations__ = call.__annotations__
    except (AttributeError, TypeError):
        pass
    wrapper.__dict__.update(getattr(call, "__dict__", {}))
    wrapper.__wrapped__ = call


def silence(wrapper: object) -> None:
    """Makes a wrapper that others have built upon call through and record nothing."""
    closure = getattr(wrapper, "__closure__", None)
    if closure is not None and isinstance(wrapper, FunctionType):
        for name, cell in zip(wrapper.__code__.co_freevars, closure, strict=True):
            if name == "record":
                cell.cell_contents = nothing


def _plain(call: "Callable[..., Any]", record: "Record", label: int, flags: int) -> "Any":
    now = monotonic_ns
    any_exception, too_deep = BaseException, RecursionError
    type_of = type
    error = flags | SPAN_FLAG_ERROR
    sync = SPAN_SYNC
    coroutine = CoroutineType
    finish = awaited

    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        start = now()
        try:
            result = call(*args, **kwargs)
        except any_exception:
            del args, kwargs
            try:
                record(start, now(), label, sync, error, -1, -1, 0)
            except too_deep:
                pass
            raise
        if type_of(result) is coroutine:
            # A decorated coroutine function: the work is in what it returned.
            outer: Any = finish(result, start, record, label, flags)
            # A warning that it was never awaited must name the host's function.
            outer.__name__ = result.__name__
            outer.__qualname__ = result.__qualname__
            return outer
        try:
            record(start, now(), label, sync, flags, -1, -1, 0)
        except too_deep:
            pass
        return result

    return wrapper


async def awaited(
    inner: "Any",
    start: int,
    record: "Record",
    label: int,
    flags: int,
    now: "Callable[[], int]" = monotonic_ns,
    task_of: "Callable[[], int]" = task_id,
) -> "Any":
    task = task_of()
    try:
        result = await inner
    except BaseException:
        record(start, now(), label, SPAN_ASYNC, flags | SPAN_FLAG_ERROR, -1, -1, task)
        raise
    record(start, now(), label, SPAN_ASYNC, flags, -1, -1, task)
    return result


def _coroutine(call: "Callable[..., Any]", record: "Record", label: int, flags: int) -> "Any":
    now = monotonic_ns
    any_exception, too_deep = BaseException, RecursionError
    error = flags | SPAN_FLAG_ERROR
    kind = SPAN_ASYNC
    task_of = task_id

    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        start = now()
        task = task_of()
        try:
            inner = call(*args, **kwargs)
            del args, kwargs
            result = await inner
        except any_exception:
            try:
                record(start, now(), label, kind, error, -1, -1, task)
            except too_deep:
                pass
            raise
        try:
            record(start, now(), label, kind, flags, -1, -1, task)
        except too_deep:
            pass
        return result

    return wrapper


# The two below do by hand what ``yield from`` does, because that closes the inner generator
# on a thrown GeneratorExit instead of handing it over, and there is no ``yield from`` for
# asynchronous ones. The box keeps no item: what passes through is taken out of it as it is
# handed on, so a suspended wrapper refers to nothing that the bare generator would not.


def _generator(call: "Callable[..., Any]", record: "Record", label: int, flags: int) -> "Any":
    now = monotonic_ns
    any_exception, too_deep, stop_iteration, generator_exit = (
        BaseException,
        RecursionError,
        StopIteration,
        GeneratorExit,
    )
    error = flags | SPAN_FLAG_ERROR
    kind = SPAN_GENERATOR

    def wrapper(*args: "Any", **kwargs: "Any") -> "Generator[Any, Any, Any]":
        inner = call(*args, **kwargs)
        del args, kwargs
        send = step = inner.send
        throw = inner.throw
        box: "list[Any]" = [None]
        take, put = box.pop, box.append
        start = now()
        try:
            while True:
                try:
                    put(step(take()))
                except stop_iteration as stop:
                    result = stop.value
                    break
                try:
                    put((yield take()))
                    step = send
                except any_exception as thrown:
                    put(thrown)
                    step = throw
        except generator_exit:
            record(start, now(), label, kind, flags, -1, -1, 0)
            raise
        except any_exception:
            try:
                record(start, now(), label, kind, error, -1, -1, 0)
            except too_deep:
                pass
            raise
        try:
            record(start, now(), label, kind, flags, -1, -1, 0)
        except too_deep:
            pass
        return result

    return wrapper


def _async_generator(call: "Callable[..., Any]", record: "Record", label: int, flags: int) -> "Any":
    now = monotonic_ns
    any_exception, too_deep, generator_exit, stop_async_iteration = (
        BaseException,
        RecursionError,
        GeneratorExit,
        StopAsyncIteration,
    )
    error = flags | SPAN_FLAG_ERROR
    kind = SPAN_ASYNC
    task_of = task_id
    first = _unhooked_asend

    async def wrapper(*args: "Any", **kwargs: "Any") -> "AsyncGenerator[Any, Any]":
        inner = call(*args, **kwargs)
        del args, kwargs
        send, step = inner.asend, first(inner)
        throw = inner.athrow
        box: "list[Any]" = [None]
        take, put = box.pop, box.append
        task = task_of()
        start = now()
        try:
            while True:
                try:
                    put(await step(take()))
                except stop_async_iteration:
                    break
                try:
                    put((yield take()))
                    step = send
                except any_exception as thrown:
                    put(thrown)
                    step = throw
        except generator_exit:
            record(start, now(), label, kind, flags, -1, -1, task)
            raise
        except any_exception:
            try:
                record(start, now(), label, kind, error, -1, -1, task)
            except too_deep:
                pass
            raise
        try:
            record(start, now(), label, kind, flags, -1, -1, task)
        except too_deep:
            pass

    return wrapper


def _unhooked_asend(inner: "Any") -> "Callable[[Any], Any]":
    """``inner.asend``, its first call hidden from the event loop.

    The loop would register the inner generator beside the outer one and close both at its
    end, at the same time: "asynchronous generator is already running". The outer one, which
    the loop knows, closes the inner one.
    """

    def asend(value: "Any") -> "Any":
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            return inner.asend(value)
        finally:
            sys.set_asyncgen_hooks(*hooks)

    return asend


OURS.add(timed.__code__.co_filename)
