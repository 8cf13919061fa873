"""Which engines a server has, and what each process is called: one place for all of them (A7).

The same name stands in the process's title, in its log lines, in what the server prints when it is ready, and
in Frostline's report, since all of it comes from the role and the rank that are given to ``install``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import frostline
from frostline.demo.launch import Settings

ENGINE, WORKER = "EngineCore", "Worker"


@dataclass(frozen=True)
class Place:
    """Which engine of the server this is."""

    kind: str = ""  # "prefill" or "decode" where the two are apart
    dp: int = 0  # data-parallel rank, among its kind

    @property
    def socket(self) -> str:
        """What its sockets' names begin with."""
        return f"{self.kind or 'engine'}{self.dp}"


def places(settings: Settings) -> list[Place]:
    """Every engine; those that take requests come first."""
    kinds = ("prefill", "decode") if settings.disaggregated else ("",)
    return [Place(kind, dp) for kind in kinds for dp in range(settings.data_parallel)]


def engine_rank(settings: Settings, place: Place) -> int | str:
    if not place.kind:
        return place.dp
    return place.kind if settings.data_parallel == 1 else f"{place.kind}-{frostline.ranks(dp=place.dp)}"


def worker_rank(settings: Settings, place: Place, tp: int) -> int | str:
    """A number where the tensor-parallel rank is all there is to tell."""
    many = settings.data_parallel > 1
    if not place.kind and not many:
        return tp
    ranks = frostline.ranks(dp=place.dp, tp=tp) if many else frostline.ranks(tp=tp)
    return f"{place.kind}-{ranks}" if place.kind else ranks


def child_name(role: str, rank: int | str) -> str:
    """The name of a process that has still to be started, as it will call itself."""
    return f"{role} {rank if isinstance(rank, str) else frostline.ranks(dp=rank)}"


def log_names() -> None:
    """Have every line that this process logs begin with its name. Call it after ``install``."""
    handler = logging.StreamHandler()
    handler.addFilter(frostline.NameFilter())
    handler.setFormatter(logging.Formatter("%(processName)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
