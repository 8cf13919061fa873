"""The helper of ``frostline run``: one a run, outside the target's tree, gone within a second after it.

It watches, seals, keeps the limit, tells the boundary, and writes ``helper-PID-NS.json``. The
target never depends on it: killed, it leaves a session that ``report`` seals and reads.
"""

import contextlib
import gc
import json
import os
import select
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from frostline import format as layout
from frostline.reach import facts, proc, segments
from frostline.reach.boundary import Boundary
from frostline.reach.host import Sampler
from frostline.reach.launch import HELPER_TITLE
from frostline.reach.ready import Ready
from frostline.reach.retention import Retention, allow, longest_pass
from frostline.reach.sealing import Sealer, active_folder, discard, has_let_go, remove_active, writer_lives
from frostline.reach.session import write_json
from frostline.reach.tree import Process, Tree
from frostline.reach.watching import Wanted, Watch

#: Seconds between two looks at the tree, at what can be sealed, and at the limit.
PERIOD = 0.25
_SEAL = 1.0
_RETAIN = 5.0
_ANCHOR = 1.0
_WRITE = 2.0
_SOON = 0.01
_LAST_LINES = 0.5
_ANCHORS = 512
_WARNINGS = 50


class Helper:
    """What the helper knows and does."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.session: str = config["session"]
        now = time.monotonic_ns()
        self.path = os.path.join(self.session, f"helper-{os.getpid()}-{now}.json")
        self.tree = Tree(
            config["root"],
            config["start_ticks"],
            self.session,
            config["run"],
            config["fallback"],
            HELPER_TITLE,
            "attached" in config,
        )
        self.active = active_folder(self.session)
        self.sealer = Sealer(self.session)
        self.retention = Retention(self.session, config["retention"])
        self.boundary = Boundary()
        self.ready = Ready(config["ready"], time.monotonic()) if config["ready"] else None
        self.ready_found: dict[str, Any] | None = None
        self.counters = Watch(self.session) if config.get("counters", True) else None
        self.anchors: list[list[int]] = []
        self.warnings: list[str] = list(config["warnings"])
        self.longest: tuple[int, tuple[int, int, int]] = (0, (0, 0, 0))
        stamp = (os.getpid(), now)
        self.host = Sampler(self.session, stamp) if config.get("host", True) else None
        self._scanned: set[segments.SegmentName] = set()
        self._due: dict[str, float] = {}
        about = proc.stat(os.getpid())
        self._start_ticks = about.start_ticks if about is not None else 0
        try:
            self._root = os.pidfd_open(config["root"])
        except (OSError, AttributeError):  # it has ended already; a kernel before 5.3
            self._root = -1

    # --- rounds -----------------------------------------------------------------------
    def run(self) -> None:
        """Looks until the last process of the tree has gone."""
        while True:
            try:
                self._round()
            except Exception as error:
                # A look that failed (a full disk, a folder taken away) is not the last: the next may
                # succeed, and nobody but us watches the tree.
                self._warn(f"a look at the tree failed: {type(error).__name__}: {error}")
            if not self.tree.alive or self._detached():
                break
            self._pause(_SOON if self.boundary.waiting else PERIOD)
        self.finish()

    def _detached(self) -> bool:
        """After an attach: every process has let go of us. There is nothing left to watch."""
        if "attached" not in self.config:
            return False
        ours = [process for process in self.tree.members.values() if process.recorded]
        return bool(ours) and all(
            # Where it was written, or where the sealer has moved it meanwhile.
            has_let_go(process.mailbox)
            or has_let_go(os.path.join(self.session, os.path.basename(process.mailbox)))
            for process in ours
        )

    def _pause(self, seconds: float) -> None:
        """Until the next look, sampling meanwhile: at once when the command ends. What reads the
        session then wants it whole.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._ended_within(left if self.host is None else min(left, self.host.wait())):
                return
            if self.host is not None and self.host.wait() <= 0:
                self._sampling(Sampler.sample)

    def _ended_within(self, seconds: float) -> bool:
        """Waits; says whether the command ended meanwhile, once."""
        if self._root < 0:
            time.sleep(seconds)
            return False
        poll = select.poll()
        poll.register(self._root, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        os.close(self._root)
        self._root = -1
        return True

    def _sampling(self, act: Callable[[Sampler], None]) -> None:
        """Host signals. A failure (a full disk) costs them, nothing else."""
        if self.host is None:
            return
        try:
            act(self.host)
        except Exception as error:
            self.host = None
            self._warn(f"host signals are sampled no longer: {type(error).__name__}: {error}")

    def _round(self) -> None:
        ended = len(self.tree.ended)
        self.tree.poll()
        self.tree.match(segments.listing(active_folder(self.session)))
        self.tree.judge()
        self._sampling(lambda host: host.update(self.tree.members.values()))
        self._tell()
        if self.counters is not None:
            self.counters.follow(
                [
                    Wanted(p.pid, p.number, p.start_ticks, p.mailbox)
                    for p in self.tree.members.values()
                    if p.recorded and p.mailbox
                ]
            )
        if len(self.tree.ended) != ended or self._is_due("seal", _SEAL):
            self._seal()
        if self._is_due("retain", _RETAIN):
            self.tree.changed |= self.retention.apply(segments.listing(active_folder(self.session)))
        if self._is_due("anchor", _ANCHOR):
            self._anchor()
        if self.tree.changed or self.boundary.changed or self._is_due("write", _WRITE):
            self.write(ended=False)

    def _warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < _WARNINGS:
            self.warnings.append(text)

    def _is_due(self, what: str, period: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + period
        return True

    def _tell(self) -> None:
        if self.ready is None:
            return
        if self.ready_found is None:
            self.ready_found = self.ready.poll()
            self.tree.changed |= self.ready_found is not None
        if self.ready_found is not None:
            self.boundary.step(list(self.tree.members.values()))

    def _seal(self) -> None:
        if self.sealer.round(writer_lives) and self.retention.limit:
            for name, path in segments.listing(active_folder(self.session)).items():
                if name.segment == 0 and name[:3] in self.sealer.moved:
                    allow(path, self.retention.limit + self.sealer.moved[name[:3]])
        listing = segments.listing(self.session)
        self.tree.match(listing)  # some came, wrote and went since the last look
        self._scan(listing)

    def _scan(self, listing: dict[segments.SegmentName, str]) -> None:
        """Looks for the longest pass in segments that are finished, each once."""
        for name, path in listing.items():
            if name not in self._scanned:
                self._scanned.add(name)
                self.longest = max(self.longest, (longest_pass(path), name[:3]))

    def _anchor(self) -> None:
        """Both clocks at one instant: the tightest of three brackets."""
        best = None
        for _ in range(3):
            before = time.monotonic_ns()
            real = time.time_ns()
            after = time.monotonic_ns()
            if best is None or (after - before) // 2 < best[2]:
                best = [(before + after) // 2, real, (after - before) // 2]
        assert best is not None
        self.anchors.append(best)
        if len(self.anchors) > _ANCHORS:
            # Days of them: the older half at half the density, again and again.
            half = _ANCHORS // 2
            self.anchors = self.anchors[:half:2] + self.anchors[half:]

    # --- the end ----------------------------------------------------------------------
    def finish(self) -> None:
        """Seals what is left, says how it went, and takes the active folder away."""
        if self.counters is not None:
            self.counters.stop()
        self.tree.match(segments.listing(active_folder(self.session)))
        self.tree.judge(final=True)
        self.boundary.finish()
        # Another sealer (a report, another run) may hold the lock for a moment.
        for _ in range(20):
            self._seal()
            left = [
                path
                for name, path in segments.listing(active_folder(self.session)).items()
                if not writer_lives(path, name)
            ]
            if not left:
                break
            time.sleep(0.02)
        if left:
            folder = active_folder(self.session)
            self._warn(f"{len(left)} segments could not be moved to the session folder; they are in {folder}")
        self.retention.apply({})
        remove_active(self.session)
        if not os.path.isdir(self.session):
            discard(self.active)
        self._anchor()
        self._sampling(Sampler.finish)
        if self.ready is not None:
            # What the command said last may be the line; a reader that has stopped reading must not
            # keep the session open.
            self.ready.finish(_LAST_LINES)
            self.ready_found = self.ready_found or self.ready.poll()
            for warning in self.ready.warnings:
                self._warn(warning)
        self.write(ended=True)
        if self.ready is not None:
            self.ready.finish()

    def summary(self) -> str:
        """The one line: recorded, missed, longest pause, what to type next."""
        everyone = self.tree.everyone
        recorded = sum(1 for p in everyone if p.series)
        missed = sum(1 for p in everyone if p.missed is not None)
        if not recorded and not missed and not any(p.python for p in everyone):
            return "frostline: no Python process was seen: there was nothing to record"
        parts = [f"{recorded} process{'' if recorded == 1 else 'es'} recorded", f"{missed} missed"]
        longest, (pid, series, _) = self.longest
        if longest:
            whose = next((p for p in everyone if p.number == pid and series in p.series), None)
            name = self._name(whose, pid) if whose else f"pid {pid}"
            parts.append(f"longest pause {longest / 1e6:.0f} ms ({name})")
        else:
            parts.append("no collection")
        where = shlex.quote(shown_path(self.session, self.config["cwd"]))
        return f"frostline: {', '.join(parts)} - next: frostline report {where}"

    def _name(self, process: Process, pid: int) -> str:
        first = layout.segment_name(pid, process.series[-1], 0, 0)
        known = facts.read([os.path.join(self.session, first)])
        return facts.name(known.identity, process.argv, process.title or "")

    def write(self, ended: bool) -> None:
        """Writes helper-*.json as a whole. A full disk costs this file, nothing else."""
        self.tree.changed = self.boundary.changed = False
        with contextlib.suppress(OSError):
            write_json(
                self.path,
                {
                    "pid": os.getpid(),
                    "start_ticks": self._start_ticks,
                    "pid_namespace": proc.pid_namespace(),
                    "root": self.config["root"],
                    "run": self.config["run"],
                    "updated_monotonic_ns": time.monotonic_ns(),
                    "ended": ended,
                    "processes": [p.as_json() for p in self.tree.everyone],
                    "forgotten": self.tree.forgotten,
                    "ready": self.ready_found or (self.ready.pending(ended) if self.ready else None),
                    "waiting_for": self.config["ready"]["kind"] if self.config["ready"] else None,
                    "boundary": list(self.boundary.entries.values()),
                    "dropped": self.retention.dropped,
                    "anchors": self.anchors,
                    "counters": self.counters.as_json() if self.counters else None,
                    "warnings": self.warnings,
                },
            )


def shown_path(session: str, cwd: str) -> str:
    """The session as the user would type it from where the command was started."""
    relative = os.path.relpath(session, cwd) if cwd else session
    return session if relative.startswith("..") else relative


def read_config(descriptor: int) -> dict[str, Any]:
    """The first line of the pipe."""
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(descriptor, 1 << 16)
        if not part:
            raise EOFError("frostline run ended before it had said what to watch")
        data += part
    value: dict[str, Any] = json.loads(data)
    return value


def take_back(config: dict[str, Any]) -> None:
    """The command did not start: nothing of this run stays."""
    with contextlib.suppress(OSError):
        os.unlink(config["run_file"])
    remove_active(config["session"])
    if config["created"] and not segments.runs(config["session"]):
        shutil.rmtree(config["session"], ignore_errors=True)


def main() -> None:
    """Entry of the helper's process: ``-c TITLE ROOT CONFIG READY``, the last two descriptors."""
    if os.fork():
        os._exit(0)  # what `run` waits for; we belong to nobody of the target's
    # Small and quiet: it allocates little that has cycles, and must not pause while it looks.
    gc.disable()
    sys.setswitchinterval(0.0005)  # the reader of counters is late by no more than this
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # systemd sends SIGTERM to the whole group: the target's last seconds are to be watched too,
    # and our end follows from the target's.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    pipe, ready = int(sys.argv[3]), int(sys.argv[4])
    config = read_config(pipe)
    os.write(ready, b"1")
    os.close(ready)
    # The pipe's other end closes when the command has replaced `run`, or has died.
    poll = select.poll()  # select() takes no number over 1023
    poll.register(pipe, select.POLLIN)
    poll.poll()
    failed = os.read(pipe, 16)
    os.close(pipe)
    if failed:
        take_back(config)
        return
    helper = Helper(config)
    gc.freeze()
    helper.run()
    if os.isatty(2):
        with contextlib.suppress(OSError):
            os.write(2, ("\n" + helper.summary() + "\n").encode())
