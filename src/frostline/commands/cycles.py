"""``frostline cycles``: which cycles feed the collector, in a live server or in a command that it runs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import click

from frostline.analysis.cycles import gather
from frostline.commands import _command, _looking
from frostline.commands import run as options
from frostline.commands._numbers import Range
from frostline.commands.report import analysed
from frostline.errors import FrostlineError
from frostline.format import cycles as layout
from frostline.probe import presets
from frostline.reach import asking, looking
from frostline.recording.cycles import Look, look_of, read_looks
from frostline.report import write
from frostline.report.blocks import Block, Line
from frostline.report.cycles import cycles as gathered
from frostline.report.cycles import to_json
from frostline.report.heap import cycles as shown

_BEHIND = "frostline.command"
#: Options of the one form and of the other, as they are typed.
_OF_LIVE = {"tree": "--tree", "generation": "--generation"}
_OF_COMMAND = {
    "output": "-o",
    "every": "--every",
    "spans": "--span",
    "calls": "--calls",
    "all_passes": "--all-passes",
    "frames": "--tracemalloc",
}


class _WithCommand(click.Command):
    """Takes what stands behind ``--`` for a command, before its words are taken for arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_BEHIND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS] [SESSION|PID | -- COMMAND [ARGUMENTS]...]"]


