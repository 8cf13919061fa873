"""The target's process tree as /proc shows it, polled; who is recorded, who is missed, and why."""

import os
import re
import time
from typing import Any

from frostline import format as layout
from frostline.reach import missed, proc, segments
from frostline.reach.segments import Header, SegmentName

#: A Python process without a recording counts as missed after this long, ns. Site start-up comes
#: before everything else in it, but a loaded machine can take a second to get there.
GRACE = 2_000_000_000
#: When a program that is no interpreter by its name is looked at for a Python inside, ns.
_LOOK_INSIDE = (1_000_000_000, 10_000_000_000)
_NO_PYTHON_INSIDE = frozenset(
    ("sh", "bash", "dash", "zsh", "ash", "busybox", "sleep", "cat", "tee", "tini", "dumb-init", "timeout")
)
#: In what a process has mapped: the shared library, or an extension module where it is linked in.
_PYTHON_INSIDE = re.compile(r"/libpython3|\.cpython-3\d+-|/python3\.\d+/lib-dynload/")
#: A recording that begins so long after its program did not come from the start-up hook, ns.
_LATE = 5_000_000_000
_TICKS = os.sysconf("SC_CLK_TCK")
#: Ended processes are forgotten beyond this, the recorded first.
_KEPT = 5000


class Process:
    """One process of the tree, and the program that it runs now."""

    def __init__(self, pid: int, start_ticks: int, parent: int, now: int) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.parent = parent
        self.first_seen = self.last_seen = self.image_since = now
        self.alive = True
        self.exit: int | None = None
        self.image = 0
        self.number = pid  # in its own pid namespace
        self.argv: list[str] = []
        self.title: str | None = None
        self.executable = ""
        self.environment: dict[str, str] | None = None
        self.owner = -1
        self.python = False
        self.looked_inside = 0
        self.forked_from: Process | None = None
        self.recorded = False
        self.series: list[int] = []
        #: Path of the first segment of the series in use, for the mailbox.
        self.mailbox = ""
        self.missed: str | None = None
        self.detail = ""

    def as_json(self) -> dict[str, Any]:
        """The entry in helper-*.json."""
        return {
            "pid": self.pid,
            "parent": self.parent,
            "start_ticks": self.start_ticks,
            "first_seen_ns": self.first_seen,
            "last_seen_ns": self.last_seen,
            "argv": layout.redact(self.argv),
            "title": layout.redact([self.title])[0] if self.title else None,
            "executable": self.executable,
            "python": self.python,
            "recorded": self.recorded,
            "series": self.series,
            "missed": self.missed,
            "detail": self.detail,
            "exit": self.exit,
            "alive": self.alive,
        }


