"""The flags that stand for a plan: ``try`` and ``ablate`` take the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from frostline.commands._numbers import Range
from frostline.commands.run import checked_ready, seconds
from frostline.errors import FrostlineError
from frostline.experiment.ablation.plan import OWN_METRICS, Arm, Load, Plan, checked

_OPTIONS = (
    click.option("--ready-url", metavar="URL", help="The server is ready when this answers 2xx or 3xx."),
    click.option("--ready-log", metavar="REGEX", help="... when a line of its output matches."),
    click.option("--ready-after", metavar="TIME", help="... so long after the start."),
    click.option("--load-url", metavar="URL", help="Ask this by `frostline load`."),
    click.option("--rate", type=Range(0.01, 1e6), default=10.0, show_default=True,
                 help="Requests a second, for --load-url."),
    click.option("--load-option", "load_options", multiple=True, metavar="OPTION",
                 help="Of `frostline load`, for --load-url: --load-option=--api --load-option=chat"),
    click.option("--load", "load_command", metavar="COMMAND",
                 help="Or a shell command that prints a JSON object."),
    click.option("--metric", metavar="NAME:lower|higher",
                 help="What is to get better; of --load-url p99, and others are shown."),
    click.option("--warmup", default="10s", show_default=True, metavar="TIME"),
    click.option("--window", default="60s", show_default=True, metavar="TIME"),
)  # fmt: skip


@dataclass(frozen=True)
class Flags:
    """The values of these options."""

    ready_url: str | None
    ready_log: str | None
    ready_after: str | None
    load_url: str | None
    rate: float
    load_options: tuple[str, ...]
    load_command: str | None
    metric: str | None
    warmup: str
    window: str


def flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command; ``Flags`` takes them."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def plan_of(
    given: Flags,
    command: tuple[str, ...],
    arms: tuple[Arm, ...],
    roles: tuple[str, ...] = (),
    blocks: int = 0,
) -> Plan:
    """The plan that flags make.

    Raises:
        FrostlineError: ``experiment-flags``, or what ``run`` says of the same options.
    """
    if not command:
        raise FrostlineError("no-command", "there is no command to run", "Write it behind --", exit_code=2)
    ready = checked_ready(given.ready_url, given.ready_log, given.ready_after)
    if ready is None:
        raise wrong("nothing says when the server is ready", "--ready-url, --ready-log or --ready-after 60s")
    if ready["kind"] == "log" and ready["path"]:
        raise wrong("--ready-log reads the server's output here, not a file", "Give the expression alone.")
    return checked(
        Plan(
            command=command,
            ready=ready,
            load=_load(given),
            arms=arms,
            roles=roles,
            blocks=blocks,
            warmup=seconds(given.warmup),
            window=seconds(given.window),
        )
    )


def _load(given: Flags) -> Load:
    if bool(given.load_url) == bool(given.load_command):
        raise wrong("give --load-url or --load, one of them", "--load-url http://127.0.0.1:8000/ --rate 20")
    if given.load_url and given.metric is None:
        better = tuple((name, way == "higher") for name, way in OWN_METRICS.items())
        return Load(given.load_url, given.rate, given.load_options, metrics=better)
    name, _, way = (given.metric or "").rpartition(":")
    if not name or way not in ("lower", "higher"):
        raise wrong("--metric names what is to get better, and which way", "--metric p99_ms:lower")
    metrics = ((name, way == "higher"),)
    return Load(
        given.load_url or "", given.rate, given.load_options, given.load_command or "", metrics=metrics
    )


def wrong(message: str, remedy: str) -> FrostlineError:
    """Flags that make no plan."""
    return FrostlineError("experiment-flags", message, remedy, exit_code=2)
