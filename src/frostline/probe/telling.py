"""What a call tells beside its time: stage, batch size, a name. Loaded with ``spans`` only.

A *reader* looks at the arguments and the result of a call of a server that we know, and returns one
number (``told``). What every reader keeps to:

* It reads plain attributes, and the length of a list or a dictionary. Never a property of a tensor,
  which may wait for the device, and nothing whose cost grows with the batch.
* It keeps nothing, and makes no object that the collector tracks: numbers, and a text at most.
* It reads nothing of what a client has sent: the name of a task or the template of a route stands in
  the program's source; arguments, bodies, paths and queries do not.
* What is not as expected, another version's object, tells nothing. Only what a look at a strange
  object raises is caught: more would swallow what a signal handler of the host raises meanwhile.

The number is read after the end of the span was taken, so it is not part of what it tells of.
"""

from time import monotonic_ns

from frostline.format import SPAN_ASYNC, SPAN_FLAG_ERROR, SPAN_SYNC
from frostline.format.told import (
    DECODE,
    EMPTY,
    FLAG_BATCH,
    FLAG_GROUP,
    MIXED,
    PREFILL,
    STAGE_SHIFT,
    STAGES,
)
from frostline.probe import paths
from frostline.probe.callback import OURS
from frostline.probe.kinds import CoroutineType
from frostline.probe.wrappers import awaited, task_id
from frostline.probe.wrapping import label_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from frostline.probe.recorder import Recorder
    from frostline.probe.wrappers import Record, Teller

    Names = Callable[[str], int]
    Reader = Callable[[tuple[Any, ...], Any, Names], int]
    Keep = Callable[[tuple[Any, ...]], Any]
    Late = Callable[[Any, Names], int]

#: Makes the wrappers of ``--span`` in place of ours, where more than a time is wanted of a call (``agent.spanned``).
instead: "Teller | None" = None
_BATCH_SHIFT = 16
_NAME_SHIFT = 48
_MOST = (1 << 31) - 1
#: What a look at an object of another version raises.
STRANGE = (AttributeError, TypeError, LookupError, ValueError, RecursionError)


def told(stage: int, batch: int = -1, name: int = 0) -> int:
    """The three in one number, which the collector does not track: flags, batch size << 16, name id << 48."""
    number = stage << STAGE_SHIFT
    if batch >= 0:
        number |= FLAG_BATCH | min(batch, _MOST) << _BATCH_SHIFT
    if name > 0:
        number |= FLAG_GROUP | name << _NAME_SHIFT
    return number


def values_of(number: int) -> "tuple[int, int, int]":
    """(flags, value0, value1) of a span that tells ``number``."""
    return (
        number & 0xFFFF,
        number >> _BATCH_SHIFT & _MOST if number & FLAG_BATCH else -1,
        number >> _NAME_SHIFT if number & FLAG_GROUP else -1,
    )


def said(recorder: "Recorder", batch: object, stage: object, group: object) -> int:
    """The number for what a program says itself. What makes no sense is left out: nothing is raised."""
    try:
        size = -1 if batch is None else int(batch)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        size = -1
    # Plain texts, whatever class of text the host has: its methods are not ours to call.
    phase = str.__str__(stage) if isinstance(stage, str) else ""
    name = str.__str__(group) if isinstance(group, str) else ""
    place = STAGES.index(phase) if phase in STAGES else 0
    return told(place, size, label_id(recorder, name) if name else 0)


# --- readers --------------------------------------------------------------------------
#: A stage that is told with a batch size, which is added in its place: no call more, since vLLM's step pays it.
_PREFILL, _DECODE, _MIXED, _EMPTY = (stage << STAGE_SHIFT | FLAG_BATCH for stage in range(1, 5))


def _scheduled(args: "tuple[Any, ...]", output: "Any", name: "Names") -> int:
    """vLLM's SchedulerOutput. *mixed*: some request in its prefill, and others.

    A prompt that is continued (chunked prefill, or a request that was preempted) is told by more
    tokens than requests; beside drafts of speculative decoding it cannot be, and counts as decode.
    """
    batch = len(output.num_scheduled_tokens)
    if not batch:
        return _EMPTY
    new = len(output.scheduled_new_reqs)
    if new:
        return (_PREFILL if new == batch else _MIXED) | batch << _BATCH_SHIFT
    if output.total_num_scheduled_tokens > batch and not output.scheduled_spec_decode_tokens:
        return (_PREFILL if batch == 1 else _MIXED) | batch << _BATCH_SHIFT
    return _DECODE | batch << _BATCH_SHIFT


