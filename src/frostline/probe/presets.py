"""What to wrap in servers that we know, and the grammar of ``--span``. Tables, no I/O.

A span is work, not a wait for work: the loop of an engine core that blocks on its queue
is not here, the step it runs once there is something to do is. A request is a span whose
kind says *async*: others ran in between, and it contains its waits.

A target that a version lacks is refused in the recording and nowhere else, so a table may
name what only some versions have.
"""

from frostline.probe import paths
from frostline.probe.imports import PRESET_MODULES

_REQUEST = "request"
_TASK = "task"

#: preset -> module -> (qualified name, label).
PRESETS: "dict[str, dict[str, tuple[tuple[str, str], ...]]]" = {
    # uvicorn 0.54, hypercorn 0.18, gunicorn 27.0 (its own ASGI worker).
    "asgi": {
        # One task of the event loop runs this for one request, from the parsed head of the
        # request to the application's return. Websockets and lifespan take other ways.
        "uvicorn.protocols.http.h11_impl": (("RequestResponseCycle.run_asgi", _REQUEST),),
        "uvicorn.protocols.http.httptools_impl": (("RequestResponseCycle.run_asgi", _REQUEST),),
        # These two, and Hypercorn on trio, were read and not run.
        "uvicorn.protocols.http.zttp_impl": (("RequestResponseCycle.run_asgi", _REQUEST),),
        "uvicorn.protocols.http.zttp_h2_impl": (("RequestResponseCycle.run_asgi", _REQUEST),),
        # Lifespan does not come this way; a websocket does, for its whole life.
        "hypercorn.asyncio.task_group": (("_handle", _REQUEST),),
        "hypercorn.trio.task_group": (("_handle", _REQUEST),),
        "gunicorn.asgi.protocol": (
            ("ASGIProtocol._handle_http_request", _REQUEST),
            ("ASGIProtocol._handle_http2_request", _REQUEST),
        ),
    },
    # gunicorn 27.0: sync, gthread, and the base of gevent and eventlet. Each is called with
    # a parsed request and returns when the response is written.
    "wsgi": {
        "gunicorn.workers.sync": (("SyncWorker.handle_request", _REQUEST),),
        "gunicorn.workers.gthread": (("ThreadWorker.handle_request", _REQUEST),),
        "gunicorn.workers.base_async": (("AsyncWorker.handle_request", _REQUEST),),
    },
    # celery 5.7: what a pool process runs for one message (prefork, threads, solo).
    "celery": {
        "celery.app.trace": (("fast_trace_task", _TASK), ("trace_task_ret", _TASK)),
    },
    # vLLM 0.32 (V1 engine).
    "vllm": {
        # Schedule, execute, output: one of the two is the engine core's step_fn. Each waits
        # inside for its workers, which is part of the step.
        "vllm.v1.engine.core": (
            ("EngineCore.step", "engine step"),
            ("EngineCore.step_with_batch_queue", "engine step"),
        ),
        "vllm.v1.core.sched.scheduler": (
            ("Scheduler.schedule", "schedule"),
            ("Scheduler.update_from_output", "update"),
        ),
        "vllm.v1.core.sched.diffusion_scheduler": (("DiffusionScheduler.schedule", "schedule"),),
        # Handing a step to the workers; the rest of the step, but for the scheduler, is the wait for them.
        # Not the executor without worker processes: there the worker's own spans lie in the step.
        "vllm.v1.executor.multiproc_executor": (
            ("MultiprocExecutor.execute_model", "submit"),
            ("MultiprocExecutor.sample_tokens", "submit"),
        ),
        # The CPU and XPU workers inherit these.
        "vllm.v1.worker.gpu_worker": (
            ("Worker.execute_model", "execute model"),
            ("Worker.sample_tokens", "sample tokens"),
        ),
        # In the API server, or in Dynamo's front end.
        "vllm.v1.engine.output_processor": (("OutputProcessor.process_outputs", "process outputs"),),
    },
    # SGLang 0.5.23, run on the CPU.
    "sglang": {
        "sglang.srt.managers.scheduler": (
            # Not get_next_batch_to_run: the loop never sleeps, so an idle server calls that
            # hundreds of times a second.
            ("Scheduler.update_running_batch", "schedule"),
            ("Scheduler.run_batch", "engine step"),
            ("Scheduler.process_batch_result", "update"),
        ),
        "sglang.srt.managers.schedule_batch": (("ScheduleBatch.prepare_for_extend", "prepare prefill"),),
        "sglang.srt.managers.tp_worker": (("TpModelWorker.forward_batch_generation", "execute model"),),
        "sglang.srt.managers.detokenizer_manager": (
            ("DetokenizerManager.handle_batch_token_id_out", "detokenize"),
        ),
        "sglang.srt.managers.tokenizer_manager": (
            ("TokenizerManager._handle_batch_output", "process outputs"),
        ),
    },
    # Dynamo 1.6.1: the front end with the vLLM or SGLang chat processor. Its HTTP server is
    # Rust; the generator is what Python sees of one request.
    "dynamo": {
        "dynamo.frontend.vllm_processor": (("VllmProcessor.generator", _REQUEST),),
        "dynamo.frontend.sglang_processor": (("SglangProcessor.generator", _REQUEST),),
        "dynamo.frontend.prepost": (
            ("preprocess_chat_request", "preprocess"),
            ("StreamingPostProcessor.process_output", "post-process"),
        ),
        "dynamo.frontend.sglang_prepost": (
            ("preprocess_chat_request", "preprocess"),
            ("SglangStreamingPostProcessor.process_output", "post-process"),
        ),
    },
}


