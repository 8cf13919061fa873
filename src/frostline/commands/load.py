"""``frostline load``: an open-loop client for a server of yours."""

from __future__ import annotations

import contextlib
import importlib
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from frostline.commands._ending import interruptible
from frostline.commands._numbers import Range
from frostline.commands._typed import typed
from frostline.errors import FrostlineError
from frostline.experiment.load.plan import NS, Rung, from_trace, is_url, ladder
from frostline.experiment.load.words import late
from frostline.format import redact
from frostline.report import Block, Line, Table, tocsv, toparquet, write

if TYPE_CHECKING:
    from frostline.experiment.load.client import Sent, Target
    from frostline.experiment.load.outcome import Ceiling, Summary

#: A rung that drains within this, s, is not worth a line.
_DRAINED = 0.1
_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


@click.command(short_help="Send a server requests by a plan, and say what its users would feel.")
@click.argument("url")
@click.option("--rate", "rates", multiple=True, type=Range(min=0.01, max=1e6), metavar="N",
              help="Requests a second; several make a ladder, in this order. Each begins when the requests "
              "of the one before have ended or reached their deadline.")  # fmt: skip
@click.option("--trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Send at the times in FILE instead: seconds, one a line.")  # fmt: skip
@click.option("--seconds", type=Range(min=0.1, max=1e6), default=30.0, show_default=True,
              help="Measured time of each rate: a hundred times what an answer takes, or more.")  # fmt: skip
@click.option("--warmup", type=Range(min=0.0, max=1e6), default=5.0, show_default=True,
              help="Seconds before, at the same rate, that do not count: longer than an answer.")  # fmt: skip
@click.option("--even", is_flag=True, help="Even gaps; else exponential ones (Poisson).")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True)
@click.option("--deadline", type=Range(min=0.01, max=1e5), default=30.0, show_default=True,
              help="Seconds after its time in the plan at which a request has failed.")  # fmt: skip
@click.option("--limit-ms", type=Range(min=0.0), default=1000.0, show_default=True,
              help="p99 of the response that a rate must keep to count for the ceiling.")  # fmt: skip
@click.option("--api", type=click.Choice(["http", "chat", "completions"]), default="http", show_default=True,
              help="Plain HTTP, or OpenAI's streaming API below URL.")  # fmt: skip
@click.option("--model", default="", help="For chat and completions.")
@click.option("--prompt", default="Tell me about frost.", show_default=True, help="For chat and completions.")
@click.option("--max-tokens", type=click.IntRange(1), default=64, show_default=True)
@click.option("--method", default=None, help="For http: GET, or POST where there is a body.")
@click.option(
    "--body", type=click.File("rb"), default=None, metavar="FILE", help="The request's body; - is stdin."
)
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Every request, for `frostline report --requests FILE`.")  # fmt: skip
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The same as a table.")  # fmt: skip
@click.option("--parquet", "parquet_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The same as a table with typed columns (needs frostline[parquet]).")  # fmt: skip
@click.option("--hdr", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.hgrm",
              help="The response as HdrHistogram writes it: its percentiles, and beside them in FILE.hlog a "
              "histogram for each second.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def load(
    url: str,
    rates: tuple[float, ...],
    trace: Path | None,
    seconds: float,
    warmup: float,
    even: bool,
    seed: int,
    deadline: float,
    limit_ms: float,
    api: str,
    model: str,
    prompt: str,
    max_tokens: int,
    method: str | None,
    body: BinaryIO | None,
    headers: tuple[str, ...],
    output: Path | None,
    csv_file: Path | None,
    parquet_file: Path | None,
    hdr: Path | None,
    as_json: bool,
) -> int:
    """Send URL requests when a plan says, whatever the server does, and count each from the time in the plan.

    A client that waits for an answer before it sends the next request hides a stall: the requests that
    would have come in it are never sent. This one sends them. Errors and timeouts count at their deadline.
    If the client itself was late the run is called invalid.

    Achieved are the answers whose last byte came within the measured time, by the second. The ceiling is
    the highest rate of which 99 % is achieved with p99 of the response within --limit-ms.
    """
    from frostline.experiment.load import client, files, outcome

    if bool(rates) == (trace is not None):
        raise FrostlineError("load-plan", "give --rate or --trace", "For example: --rate 20", exit_code=2)
    idle = typed({"seconds", "warmup", "even"}) if trace is not None else []
    if idle:
        raise FrostlineError(
            "load-plan",
            f"{', '.join(idle)} would change nothing: --trace says when",
            "Leave it out.",
            exit_code=2,
        )
    rungs = from_trace(trace) if trace is not None else ladder(rates, seconds, warmup, seed, not even)
    target = _target(
        url, api, model, prompt, max_tokens, method, body.read() if body else b"", headers, deadline
    )
    if parquet_file is not None:
        toparquet.arrow()  # what is missing is said before the work, not after it
    if hdr is not None:
        importlib.import_module("hdrh")
    distribution, intervals = _histograms(hdr)
    for path in (output, csv_file, parquet_file, distribution, intervals):
        _writable(path)
    with interruptible(), _progress(rungs, as_json) as shown:
        sent = client.run(target, rungs, shown)
    told = outcome.summaries(sent)
    found = outcome.ceiling(told, limit_ms)
    about = files.header(sent, redact([target.url])[0], seed)
    try:  # one without the other: a disk may be full, and who reads what is printed may have gone
        _tell(sent, told, found, as_json)
    finally:
        if output is not None:
            with output.open("w", encoding="utf-8") as file:
                files.write_requests(sent, about, file)
        if csv_file is not None or parquet_file is not None:
            _tables(sent, about, csv_file, parquet_file)
        if distribution is not None:
            files.write_distribution(sent, distribution)
        if intervals is not None:
            files.write_intervals(sent, intervals)
    if output is not None and not as_json:
        click.echo(f"frostline report --requests {shlex.quote(str(output))}")
    return 0 if _answered(told) and all(one.valid for one in told) else 1


