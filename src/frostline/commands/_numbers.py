"""Numbers that options take."""

from __future__ import annotations

import math
from typing import Any

import click


class Range(click.FloatRange):
    """As click's own, which lets "nan" through whatever its bounds are."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A finite number within the bounds, or a message for the user."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail("must be a finite number", param, ctx)
        return number