class Tree:
    """All processes that descend from the root, daemons that left it included."""

    def __init__(
        self,
        root: int,
        start_ticks: int,
        session: str,
        run: str,
        fallback: str,
        helper_title: str,
        attached: bool = False,
    ) -> None:
        """Args:
        root: the pid of the command, and its start.
        session: absolute path.
        run: the run's name, FROSTLINE_RUN in the tree.
        fallback: the folder on the tree's PYTHONPATH.
        helper_title: word of the command line that tells a helper.
        attached: the tree was there before us: who is in it now belongs to it.
        """
        self.root = root
        self.session = session
        self.run = run
        self.fallback = fallback
        self.uid = os.geteuid()
        self._helper_title = helper_title
        # Its program is looked at by the first poll, when it has been replaced by the command.
        self.members = {root: Process(root, start_ticks, 0, time.monotonic_ns())}
        self.ended: list[Process] = []
        self.forgotten = 0
        self.changed = True
        self._known = set() if attached else proc.everyone()
        self._attached_at = time.clock_gettime(time.CLOCK_BOOTTIME) if attached else 0.0
        self._headers: dict[tuple[int, int, int], bool] = {}
        self._ever: set[int] = {root}

    @property
    def everyone(self) -> list[Process]:
        return [*self.ended, *self.members.values()]

    @property
    def alive(self) -> bool:
        return bool(self.members)

    # --- who is there ----------------------------------------------------------------
    def poll(self) -> None:
        """One look. Costs a stat file a member, and more only for what is new."""
        now = time.monotonic_ns()
        pids = proc.everyone()
        for process in list(self.members.values()):
            self._look_again(process, now)
        fresh = pids - self._known
        self._known = pids
        # A child can have a lower number than its parent when numbers wrap: until nothing is added.
        while added := [pid for pid in sorted(fresh) if self._admit(pid, now)]:
            fresh.difference_update(added)
        for process in self.members.values():
            self._look_inside(process, now)

    def _admit(self, pid: int, now: int) -> bool:
        if pid in self.members:
            return True
        stat = proc.stat(pid)
        if stat is None or not stat.alive:
            return False
        environment = None
        parent = self.members.get(stat.parent)
        if parent is None:
            environment = proc.environment(pid)
            if environment is None or environment.get("FROSTLINE_RUN") != self.run:
                return False
        process = Process(pid, stat.start_ticks, stat.parent, now)
        process.forked_from = parent
        numbers = proc.own_pid_numbers(pid)
        process.number = numbers[-1] if numbers else pid
        self._read_program(process, stat)
        if self._helper_title in process.argv[:6]:
            return False  # another run's helper, seen before it left the tree
        self.members[pid] = process
        self._ever.add(pid)
        self.changed = True
        return True

    def _look_again(self, process: Process, now: int) -> None:
        stat = proc.stat(process.pid)
        if stat is None or not stat.alive or stat.start_ticks != process.start_ticks:
            if stat is not None and stat.start_ticks == process.start_ticks and stat.state == "Z":
                process.exit = _exit_code(stat.exit_code)
            process.alive = False
            del self.members[process.pid]
            self._known.discard(process.pid)  # the number may be used again at once
            self.ended.append(process)
            self.changed = True
            return
        process.last_seen = now
        process.parent = stat.parent
        # A process that has given up its memory, on its way out, shows 0: that is no exec.
        if stat.image and stat.image != process.image:
            self._executed(process, stat, now)
            return
        age = (now - process.image_since) // 250_000_000
        if process.python and (age == 1 or age % 8 == 3):
            self._read_title(process)

    def _executed(self, process: Process, stat: proc.Stat, now: int) -> None:
        """The process runs another program than before: look at everything again."""
        if process.image:  # else this is the first look at the root
            process.image_since = now
        process.looked_inside = 0
        process.title = None
        process.forked_from = None
        process.missed, process.detail = None, ""
        self._read_program(process, stat)
        if self._helper_title in process.argv[:6]:
            del self.members[process.pid]  # another run's helper, on its way out of the tree
            return
        if process.recorded:
            # A series seen already may be the old program's or, opened since the last look, the
            # new one's.
            process.recorded = any(self._is_mapped(process, series) for series in process.series)
            process.mailbox = process.mailbox if process.recorded else ""
        self.changed = True

    def _is_mapped(self, process: Process, series: int) -> bool:
        """Whether the program that runs now writes the series: an old program's mapping went with it."""
        return f"/{process.number}-{series}-" in proc.mapped(process.pid)

    def _read_program(self, process: Process, stat: proc.Stat) -> None:
        process.image = stat.image
        process.executable = proc.executable(process.pid)
        process.argv = proc.arguments(process.pid)
        process.environment = _of_interest(proc.environment(process.pid))
        process.owner = proc.owner(process.pid)
        program = process.executable or (process.argv[0] if process.argv else "") or proc.title(process.pid)
        process.python = proc.is_interpreter(program)
        parent = process.forked_from
        if parent is not None and parent.image == stat.image:
            process.python = process.python or parent.python
            process.argv = parent.argv or process.argv  # before it sets a title of its own
            process.environment = parent.environment

    def _read_title(self, process: Process) -> None:
        title = " ".join(proc.arguments(process.pid)).strip()
        if title and title != " ".join(process.argv).strip() and title != process.title:
            process.title = title
            self.changed = True

    def _look_inside(self, process: Process, now: int) -> None:
        """Is there a Python in a program that is none by its name (frozen, embedded)?"""
        if process.python or process.looked_inside >= len(_LOOK_INSIDE):
            return
        if now - process.image_since < _LOOK_INSIDE[process.looked_inside]:
            return
        process.looked_inside += 1
        if process.executable.rpartition("/")[2] in _NO_PYTHON_INSIDE:
            process.looked_inside = len(_LOOK_INSIDE)
        elif _PYTHON_INSIDE.search(proc.mapped(process.pid)):
            process.python = True
            self.changed = True

    # --- who is recorded --------------------------------------------------------------
    def match(self, listing: dict[SegmentName, str]) -> None:
        """Finds the processes of segments not seen before."""
        for name, path in listing.items():
            key = name[:3]
            if name.segment != 0 or key in self._headers:
                continue
            header = segments.read_header(path)
            if header is None:
                continue  # being written: next time
            self._headers[key] = True
            process = self._owner_of(header)
            if process is None:
                continue
            if header.series not in process.series:
                process.series.append(header.series)
            self.changed = True
            if self._is_from_before_exec(process, header):
                continue
            process.recorded, process.python = True, True
            process.missed, process.detail = None, ""
            # It may have ended before it could be looked at.
            process.argv = process.argv or header.text.get("argv", [])
            process.executable = process.executable or header.text.get("executable", [""])[0]
            if name.interpreter == 0:
                process.mailbox = path
            version = header.text.get("frostline", [""])[0]
            ours = _our_version()
            if version and version != ours:
                process.detail = f"recorded by Frostline {version} of its own environment, not by {ours}"
            if self._was_there(process) and "parent_series" not in header.text:
                age = self._attached_at - process.start_ticks / _TICKS
                process.detail = process.detail or f"attached to {age:.0f} s after its start"
            late = header.series - process.image_since
            if late > _LATE and not process.detail and len(process.series) == 1:
                process.detail = f"recorded from {late / 1e9:.0f} s after its start"

    def _is_from_before_exec(self, process: Process, header: Header) -> bool:
        """Whether a series was written between a process's fork and the exec of what it is now."""
        parent = process.forked_from
        if "parent_series" not in header.text or parent is None or process.image in (0, parent.image):
            return False
        return not self._is_mapped(process, header.series)

    def _owner_of(self, header: Header) -> "Process | None":
        for process in self.members.values():
            if process.number == header.pid and process.start_ticks == header.process_start:
                return process
        for process in reversed(self.ended):
            if process.number == header.pid and process.start_ticks == header.process_start:
                return process
        # Not seen by a look yet, or it came and went between two. Whose it is its parent tells.
        now = proc.stat(header.pid)
        same = now is not None and now.start_ticks == header.process_start
        if same and self._admit(header.pid, time.monotonic_ns()):
            return self.members[header.pid]
        if header.parent not in self._ever and header.pid not in self._ever:
            return None
        process = Process(header.pid, header.process_start, header.parent, header.series)
        process.argv = header.text.get("argv", [])
        process.executable = header.text.get("executable", [""])[0]
        process.python, process.alive = True, False
        self._ever.add(header.pid)
        self.ended.append(process)
        return process

    def judge(self, final: bool = False) -> None:
        """Gives a reason to each Python process that has no recording and should have one by now."""
        now = time.monotonic_ns()
        for process in self.everyone:
            if not process.python or process.recorded or process.missed is not None:
                continue
            there_before = self._was_there(process) and process.image_since == process.first_seen
            if process.alive and not final and not there_before and now - process.image_since < GRACE:
                continue
            parent = process.forked_from
            unchanged = parent is not None and parent.image == process.image
            if unchanged and not there_before and process.last_seen == process.first_seen:
                process.python = False  # seen once, between its fork and the exec of something else
                continue
            process.missed, process.detail = self._reason(process)
            self.changed = True
        if len(self.ended) > _KEPT:
            kept = [p for p in self.ended if p.missed is not None][-_KEPT:]
            kept += [p for p in self.ended if p.missed is None][-(_KEPT // 2) :]
            self.forgotten += len(self.ended) - len(kept)
            self.ended = sorted(kept, key=lambda p: p.first_seen)

    def _was_there(self, process: Process) -> bool:
        """Whether it ran before the attach: then no start-up hook is awaited in it."""
        return process.start_ticks < self._attached_at * _TICKS

    def _reason(self, process: Process) -> tuple[str, str]:
        parent = process.forked_from
        if parent is not None and parent.image == process.image:
            if parent.recorded or parent.series:
                return "raw-fork", ""
            if parent.missed:
                return parent.missed, parent.detail
        if self._was_there(process):
            from frostline.reach import asking  # the helper seldom needs it

            other = asking.session_of(process.pid) if process.alive else ""
            return ("other-session", other) if other not in ("", self.session) else ("before-attach", "")
        us = process.owner in (-1, 0, self.uid)  # 0: what may not be traced belongs to root there
        return missed.reason(
            process.pid,
            process.executable or (process.argv[0] if process.argv else ""),
            process.argv,
            process.environment,
            self.session,
            self.fallback,
            us,
        )


def _of_interest(environment: "dict[str, str] | None") -> "dict[str, str] | None":
    """Only what a reason may need: an environment of megabytes is not ours to keep."""
    if environment is None:
        return None
    wanted = ("PYTHONPATH", "PEX", "__PEX_UNVENDORED__")
    return {k: v for k, v in environment.items() if k in wanted or k.startswith("FROSTLINE_")}


def _exit_code(status: int) -> int:
    """Exit code as the shell says it: minus the signal's number for one that a signal ended."""
    return -(status & 0x7F) if status & 0x7F else (status >> 8) & 0xFF


def _our_version() -> str:
    from frostline import __version__

    return __version__
