"""Pauses as metrics: what is told of a process, for Prometheus and for OpenTelemetry (D13).

They are made from the recording by a process of their own. So no lock of a metric is ever taken in a
server, where a pass may run while the thread that it interrupts holds that lock; and one exporter tells of
all processes of a server, whatever they were started with.
"""

from frostline.export.metrics.model import Process, Told

__all__ = ["Process", "Told"]
