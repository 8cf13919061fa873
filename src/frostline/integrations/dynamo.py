"""NVIDIA Dynamo: front end and workers. Engine core and vLLM's workers below a worker are ``vllm.py``'s.

The boundary is the moment before a worker registers its model, and in the front end the moment when
the chat processor of its first model has been built: no request can be admitted before. The loop
serves by the time another model is added or replaced, so from then on the freeze is a splice, and an
idle moment puts it right. A request is one run of the front end's chat processor, or of a worker's
``generate``.
"""

from frostline.integrations.patching import before, in_flight_generator, put, ready, then_async
from frostline.policy import moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_models = 0


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    if name == "dynamo._core":
        put(module, "register_model", before(_model))
        put(module, "run_input", before(_serves))
    elif name in ("dynamo.vllm.main", "dynamo.vllm.worker_factory"):
        put(module, "register_model", before(_model))  # taken from _core before us, where we are a plugin
    elif name == "dynamo.vllm.handlers":
        put(module, "register_model", before(_model))  # adapters, while it serves
        for handler in ("DecodeWorkerHandler", "PrefillWorkerHandler", "EmbeddingWorkerHandler"):
            if hasattr(module, handler):
                put(getattr(module, handler), "generate", in_flight_generator)
    elif name == "dynamo.frontend.vllm_processor":
        put(module.VllmProcessor, "generator", in_flight_generator)
        put(module.EngineFactory, "chat_engine_factory", then_async(_model))
    else:
        put(module.SglangProcessor, "generator", in_flight_generator)
        put(module.SglangEngineFactory, "chat_engine_factory", then_async(_model))


def _serves(_: object) -> None:
    ready()


def _model(_: object) -> None:
    global _models
    _models += 1
    if _models == 1:
        ready()
    else:
        with moments.REQUEST:  # whoever is being served is not known everywhere
            ready()
