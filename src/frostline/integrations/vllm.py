"""vLLM: engine core, workers, the launcher of several API servers, and ``vllm.LLM``. The API server is uvicorn's.

| process | boundary | at work |
|---|---|---|
| engine core | the end of ``EngineCore.__init__``; READY is sent after it | unless it sleeps on its input queue, which it does without requests only |
| worker | the end of ``compile_or_warm_up_model``, an RPC of the engine core's start-up | while it runs an RPC, and while its model runner holds requests |
| launcher (``--api-server-count``) and data-parallel coordinator | before they wait for the others | |
| a program's ``vllm.LLM`` | the end of ``LLMEngine.__init__``, the last of its parts | while it runs the engine |

Idle moments: the engine core's input queue, or the worker's broadcast queue, has been quiet. Where
``vllm.general_plugins`` is what started us (no start-up hook), ``EngineCore.__init__`` and
``init_worker`` run already when we come: what is wrapped is called after that.
"""

import sys
from _weakref import ref

from frostline.integrations.patching import (
    Work,
    before,
    closed,
    in_flight,
    on_object,
    put,
    quiet_get,
    ready,
    then,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from frostline.integrations.patching import Function

#: Calls of ``EngineCore.__init__`` that run now and that we see the end of.
_beginning = 0


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    if name == "vllm.v1.engine.core":
        put(module.EngineCore, "__init__", _engine_core)
        put(module.EngineCore, "shutdown", then(closed))
        # The last step of __init__, where that runs already.
        put(module, "freeze_gc_heap", then(_begun_before_us))
        put(module.EngineCoreProc, "run_busy_loop", before(_engine_core_loop))
        put(module.DPEngineCoreProc, "run_busy_loop", before(_engine_core_loop))
    elif name == "vllm.v1.worker.worker_base":
        put(module.WorkerBase, "__init__", then(_worker))
    elif name == "vllm.v1.executor.multiproc_executor":
        put(module.WorkerProc, "worker_busy_loop", before(_worker_loop))
    elif name == "vllm.v1.engine.coordinator":
        put(module.DPCoordinatorProc, "process_input_socket", before(ready))
    elif name == "vllm.entrypoints.cli.serve":
        put(module, "wait_for_completion_or_failure", before(lambda _: ready()))
    elif name == "vllm.v1.engine.llm_engine":
        put(module.LLMEngine, "__init__", then(ready))  # inside LLM.__init__, which runs already by then
    elif name == "vllm.entrypoints.llm":
        put(module.LLM, "_run_engine", in_flight)


def _engine_core(real: "Function") -> "Function":
    def wrapper(self: "Any", *args: "Any", **keywords: "Any") -> None:
        global _beginning
        _beginning += 1
        try:
            real(self, *args, **keywords)
        finally:
            _beginning -= 1
        ready(self)

    return wrapper


def _begun_before_us(_: object) -> None:
    if not _beginning:
        ready()


def _engine_core_loop(core: "Any") -> None:
    work = Work()
    empty = sys.modules[type(core.input_queue).__module__].Empty

    def make(real: "Function") -> "Function":
        sleep = quiet_get(real, empty)

        def get(block: bool = True, timeout: "float | None" = None) -> "Any":
            if not block or timeout is not None:
                return real(block, timeout)
            work.end()
            request = sleep()
            work.begin()
            return request

        return get

    on_object(core.input_queue, "get", make)


def _worker(worker: "Any") -> None:
    # On the class of what was built: the CPU's worker replaces the method, others inherit it.
    put(type(worker), "compile_or_warm_up_model", then(_warm))
    put(type(worker), "shutdown", then(closed))


#: Of the worker of this process.
_rpcs = Work()


def _warm(worker: "Any") -> None:
    _rpcs.end()  # the RPC that asked for it is no request
    ready(worker)


def _worker_loop(process: "Any") -> None:
    work = _rpcs
    worker = ref(process.worker)

    def dequeue(real: "Function") -> "Function":
        def wrapper(*args: "Any", **keywords: "Any") -> "Any":
            # Between two steps of a batch the worker waits too; its runner forgets a request when the
            # scheduler says that it is finished, which it does after the last step.
            if not _holds_requests(worker()):
                work.end()
            request = real(*args, **keywords)
            work.begin()
            return request

        return wrapper

    def wait(real: "Function") -> "Function":
        def wrapper(*args: "Any", **keywords: "Any") -> "Any":
            work.quiet()
            return real(*args, **keywords)

        return wrapper

    queue = process.rpc_broadcast_mq
    on_object(queue, "dequeue", dequeue)
    # Not dequeue(timeout=...): of a long message it may give up when the half is taken.
    on_object(getattr(queue, "_spin_condition", None), "wait", wait)


def _holds_requests(worker: "Any") -> bool:
    runner = getattr(worker, "model_runner", None)
    requests = getattr(runner, "requests", None)
    if requests is None:  # the second model runner
        requests = getattr(getattr(runner, "req_states", None), "req_id_to_index", None)
    return bool(requests)