@click.command(cls=_WithCommand, short_help="Name the cycles that passes reclaim, live or in a command.")
@_looking.options
@click.option(
    "--generation", type=click.IntRange(0, 2), default=2, show_default=True, help="The oldest to collect."
)
@click.option(
    "--budget",
    type=Range(min=0.0, max=3600.0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one look takes at most; what it has seen by then is told. The passes are not in it.",
)
@click.option(
    "-o", "--output", metavar="DIR", help="Of COMMAND: session folder, which must not be there yet."
)
@click.option("--every", metavar="TIME", help="Of COMMAND: also look each so often while it runs: 10s, 1m.")
@click.option(
    "--all-passes",
    is_flag=True,
    help="Of COMMAND: look at young passes of its own too, not at full ones alone.",
)
@click.option(
    "--span",
    "spans",
    multiple=True,
    metavar="MODULE:QUALNAME[=LABEL]",
    help="Of COMMAND: only what is made inside calls of this. Repeatable.",
)
@click.option(
    "--calls", type=click.IntRange(1, 1000), default=5, show_default=True, help="Of each --span and process."
)
@click.option(
    "--tracemalloc",
    "frames",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Of COMMAND: trace allocations, N frames each, and say where cycles were allocated.",
)
def cycles(
    where: str | None,
    tree: bool,
    seconds: float,
    serving: bool,
    save: Path | None,
    as_json: bool,
    generation: int,
    budget: float,
    output: str | None,
    every: str | None,
    all_passes: bool,
    spans: tuple[str, ...],
    calls: int,
    frames: int | None,
) -> int:
    """Say which cycles passes reclaim: how many, how large, by which attributes, and what ends them.

    \b
        frostline cycles [PID]                                     # one pass of every live process, now
        frostline cycles -- python job.py                          # what the passes of a command reclaim
        frostline cycles --span app:Engine.step -- python job.py   # what is made inside a call

    Of live processes of SESSION (the newest), or of PID: runs one collection, keeps what it would free for
    a moment, and describes it. It STOPS each process, one after the other, for two collections and the look:
    about a second where there are 100,000 dead objects; --budget bounds the look. A process that is known to
    have requests in flight is left alone, unless --serving.

    Of COMMAND and every Python process that it starts: each full pass of its own is kept and looked at, and
    one of ours at each exit. What is found is added up and told at the end, as *at least*: what young
    passes free is not looked at, unless --all-passes. The exit code is the command's.
    """
    context = click.get_current_context()
    command = context.meta.get(_BEHIND)
    _check(context, command is not None)
    if command is not None:
        if where is not None or not command:
            wrong = "a session, or a pid, and a command" if command else "there is no command to run"
            raise options.usage("no-command", wrong, "frostline cycles [OPTIONS] -- COMMAND ...")
        chosen = _settings(all_passes, spans, calls, budget, frames)
        interval = options.seconds(every) if every is not None else 0.0
        folder = _command.new_folder(output)
        child = _command.begin(folder, chosen, None, list(command), aside=as_json)
        asks = _Asks(folder, interval, f"cycles budget={budget:g}{' serving=1' * serving}", seconds)
        code = _command.wait(child, asks.due)
        _command.settle(folder)
        if code < 125 or read_looks(Path(folder)):  # else it did not start, and has said why
            _tell(Path(folder), asks, [presets.parse_span(span)[2] for span in spans], as_json, save)
        context.exit(code)
    found = _looking.look(
        f"cycles generation={generation} budget={budget:g}", where, tree, seconds, serving, save
    )
    if as_json:
        click.echo(json.dumps(_looking.as_rows(found), indent=1))
    else:
        write(shown([(one.target.name, one.found) for one in found if one.found is not None]), sys.stdout)
    return _looking.silent(found) if not as_json else int(any(one.found is None for one in found))


def _check(context: click.Context, command: bool) -> None:
    """Options that mean nothing in this form are no options.

    Raises:
        FrostlineError: ``cycles-options``.
    """
    for name, typed in (_OF_LIVE if command else _OF_COMMAND).items():
        if context.get_parameter_source(name) != click.core.ParameterSource.DEFAULT:
            form = "live processes" if command else "a command behind --"
            raise options.usage("cycles-options", f"{typed} is for {form}", "frostline cycles --help")


def _settings(
    all_passes: bool, spans: tuple[str, ...], calls: int, budget: float, frames: int | None
) -> dict[str, str]:
    """What the processes are told.

    Raises:
        FrostlineError: ``bad-span``, or ``cycles-options``.
    """
    for span in spans:
        options.checked_span(span)
        if presets.told_in(span):
            raise options.usage(
                "bad-span",
                f"{span!r} tells of batch, stage or group",
                "Leave that out: only cycles are looked at.",
            )
    if spans and all_passes:
        raise options.usage(
            "cycles-options",
            "--all-passes and --span exclude each other",
            "A span's passes are all looked at.",
        )
    looks_at = layout.SPANS if spans else layout.ALL if all_passes else layout.FULL
    return _command.settings(
        cycles=layout.setting(looks_at, calls, budget),
        spans=";".join(spans),
        tracemalloc=str(frames or ""),
    )


class _Asks:
    """``--every``: every live process of the session is asked for a look, one after the other."""

    def __init__(self, folder: str, interval: float, text: str, seconds: float) -> None:
        self._folder = folder
        self._interval = interval
        self._text = text
        self._seconds = seconds
        self._next = time.monotonic() + interval
        #: (pid, what it answered), and by pid why it did not, the last time.
        self.looks: list[tuple[int, Look]] = []
        self.silent: dict[int, str] = {}

    def due(self) -> bool:
        """Asks, if it is time. Never the end of the command."""
        if not self._interval or time.monotonic() < self._next:
            return False
        with contextlib.suppress(FrostlineError):  # none is there yet, or none is left
            for one in looking.looks(asking.targets(self._folder), self._text, self._seconds):
                if one.found is None:
                    self.silent[one.target.pid] = one.why_not
                    continue
                with contextlib.suppress(ValueError, TypeError, KeyError, OverflowError):
                    self.looks.append((one.target.pid, look_of(one.found)))
                    self.silent.pop(one.target.pid, None)
        self._next = time.monotonic() + self._interval
        return False


def _tell(folder: Path, asks: _Asks, spans: list[str], as_json: bool, save: Path | None) -> None:
    logs = read_looks(folder)
    if not logs:
        raise FrostlineError(
            "no-looks",
            "no process told of its cycles: none was a CPython that Frostline reached",
            f"`frostline status {folder}` names what was missed, and why.",
        )
    analysis = analysed((folder,))
    found = gather(analysis, logs, asks.looks, asks.silent, spans)
    if save is not None:
        _looking.keep(save, to_json(found))
    if as_json:
        click.echo(json.dumps(to_json(found), indent=1))
    else:
        blocks: list[Block] = []
        missed = sum(process.python for process in analysis.missed)
        if missed:
            words = f"{missed:,} Python processes were not reached: `frostline status {folder}` says why."
            blocks.append(Line(words, "bad"))
        write([*blocks, *gathered(found)], sys.stdout)
    click.echo(f"session: {folder}", err=True)
