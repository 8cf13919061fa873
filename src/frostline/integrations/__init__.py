"""What Frostline knows of other people's servers: when start-up has ended, what a request is, when they idle.

Where a policy is in force, each module named here is watched for; when it has been imported, the
file of ours beside it puts a few wrappers in. Nothing of a framework is imported that the host has
not imported, and a version that lacks a name loses that integration alone, with a mark that says so.
FROSTLINE_INTEGRATIONS names those wanted (``uvicorn,celery``), ``auto`` (all) or ``none``.
"""

import os
import sys

import frostline
from frostline.probe import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Integration -> the modules whose arrival it waits for. Its file here has the integration's name, and
#: a function ``arrived(name, module)``.
KNOWN = {
    "uvicorn": (
        "uvicorn.lifespan.on",
        "uvicorn.lifespan.off",
        "uvicorn.protocols.http.h11_impl",
        "uvicorn.protocols.http.httptools_impl",
    ),
    "vllm": (
        "vllm.v1.engine.core",
        "vllm.v1.engine.coordinator",
        "vllm.v1.engine.llm_engine",
        "vllm.v1.executor.multiproc_executor",
        "vllm.v1.worker.worker_base",
        "vllm.entrypoints.cli.serve",
        "vllm.entrypoints.llm",
    ),
    "hypercorn": (
        "hypercorn.asyncio.lifespan",
        "hypercorn.asyncio.task_group",
        "hypercorn.trio.lifespan",
        "hypercorn.trio.task_group",
    ),
    "gunicorn": (
        "gunicorn.arbiter",
        "gunicorn.workers.base",
        "gunicorn.workers.sync",
        "gunicorn.workers.gthread",
        "gunicorn.workers.base_async",
        "gunicorn.workers.ggevent",
        "gunicorn.workers.gasgi",
        "gunicorn.asgi.protocol",
    ),
    "celery": (
        "celery.apps.worker",
        "celery.concurrency.prefork",
        "celery.concurrency.base",
        "billiard.pool",
    ),
    "pools": ("multiprocessing.pool", "concurrent.futures.process"),
    "ray": ("ray._private.function_manager", "ray.serve._private.replica"),
    "torch": ("torch.utils.data._utils.worker",),
    "dynamo": (
        "dynamo._core",
        "dynamo.frontend.sglang_processor",
        "dynamo.frontend.vllm_processor",
        "dynamo.vllm.handlers",
        "dynamo.vllm.main",
        "dynamo.vllm.worker_factory",
    ),
    "sglang": (
        "sglang.srt.entrypoints.engine",
        "sglang.srt.entrypoints.http_server",
        "sglang.srt.managers.data_parallel_controller",
        "sglang.srt.managers.detokenizer_manager",
        "sglang.srt.managers.scheduler",
        "sglang.srt.managers.tokenizer_manager",
    ),
}


def arm() -> None:
    """Watches for the modules of all integrations wanted. Again does nothing; raises nothing."""
    wanted = os.environ.get("FROSTLINE_INTEGRATIONS") or "auto"
    names = [word.strip() for word in wanted.split(",")]
    for integration, modules in KNOWN.items():
        if integration in names or "auto" in names:
            for name in modules:
                imports.watch(name, _Arrived(integration, name))


def register() -> None:
    """What the start-up hook does, for hosts that load plugins: vLLM calls it in each of its processes.

    The entry point names this function and not one of ``vllm.py``, so that where nothing asks for
    anything neither the policy nor the wrappers are loaded. Again does nothing; raises nothing.
    """
    frostline._boot()


class _Arrived:
    """Loads the integration when one of its modules is there."""

    __slots__ = ("_integration", "_name")

    def __init__(self, integration: str, name: str) -> None:
        self._integration = integration
        self._name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is _Arrived and (other._integration, other._name) == (
            self._integration,
            self._name,
        )

    def __hash__(self) -> int:
        return hash((self._integration, self._name))

    def __call__(self, module: "Any") -> None:
        part = f"frostline.integrations.{self._integration}"
        __import__(part)
        sys.modules[part].arrived(self._name, module)