def _argument_scheduled(args: "tuple[Any, ...]", result: "Any", name: "Names") -> int:
    return _scheduled(args, args[1], name)


def _length(args: "tuple[Any, ...]", result: "Any", name: "Names") -> int:
    return told(0, len(args[1]))


#: By the name of SGLang's ForwardMode; one that is not here tells no stage.
_MODES = {
    "EXTEND": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "DECODE": DECODE,
    "TARGET_VERIFY": DECODE,
    "PREBUILT": DECODE,
    "MIXED": MIXED,
    "IDLE": EMPTY,
}


def _schedule_batch(args: "tuple[Any, ...]", result: "Any", name: "Names") -> int:
    """SGLang's ScheduleBatch, or the ForwardBatch or ModelWorkerBatch made of it."""
    batch = args[1]
    requests = getattr(batch, "reqs", None)
    stage = _MODES.get(getattr(batch.forward_mode, "_name_", ""), 0)
    return told(stage, len(requests) if type(requests) is list else -1)


def _running(args: "tuple[Any, ...]", result: "Any", name: "Names") -> int:
    return told(DECODE, len(args[1].reqs))


def _extended(args: "tuple[Any, ...]", result: "Any", name: "Names") -> int:
    return told(PREFILL, len(args[0].reqs))


def _request_ids(args: "tuple[Any, ...]", result: "Any", name: "Names") -> int:
    return told(0, len(args[1].rids))


def _task_name(args: "tuple[Any, ...]", result: "Any", name: "Names") -> int:
    """Celery: the name under which the task is registered. Never its arguments, nor its id."""
    task = args[0]
    return told(0, -1, name(task)) if type(task) is str else 0


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))


def _route(scope: "Any", name: "Names") -> int:
    """ASGI: the template of the route that Starlette or FastAPI found, as ``GET /items/{item}``.

    From the route's own dictionary, so that no property of a framework runs. A server or framework
    that leaves no route in the scope tells nothing; the path of the request is never taken instead.
    """
    template = scope["route"].__dict__["path"]
    if type(template) is not str:
        return 0
    method = scope.get("method")
    return told(0, -1, name(f"{method} {template}" if method in _METHODS else template))


def route(recorder: "Recorder", scope: "Any") -> int:
    """The same for our own middleware: 0 where there is no template."""
    try:
        return _route(scope, lambda text: label_id(recorder, text))
    except STRANGE:
        return 0


def _scope_of_cycle(args: "tuple[Any, ...]") -> "Any":
    return args[0].scope


def _scope_third(args: "tuple[Any, ...]") -> "Any":
    return args[2]


#: ``module:qualified name`` of what a preset wraps -> its reader.
READERS: "dict[str, Reader]" = {
    "vllm.v1.core.sched.scheduler:Scheduler.schedule": _scheduled,
    "vllm.v1.core.sched.scheduler:Scheduler.update_from_output": _argument_scheduled,
    "vllm.v1.core.sched.diffusion_scheduler:DiffusionScheduler.schedule": _scheduled,
    "vllm.v1.executor.multiproc_executor:MultiprocExecutor.execute_model": _argument_scheduled,
    "vllm.v1.worker.gpu_worker:Worker.execute_model": _argument_scheduled,
    "vllm.v1.engine.output_processor:OutputProcessor.process_outputs": _length,
    "sglang.srt.managers.scheduler:Scheduler.update_running_batch": _running,
    "sglang.srt.managers.scheduler:Scheduler.run_batch": _schedule_batch,
    "sglang.srt.managers.scheduler:Scheduler.process_batch_result": _schedule_batch,
    "sglang.srt.managers.schedule_batch:ScheduleBatch.prepare_for_extend": _extended,
    "sglang.srt.managers.tp_worker:TpModelWorker.forward_batch_generation": _schedule_batch,
    "sglang.srt.managers.detokenizer_manager:DetokenizerManager.handle_batch_token_id_out": _request_ids,
    "sglang.srt.managers.tokenizer_manager:TokenizerManager._handle_batch_output": _request_ids,
    "celery.app.trace:fast_trace_task": _task_name,
    "celery.app.trace:trace_task_ret": _task_name,
}
#: The same of coroutines, which give their arguments up: what to keep for the end, and its reader. The
#: scope lives as long as the request without us too.
LATE_READERS: "dict[str, tuple[Keep, Late]]" = {
    "uvicorn.protocols.http.h11_impl:RequestResponseCycle.run_asgi": (_scope_of_cycle, _route),
    "uvicorn.protocols.http.httptools_impl:RequestResponseCycle.run_asgi": (_scope_of_cycle, _route),
    "uvicorn.protocols.http.zttp_impl:RequestResponseCycle.run_asgi": (_scope_of_cycle, _route),
    "uvicorn.protocols.http.zttp_h2_impl:RequestResponseCycle.run_asgi": (_scope_of_cycle, _route),
    "hypercorn.asyncio.task_group:_handle": (_scope_third, _route),
    "hypercorn.trio.task_group:_handle": (_scope_third, _route),
}