def _tell(sent: Sent, told: list[Summary], found: Ceiling, as_json: bool) -> None:
    """To stdout."""
    from frostline.experiment.load import outcome

    if as_json:
        click.echo(json.dumps(outcome.as_json(sent, told, found), indent=1))
        return
    if sent.stopped >= 0:
        ran, planned = (sent.stopped - sent.started) / NS, sent.rungs[-1].stop / NS
        click.echo(
            f"Interrupted after {max(ran, 0.0):,.1f} s of {planned:,.1f} s: what follows is of that time."
        )
    write(_shown(sent, told, found), sys.stdout)
    sys.stdout.flush()


def _histograms(hdr: Path | None) -> tuple[Path | None, Path | None]:
    """Where the distribution goes, and where the log of intervals; none lies beside a pipe."""
    if hdr is None or (hdr.exists() and not hdr.is_file()):
        return hdr, None
    if hdr.suffix == ".hlog":
        return hdr.with_suffix(".hgrm"), hdr
    return hdr, hdr.with_suffix(".hlog")


def _tables(sent: Sent, about: dict[str, object], csv_file: Path | None, parquet_file: Path | None) -> None:
    from frostline.commands._load_rows import rows_of

    if csv_file is not None:
        tocsv.write_rows(rows_of(sent), csv_file)
    if parquet_file is not None:
        toparquet.write_rows(rows_of(sent), parquet_file, {"frostline.requests": json.dumps(about)})


def _writable(path: Path | None) -> None:
    """What was measured for an hour is not to be lost for want of a folder."""
    if path is None:
        return
    try:
        if path.is_file() or not path.exists():  # to open a pipe would wait for its reader
            path.open("ab").close()
    except OSError as error:
        raise FrostlineError(
            "load-unwritable",
            f"cannot write {path}: {error.strerror}",
            "Name a file that can be.",
            exit_code=2,
        ) from error


def _target(
    url: str,
    api: str,
    model: str,
    prompt: str,
    max_tokens: int,
    method: str | None,
    body: bytes,
    headers: tuple[str, ...],
    deadline: float,
) -> Target:
    from frostline.experiment.load.client import Target

    if not is_url(url):
        raise FrostlineError(
            "load-url", f"{url!r} is no URL", "For example: http://127.0.0.1:8000", exit_code=2
        )
    pairs = []
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise FrostlineError("load-header", f"{header!r} is no header", "NAME:VALUE", exit_code=2)
        pairs.append((name.strip(), value.strip()))
    if api == "http":
        return Target(url, method or ("POST" if body else "GET"), body, tuple(pairs), deadline=deadline)
    if not body:
        asked: dict[str, object] = {"max_tokens": max_tokens, "stream": True, "ignore_eos": True}
        if model:
            asked["model"] = model
        asked |= (
            {"prompt": prompt}
            if api == "completions"
            else {"messages": [{"role": "user", "content": prompt}]}
        )
        body = json.dumps(asked).encode()
    elif not _streams(body):
        raise FrostlineError(
            "load-body",
            f"the body asks for no stream, which is what --api {api} measures",
            'It is JSON with "stream": true; for a whole answer leave --api out and give the whole URL.',
            exit_code=2,
        )
    pairs.append(("Content-Type", "application/json"))
    base = url.rstrip("/")
    path = _PATHS[api]
    full = base if base.endswith(path) else base.removesuffix("/v1") + path
    return Target(full, "POST", body, tuple(pairs), stream=True, deadline=deadline)


def _streams(body: bytes) -> bool:
    try:
        asked = json.loads(body)
    except ValueError:
        return False
    return isinstance(asked, dict) and asked.get("stream") is True


