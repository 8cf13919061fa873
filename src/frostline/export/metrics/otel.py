"""Metrics for OpenTelemetry, by its own OTLP exporter. Names are those of its conventions for CPython.

https://opentelemetry.io/docs/specs/semconv/runtime/cpython-metrics/ knows counts by generation and no
duration: the histogram of pauses is ours, in seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from frostline import __version__
from frostline.export.metrics.model import BOUNDS_S, Process, collected, pauses, uncollectable

#: Of the conventions.
GENERATION = "cpython.gc.generation"
_CUMULATIVE = AggregationTemporality.CUMULATIVE


class _Last(logging.Handler):
    def __init__(self, exporter: Exporter) -> None:
        super().__init__()
        self.exporter = exporter

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps what was said."""
        self.exporter.said = record.getMessage()


class Exporter:
    """Sends them to one endpoint; ``OTEL_EXPORTER_OTLP_*`` and ``OTEL_RESOURCE_ATTRIBUTES`` are honoured."""

    def __init__(self, endpoint: str = "") -> None:
        """
        Args:
            endpoint: with its path (``http://collector:4318/v1/metrics``); empty for that of the environment.
        """
        self._exporter = OTLPMetricExporter(endpoint=endpoint or None)
        #: The last that the library said: its loggers say it at every try, and nobody asked for that.
        self.said = ""
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(_Last(self))
        logger.propagate = False
        self.endpoint: str = endpoint or getattr(self._exporter, "_endpoint", "the endpoint")

    def send(self, processes: Sequence[Process]) -> bool:
        """Whether they were taken."""
        if not processes:
            return True
        return self._exporter.export(data(processes, time.time_ns())) is MetricExportResult.SUCCESS

    def close(self) -> None:
        """Gives its connections back."""
        self._exporter.shutdown()


def data(processes: Sequence[Process], now: int) -> MetricsData:
    """One resource a process. ``now`` in ns since the epoch; sums count since the recording began."""
    scope = InstrumentationScope("frostline", __version__)
    return MetricsData([ResourceMetrics(_resource(p), [_scope(p, scope, now)], "") for p in processes])


def _resource(process: Process) -> Resource:
    told: dict[str, Any] = {
        "process.pid": process.pid,
        "process.title": process.name,
        "process.runtime.name": "cpython",
        "process.runtime.version": process.python,
    }
    return Resource.create(told)


def _scope(process: Process, scope: InstrumentationScope, now: int) -> ScopeMetrics:
    since = process.started
    every = list(pauses(process))

    def counted(name: str, unit: str, text: str, values: Sequence[int]) -> Metric:
        points = [
            NumberDataPoint({GENERATION: generation}, since, now, value)
            for generation, value in enumerate(values)
        ]
        return Metric(name, text, unit, Sum(points, _CUMULATIVE, is_monotonic=True))

    passes = [sum(sum(one.buckets) for one in every if one.generation == g) for g in range(3)]
    lengths = [
        HistogramDataPoint(
            {GENERATION: one.generation, "frostline.cause": one.cause},
            since,
            now,
            count=sum(one.buckets),
            sum=one.seconds,
            bucket_counts=one.buckets,
            explicit_bounds=BOUNDS_S,
            min=None,  # type: ignore[arg-type]  # OTLP's own are optional, and nobody knows them here
            max=None,  # type: ignore[arg-type]
        )
        for one in every
    ]
    return ScopeMetrics(
        scope,
        [
            counted("cpython.gc.collections", "{collection}", "Passes of the collector", passes),
            counted("cpython.gc.collected_objects", "{object}", "Objects reclaimed", collected(process)),
            counted(
                "cpython.gc.uncollectable_objects",
                "{object}",
                "Objects that full passes found uncollectable",
                uncollectable(process),
            ),
            Metric(
                "frostline.gc.pause",
                "Passes of the collector, as the process felt them",
                "s",
                Histogram(lengths, _CUMULATIVE),
            ),
            Metric(
                "frostline.frozen",
                "1 where a freeze is in force",
                "1",
                Gauge([NumberDataPoint({}, since, now, int(process.frozen))]),
            ),
        ],
        "",
    )
