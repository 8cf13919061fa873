"""``frostline metrics``: pauses of every process of a server, for Prometheus and OpenTelemetry."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frostline.commands._ending import interruptible
from frostline.commands.report import Named
from frostline.commands.run import seconds, usage
from frostline.commands.status import printable
from frostline.errors import FrostlineError
from frostline.experiment.load.plan import is_url
from frostline.export.metrics import Process, Told
from frostline.reach import facts
from frostline.reach import newest as sessions
from frostline.recording.loss import Losses
from frostline.recording.model import Key, Series
from frostline.recording.notes import Session, read_notes
from frostline.recording.tail import Counted, Tail

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

#: Seconds for which a process that has ended is told of, so that its last passes are fetched.
KEEP = 300.0
#: Of --every, seconds.
SHORTEST = 0.1


@click.command(short_help="Tell Prometheus or OpenTelemetry of the pauses of every process.")
@click.argument("session", required=False, type=Named(path_type=Path))
@click.option(
    "--listen", metavar="[HOST:]PORT", help="Serve them at http://HOST:PORT/metrics; HOST is 127.0.0.1."
)
@click.option(
    "--textfile",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE.prom",
    help="Write them for node_exporter's textfile collector.",
)
@click.option(
    "--otlp",
    metavar="URL",
    help="Send them by OTLP over HTTP; 'env': to where OTEL_EXPORTER_OTLP_ENDPOINT says.",
)
@click.option("--every", help="With --textfile and --otlp: from one look to the next.  [default: 15s]")
def metrics(
    session: Path | None, listen: str | None, textfile: Path | None, otlp: str | None, every: str | None
) -> None:
    """Tell of the pauses of each process of SESSION (a folder), from its recording: the server is not asked.

    Without SESSION the newest one is told of, and a newer one from when it is there. Without an option the
    metrics are printed once, as Prometheus reads them. Else it runs until it is told to end.

    \b
        frostline metrics --listen 9464
        frostline metrics --otlp http://collector:4318/v1/metrics
    """
    if sum(one is not None for one in (listen, textfile, otlp)) > 1:
        raise click.UsageError("give one of --listen, --textfile and --otlp: another takes a process more")
    if every is not None and textfile is None and otlp is None:
        raise click.UsageError("--every is for --textfile and --otlp: who fetches says how often")
    pause = seconds(every or "15s")
    if pause < SHORTEST:
        raise usage("bad-every", f"--every {every} is too short", f"From {SHORTEST:g}s on.")
    look = Look(session)
    look()  # what is wrong from the start is an error, not a line in a log
    with interruptible(), suppress(KeyboardInterrupt):
        if listen is not None:
            _serve(look.quietly, *_address(listen))
        elif textfile is not None:
            _write(look.quietly, textfile, pause)
        elif otlp is not None:
            if otlp != "env" and not is_url(otlp):
                raise usage("bad-otlp", f"--otlp {otlp}: no URL", "Such as http://collector:4318/v1/metrics.")
            _send(look.quietly, "" if otlp == "env" else otlp, pause)
        else:
            from prometheus_client import generate_latest

            click.echo(generate_latest(_registry(look)).decode(), nl=False)


class Trouble:
    """Says what is wrong once, and not at every look."""

    def __init__(self) -> None:
        self._said: str | None = None

    def say(self, text: str, key: str | None = None) -> None:
        """``key``: what it is about, where the words change."""
        about = text if key is None else key
        before, self._said = self._said, about  # first: Ctrl-C may come while it is written
        if about != before:
            click.echo(printable(f"frostline: {text}"), err=True)

    def over(self) -> None:
        self._said = None


class Look:
    """The processes of a session as they are now; of the newest session where none is named."""

    def __init__(self, session: Path | None) -> None:
        self.session = session
        self._tail: Tail | None = None
        self._lock = threading.Lock()  # two may fetch at once
        self._ended: dict[Key, float] = {}
        self._about: dict[Key, Process] = {}
        self._trouble = Trouble()
        self._damage = Trouble()

    def __call__(self) -> Told:
        """They, and what is missing; files that are damaged are said on stderr too.

        Raises:
            FrostlineError: ``no-session``, ``session-not-found``, ``session-unreadable``, ``session-empty``.
        """
        with self._lock:
            folder = self.session or Path(sessions.newest().path)
            if not folder.exists():
                raise FrostlineError(
                    "session-not-found",
                    f"there is no {folder}",
                    "Give the folder that `frostline run -o` writes.",
                )
            if self._tail is None or self._tail.folder != folder:
                self._tail = Tail(folder)
                self._ended.clear()
                self._about.clear()
            seen = Session(path=folder)
            read_notes(seen, folder, Losses())
            titles = {one.pid: one.title for one in seen.processes}
            now = time.monotonic()
            shown: dict[tuple[str, int], Process] = {}
            recent: set[tuple[str, int]] = set()
            damaged = 0
            for series in self._tail.look():
                damaged += len(series.damaged)
                if not series.header:
                    continue  # nobody knows whose it is
                process = self._process(series, folder, titles.get(series.key[0], ""))
                label = (process.name, process.pid)
                if not series.dead or now - self._ended.setdefault(series.key, now) <= KEEP:
                    recent.add(label)
                other = shown.get(label)
                shown[label] = process if other is None else _both(other, process)
            if not shown and not seen.runs:
                raise FrostlineError(
                    "session-empty",
                    f"{folder} holds no recording",
                    "Give the folder that `frostline run -o` writes.",
                )
            missed = sum(one.python and bool(one.missed) for one in seen.processes)
            if damaged:
                text = f"{damaged} files of {folder} are damaged: `frostline report` says what is missing"
                self._damage.say(text)
            return Told([one for label, one in shown.items() if label in recent], missed, damaged)

    def quietly(self) -> Told:
        """The same for one who fetches it; what is wrong is said here, once, and they get nothing."""
        try:
            found = self()
        except FrostlineError as error:
            self._trouble.say(f"{error.message} [{error.slug}]")
            return Told([], 0, 0)
        self._trouble.over()
        return found

    def _process(self, series: Counted, folder: Path, title: str) -> Process:
        known = self._about.get(series.key) if series.key in self._ended else None
        if known is None:
            known = self._about[series.key] = _about(series, folder, title)
        return replace(known, counts=series.counts, lost=series.lost)


def _about(series: Counted, session: Path, title: str) -> Process:
    """``title``: as the helper saw it from outside."""
    known = _facts(series, session)
    header = series.header
    about = Series(*series.key, hexversion=header.get("hexversion", 0))
    argv = known.header.text.get("argv", []) if known.header else []
    return Process(
        name=facts.name(known.identity, argv, title),
        pid=series.key[0],
        python=about.python,
        policy=known.policy,
        frozen=bool(known.frozen_since),
        started=header.get("anchor_realtime", 0) + series.key[1] - header.get("anchor_monotonic", 0),
        lost=series.lost,
        counts=series.counts,
    )


def _facts(series: Counted, session: Path) -> facts.Facts:
    """Segments may be moved to the session's folder, and emptied, while they are read: then from there."""
    while True:
        sealed = [(session / path.name).exists() for path in series.paths]
        paths = [
            session / path.name if there else path for path, there in zip(series.paths, sealed, strict=True)
        ]
        known = facts.read([str(path) for path in paths])
        if sealed == [(session / path.name).exists() for path in series.paths]:
            return known


