"""Frostline: the pauses of CPython's cyclic collector, found, explained, removed, proved away."""

from frostline._version import __version__ as __version__


def _boot() -> None:
    """Placeholder until the probe lands."""
