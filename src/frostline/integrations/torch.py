"""torch's DataLoader: each worker process freezes the dataset that it was given or has built.

A worker's boundary is its first look for an index, after the ``worker_init_fn`` and with its fetcher
made. What a forked worker has inherited is frozen before that, so that no pass copies its pages.
"""

from frostline.integrations.patching import put
from frostline.integrations.pools import serve
from frostline.policy import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def arrived(name: str, module: "Any") -> None:
    """Called for ``torch.utils.data._utils.worker``."""
    put(module, "_worker_loop", _serve_third)


def _serve_third(real: "Callable[..., Any]") -> "Callable[..., Any]":
    def wrapper(dataset_kind: "Any", dataset: "Any", index_queue: "Any", *args: "Any", **kw: "Any") -> "Any":
        serve(index_queue)
        return real(dataset_kind, dataset, index_queue, *args, **kw)

    return wrapper


def worker_init_fn(worker_id: int) -> None:
    """``DataLoader(..., worker_init_fn=frostline.integrations.torch.worker_init_fn)``: the boundary, said.

    For a version of torch that the automatic way does not know. Inert where no policy is in force.
    """
    engine.boundary(engine.BY_PROGRAM)