def _both(one: Process, other: Process) -> Process:
    """Two interpreters of a process, or two programs that it was in turn, under one name."""
    return replace(
        one,
        python=other.python,
        policy=other.policy,
        frozen=one.frozen or other.frozen,
        started=min(one.started, other.started),
        lost=one.lost + other.lost,
        counts=one.counts + other.counts,
    )


def _registry(look: Callable[[], Told]) -> CollectorRegistry:
    from frostline.export.metrics.prometheus import registry

    return registry(look)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise usage("bad-listen", f"--listen {text}: no port", "Such as 9464, or 0.0.0.0:9464.")
    return host.strip("[]") or "127.0.0.1", int(port)


def _serve(look: Callable[[], Told], host: str, port: int) -> None:
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, _registry(look))
    except OSError as error:
        raise FrostlineError(
            "cannot-listen",
            f"cannot serve at {host}:{port}: {error.strerror or error}",
            "Give another port, or an address of this machine, with --listen.",
        ) from error
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"frostline: metrics at http://{shown}:{server.server_port}/metrics; Ctrl-C ends it", err=True)
    try:
        threading.Event().wait()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _write(look: Callable[[], Told], path: Path, every: float) -> None:
    if path.suffix != ".prom":
        raise usage("bad-textfile", f"--textfile {path}: node_exporter reads *.prom", "Name it so.")
    from prometheus_client import write_to_textfile

    made, trouble = _registry(look), Trouble()

    def write() -> bool:
        try:
            write_to_textfile(str(path), made)
        except OSError as error:
            trouble.say(f"cannot write {path}: {error.strerror}; it is tried again every {every:g} s")
            return False
        trouble.over()
        return True

    if not path.parent.is_dir():
        raise usage(
            "bad-textfile", f"--textfile {path}: its folder is not there", "Make it, or name another."
        )
    _again(write, every)


def _send(look: Callable[[], Told], endpoint: str, every: float) -> None:
    from frostline.export.metrics.otel import Exporter

    exporter, trouble = Exporter(endpoint), Trouble()

    def send() -> bool:
        if exporter.send(look().processes):
            trouble.over()
            return True
        why = f" ({exporter.said})" if exporter.said else ""
        text = f"{exporter.endpoint} does not take them{why}; it is tried again every {every:g} s"
        trouble.say(text, exporter.endpoint)
        return False

    try:
        _again(send, every)
    finally:
        exporter.close()


def _again(act: Callable[[], bool], every: float) -> None:
    """At once, every so often, and once more when it is told to end: what came since then.

    Not that last time where ``act`` failed the time before: nobody would wait for it.
    """
    pause, good = threading.Event(), True
    try:
        while True:
            good = act()
            pause.wait(every)
    except KeyboardInterrupt:
        if good:
            act()