def targets_in(module: str) -> "tuple[tuple[str, str], ...]":
    """What the presets wrap in a module, as (qualified name, label)."""
    for table in PRESETS.values():
        if module in table:
            return table[module]
    return ()


def parse_presets(text: str) -> "tuple[str, ...]":
    """The presets that FROSTLINE_PRESETS or ``--preset`` asks for.

    Raises:
        ValueError: for a name that is not one.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["none"] or not words:
        return ()
    if words == ["auto"]:
        return tuple(PRESET_MODULES)
    for word in words:
        if word in ("auto", "none"):
            raise ValueError(f"preset {word!r} stands alone; it cannot be combined in {text!r}")
        if word not in PRESET_MODULES:
            raise ValueError(f"no preset {word!r}; there are {', '.join(PRESET_MODULES)}, auto and none")
    return tuple(words)


def parse_spans(text: str) -> "list[tuple[str, str, str]]":
    """``module:qualname[=label]``, separated by ``;``, as (module, qualified name, label).

    Raises:
        ValueError: saying which item is wrong and what was probably meant.
    """
    parsed = []
    for item in text.split(";"):
        if item.strip():
            parsed.append(parse_span(item))
    return parsed


def parse_span(item: str) -> "tuple[str, str, str]":
    """One ``module:qualname[=label]``; the label is the qualified name where none is given.

    Behind a label may stand what a call tells (``paths``), which ``told_in`` returns.

    Raises:
        ValueError: saying what is wrong and what was probably meant.
    """
    item = item.strip()
    target, equals, label = item.partition("=")
    module, colon, name = (part.strip() for part in target.partition(":"))
    label = label.strip()
    shape = "the form is module:qualname or module:qualname=label"
    if equals and not label:
        raise ValueError(f"span {item!r} has '=' and no label; {shape}")
    try:
        label, _ = paths.split(label)
    except ValueError as error:
        raise ValueError(f"span {item!r}: {error}") from None
    if not colon:
        before, dot, last = target.strip().rpartition(".")
        meant = f"; for example {before}:{last}, or module:Class.{last} for a method" if dot else ""
        raise ValueError(f"span {item!r} has no ':' between the module and the name; {shape}{meant}")
    if ":" in name:
        raise ValueError(f"span {item!r} has more than one ':'; inside a class write module:Class.method")
    if not module or not name:
        missing = "module before" if not module else "name after"
        raise ValueError(f"span {item!r} has no {missing} the ':'; {shape}")
    if name.endswith("()"):
        raise ValueError(f"span {item!r} names a call; write {module}:{name[:-2]}")
    if "*" in item:
        raise ValueError(f"span {item!r} has a '*': patterns are not understood; give each callable by name")
    for part in (*module.split("."), *name.split(".")):
        if not part.isidentifier():
            hint = "; a module is named by dots, not by its file" if "/" in module else ""
            raise ValueError(f"span {item!r}: {part!r} is not a Python name{hint}; {shape}")
    return module, name, label or name


def told_in(item: str) -> "paths.Told":
    """What a span that ``parse_span`` has taken is to tell beside its time; empty for nothing."""
    return paths.split(item.partition("=")[2].strip())[1]
