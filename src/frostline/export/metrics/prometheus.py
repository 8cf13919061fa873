"""Metrics for Prometheus, by its own client library: text, OpenMetrics, a page, a file for node_exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from frostline.export.metrics.model import BOUNDS_S, Process, Told, collected, pauses, uncollectable

_PROCESS = ("process", "pid")


class _Session(Collector):
    def __init__(self, look: Callable[[], Told]) -> None:
        self.look = look

    def collect(self) -> Iterable[Metric]:
        return families(self.look())

    def describe(self) -> Iterable[Metric]:
        return ()  # else the registry looks once when it is made


def registry(look: Callable[[], Told]) -> CollectorRegistry:
    """What the client library serves and writes. ``look``: the session as it is now."""
    made = CollectorRegistry()
    made.register(_Session(look))
    return made


def families(told: Told) -> Iterator[Metric]:
    """All metrics of a session. Seconds, and counts since the recording of each process began."""
    processes = told.processes
    pause = HistogramMetricFamily(
        "frostline_gc_pause_seconds",
        "Passes of the cyclic collector, as the process felt them",
        labels=(*_PROCESS, "generation", "cause"),
    )
    for process in processes:
        for one in pauses(process):
            bounds = (*map(str, BOUNDS_S), "+Inf")
            pause.add_metric(
                (*_of(process), str(one.generation), one.cause),
                list(zip(bounds, map(float, accumulate(one.buckets)), strict=True)),
                one.seconds,
            )
    yield pause
    for name, text, values in (
        ("frostline_gc_collected_objects", "Objects that passes reclaimed", collected),
        ("frostline_gc_uncollectable_objects", "Objects that full passes found uncollectable", uncollectable),
    ):
        counter = CounterMetricFamily(name, text, labels=(*_PROCESS, "generation"))
        for process in processes:
            for generation, value in enumerate(values(process)):
                counter.add_metric((*_of(process), str(generation)), value)
        yield counter
    lost = CounterMetricFamily(
        "frostline_lost_passes", "Passes that were seen and not recorded: in no other figure", labels=_PROCESS
    )
    frozen = GaugeMetricFamily("frostline_frozen", "1 where a freeze is in force", labels=_PROCESS)
    about = GaugeMetricFamily(
        "frostline_process_info", "Its Python and policy", labels=(*_PROCESS, "python", "policy")
    )
    for process in processes:
        lost.add_metric(_of(process), process.lost)
        frozen.add_metric(_of(process), process.frozen)
        about.add_metric((*_of(process), process.python, process.policy), 1)
    yield lost
    yield frozen
    yield about
    yield GaugeMetricFamily(
        "frostline_processes_missed",
        "Python processes of it that are not recorded",
        value=told.missed,
    )
    yield GaugeMetricFamily(
        "frostline_damaged_files", "Files of the session that cannot be read whole", value=told.damaged
    )


def _of(process: Process) -> tuple[str, str]:
    return process.name, str(process.pid)
