"""Frostline: the pauses of CPython's cyclic collector, found, explained, removed, proved away."""

#: Here and not in a module of its own: a module is a cost in every recorded interpreter.
__version__ = "0.1.0"


def _boot() -> None:
    """Placeholder until the probe lands."""