@contextlib.contextmanager
def _progress(rungs: list[Rung], quiet: bool) -> Iterator[Callable[[Sent], None] | None]:
    """A line on a terminal's stderr: where it is, what is open, what has failed."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.status import Status

    with Status("starting", console=Console(stderr=True)) as status:

        def shown(sent: Sent) -> None:
            if not sent.begun:
                return
            number = len(sent.begun)
            rung, at = rungs[number - 1], (time.monotonic_ns() - sent.begun[-1]) / NS
            length = (rung.stop - rung.start) / NS
            where = f"{max(at, 0.0):.0f} of {length:.0f} s" if at <= length else "waiting for the last"
            status.update(
                f"rate {number} of {len(rungs)}, {rung.rate:g} a second, {where}: "
                f"{sent.done:,} ended, {sent.open:,} open"
            )

        yield shown


def _answered(told: list[Summary]) -> bool:
    return any(one.requests > sum(one.failures.values()) for one in told)


def _shown(sent: Sent, told: list[Summary], found: Ceiling) -> Iterator[Block]:
    if not _answered(told):
        text = "Nothing was answered: the times below are of failures, which count at their deadline."
        yield Line(text, "bad")
    for one in told:
        if one.own:
            yield Line(
                f"INVALID at {one.rate:g} a second: {one.own:,} of {one.requests:,} requests could not be "
                "sent for want of files or ports where the client runs. Raise `ulimit -n`, or lower it.",
                "bad",
            )
        elif not one.valid:
            yield Line(
                f"INVALID at {one.rate:g} a second: {late(one.late, sent.ran / 1e6, sent.queued / 1e6)}. "
                "Use another machine, or a lower rate; `frostline explain load` says what else there is.",
                "bad",
            )
    rows = [
        (
            f"{one.rate:g}",
            f"{one.offered:,.2f}",
            f"{one.achieved:,.2f}",
            f"{one.requests:,}",
            f"{sum(one.failures.values()):,}",
            *(f"{one.response[q]:,.1f}" for q in ("p50", "p99", "p99.9", "max")),
            f"{one.service['p99']:,.1f}" if one.service else "-",
            f"{one.ttft['p99']:,.1f}" if one.ttft else "",
            f"{one.tpot['p50']:,.2f}" if one.tpot else "",
            f"{one.late:.2f}",
        )
        for one in told
    ]
    columns = (
        "rate/s", "offered/s", "achieved/s", "requests", "failed", "p50 ms", "p99", "p99.9", "max",
        "service p99", "TTFT p99", "TPOT p50", "late p99",
    )  # fmt: skip
    spare = ("TPOT p50", "TTFT p99", "late p99", "service p99", "offered/s")
    yield Table(
        "Response: from the time in the plan to the last byte",
        columns,
        tuple(rows),
        frozenset(range(13)),
        spare,
    )
    yield Line(
        "by the second of the measured time: offered, what the plan sent in it; achieved, answers whose last "
        "byte came in it",
        "quiet",
        indent=2,
    )
    for one in told:
        for word, count in sorted(one.failures.items()):
            how = "counted as long as they had lasted" if word == "cut" else "counted at the deadline"
            yield Line(f"{one.rate:g} a second: {count:,} x {word}, {how}", "bad", indent=2)
    yield from _drains(told)
    yield from _client(sent)
    if len(sent.rungs) > 1:
        yield from _ceiling(told, found)


def _ceiling(told: list[Summary], found: Ceiling) -> Iterator[Block]:
    words = f"{found.rate:g} requests a second" if found.rate else "below the lowest rate"
    yield Line(f"Ceiling: {words} (99 % of it achieved, p99 at most {found.limit_ms:g} ms).", "headline")
    for one in told:
        if one.rate in found.unclear and one.keeps_up is None:
            yield Line(
                f"Whether {one.rate:g} a second is kept up with cannot be told: {one.answered:,} answers for "
                f"{one.requests:,} requests, and {one.under_way_first:,} were under way when the time began, "
                f"{one.under_way_last:,} when it ended: that may differ so much by chance. More --seconds.",
                "bad",
            )


def _drains(told: list[Summary]) -> Iterator[Block]:
    """What a rate left to be waited for."""
    for number, one in enumerate(told):
        if one.drain >= _DRAINED:
            then = f"; {told[number + 1].rate:g} a second began then" if number + 1 < len(told) else ""
            yield Line(
                f"{one.rate:g} a second: its last request had ended, or reached its deadline, "
                f"{one.drain:.1f} s after its time{then}",
                "quiet",
                indent=2,
            )


def _client(sent: Sent) -> Iterator[Block]:
    """What the client says of itself."""
    if sent.passes:
        yield Line(
            f"The client's own collector made {sent.passes:,} passes, the longest of "
            f"{sent.longest_pass / 1e6:.1f} ms: that may be in the times of answers.",
            "bad",
        )
    else:
        yield Line(
            f"client: a process of its own, its collector off and {sent.frozen:,} objects frozen; it made no "
            "pass",
            "quiet",
            indent=2,
        )
    if sent.gaps_lost:
        yield Line(f"{sent.gaps_lost:,} gaps between chunks more than are kept", "quiet", indent=2)