def teller(recorder: "Recorder", target: str) -> "Teller | None":
    """What makes the wrapper of a preset's target, None where there is nothing to tell."""

    def name(text: str) -> int:
        return label_id(recorder, text)

    read = READERS.get(target)
    if read is not None:
        reader = read
        return lambda call, record, label, flags, coroutine: (
            None if coroutine else _plain(call, record, label, flags, reader, name)
        )
    late = LATE_READERS.get(target)
    if late is None:
        return None
    keep, at_end = late
    return lambda call, record, label, flags, coroutine: (
        _coroutine(call, record, label, flags, keep, at_end, name) if coroutine else None
    )


def asked(recorder: "Recorder", what: "paths.Told") -> "Teller | None":
    """The same for what ``--span`` asks for; None where it asks for no more than the time."""
    if instead is not None or not what:
        return instead
    read = paths.reader(what, told)

    def name(text: str) -> int:
        return label_id(recorder, text)

    return lambda call, record, label, flags, coroutine: (
        None if coroutine else _plain(call, record, label, flags, read, name)
    )


# --- wrappers: as in ``wrappers``, whose rules hold here too ----------------------------
def _plain(
    call: "Callable[..., Any]", record: "Record", label: int, flags: int, read: "Reader", name: "Names"
) -> "Any":
    now = monotonic_ns
    any_exception, too_deep, strange = BaseException, RecursionError, STRANGE
    type_of, finish, coroutine = type, awaited, CoroutineType
    error, sync = flags | SPAN_FLAG_ERROR, SPAN_SYNC
    batch, group = FLAG_BATCH, FLAG_GROUP
    most, by, name_by = _MOST, _BATCH_SHIFT, _NAME_SHIFT

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
            outer: Any = finish(result, start, record, label, flags)
            outer.__name__ = result.__name__
            outer.__qualname__ = result.__qualname__
            return outer
        stop = now()
        try:
            more = read(args, result, name)
        except strange:
            more = 0
        try:
            record(
                start,
                stop,
                label,
                sync,
                flags | more & 0xFFFF,
                more >> by & most if more & batch else -1,
                more >> name_by if more & group else -1,
                0,
            )
        except too_deep:
            pass
        return result

    return wrapper


def _coroutine(
    call: "Callable[..., Any]",
    record: "Record",
    label: int,
    flags: int,
    keep: "Keep",
    read: "Late",
    name: "Names",
) -> "Any":
    now = monotonic_ns
    any_exception, too_deep, strange = BaseException, RecursionError, STRANGE
    error, kind = flags | SPAN_FLAG_ERROR, SPAN_ASYNC
    batch, group = FLAG_BATCH, FLAG_GROUP
    most, by, name_by = _MOST, _BATCH_SHIFT, _NAME_SHIFT
    task_of = task_id

    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        start = now()
        task = task_of()
        try:
            kept = keep(args)
        except strange:
            kept = None
        try:
            inner = call(*args, **kwargs)
            del args, kwargs
            result = await inner
        except any_exception:
            kept = None  # the exception keeps this frame
            try:
                record(start, now(), label, kind, error, -1, -1, task)
            except too_deep:
                pass
            raise
        stop = now()
        try:
            more = read(kept, name)
        except strange:
            more = 0
        kept = None
        try:
            record(
                start,
                stop,
                label,
                kind,
                flags | more & 0xFFFF,
                more >> by & most if more & batch else -1,
                more >> name_by if more & group else -1,
                task,
            )
        except too_deep:
            pass
        return result

    return wrapper


OURS.add(teller.__code__.co_filename)
