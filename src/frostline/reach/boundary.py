"""Telling every recorded process of the tree that start-up has ended."""

import contextlib
import time
from typing import Any

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.format import meanings
from frostline.reach.control import AGAIN, Mailbox
from frostline.reach.tree import Process

#: How long an answer is awaited before "no answer" is noted, seconds.
_WAIT = 2.0
#: A later answer (the main thread came back from C) is still taken in for this long, seconds.
_LATE = 600.0
#: A process that has just begun to record may not have installed its handler yet, seconds.
_HANDLER = 5.0
#: A process that appears after the boundary is told after this at the least, seconds: it has begun then.
_SETTLE = 1.0
_MOST = 10_000
_NAMES = {number: text.partition(":")[0].split(" ")[0] for number, text in meanings.REPLIES}
_NAMES[layout.REPLY_NONE] = "none"


class _Asked:
    """A request under way."""

    def __init__(self, process: Process, box: Mailbox, number: int) -> None:
        self.process = process
        self.box = box
        self.number = number
        self.since = self.signalled = time.monotonic()

    def wake_again(self) -> None:
        """Signals again, if it is time to."""
        if time.monotonic() - self.signalled >= AGAIN:
            self.signalled = time.monotonic()
            self.box.wake()


class Boundary:
    """The broadcast. ``step`` is called at each look, and never blocks."""

    def __init__(self) -> None:
        #: pid and start -> entry of helper-*.json.
        self.entries: dict[tuple[int, int], dict[str, Any]] = {}
        self._asked: list[_Asked] = []
        #: Noted, and still to be asked: a caller has kept the lock all the time.
        self._shut_out: set[tuple[int, int]] = set()
        self._first_tried: dict[tuple[int, int], float] = {}
        #: Parent -> how old its oldest child was when the boundary came: so long one of them may need
        #: to load what it serves. Told earlier, a recycled worker would freeze half of its imports.
        self._ages: dict[int, int] = {}
        #: Those that lived then.
        self._there: set[tuple[int, int]] | None = None
        self.changed = False

    @property
    def waiting(self) -> bool:
        """Whether an answer is due soon: look again in milliseconds."""
        return any(time.monotonic() - asked.since < _WAIT for asked in self._asked)

    def step(self, processes: list[Process]) -> None:
        """Asks those not asked yet, and takes in answers."""
        if self._there is None:
            self._there = {(p.pid, p.start_ticks) for p in processes if p.alive}
            now = time.monotonic_ns()
            for process in processes:
                if process.mailbox and process.alive:
                    age = now - process.first_seen
                    self._ages[process.parent] = max(age, self._ages.get(process.parent, 0))
        for process in processes:
            key = process.pid, process.start_ticks
            new = key not in self.entries or key in self._shut_out
            if process.mailbox and process.alive and new and len(self.entries) < _MOST:
                self._ask(process)
        for asked in list(self._asked):
            self._look(asked)

    def _ask(self, process: Process) -> None:
        key = process.pid, process.start_ticks
        now = time.monotonic()
        first = self._first_tried.setdefault(key, now)
        settle = int(_SETTLE * 1e9)
        if self._there is None or key not in self._there:
            # Twice: it loads beside those that serve, and told late it has lost nothing.
            settle = max(settle, 2 * self._ages.get(process.parent, 0))
        if self.entries and time.monotonic_ns() - process.first_seen < settle:
            return
        try:
            box = Mailbox(process.mailbox, process.pid)
        except FrostlineError as error:
            self._note(process, "none", error.message)
            return
        if not box.locked(0.0):
            box.__exit__()
            if now - first > _HANDLER:
                self._note(process, "none", "others were asking it all the time", final=False)
            return  # a command is asking: at the next look
        try:
            number = box.request(layout.OP_BOUNDARY)
        except FrostlineError as error:
            box.__exit__()
            if error.slug == "process-gone":
                self._note(process, "none", "it ended before it was told")
            elif now - first > _HANDLER:
                self._note(process, "none", error.message)
            return
        except OSError as error:
            box.__exit__()
            self._note(process, "none", f"it could not be signalled: {error.strerror}")
            return
        self._note(process, "none", "asked")
        self._asked.append(_Asked(process, box, number))

    def _look(self, asked: _Asked) -> None:
        found = asked.box.answer(asked.number)
        waited = time.monotonic() - asked.since
        if found is not None and found.status == layout.REPLY_BUSY and waited < _LATE:
            try:
                asked.number = asked.box.request(layout.OP_BOUNDARY)
                return
            except (FrostlineError, OSError):
                pass
        if found is not None:
            late = f", after {waited:.1f} s" if waited > _WAIT else ""
            self._note(asked.process, _NAMES.get(found.status, str(found.status)), found.detail + late)
        elif not asked.box.alive:
            self._note(asked.process, "none", "it ended before it answered")
        elif waited <= _WAIT:
            # A signal can be lost, or land where the target cannot answer.
            with contextlib.suppress(FrostlineError, OSError):
                asked.wake_again()
            return
        else:
            self._note(asked.process, "none", "no answer: its main thread is in C")
            self._leave_to_others(asked)
            if waited < _LATE:
                return
        self._asked.remove(asked)
        asked.box.__exit__()

    def _leave_to_others(self, asked: _Asked) -> None:
        """A request that waits must not shut the commands out; asked again once theirs is answered."""
        asked.box.unlock()
        last = asked.box.word("request")
        if last != asked.number and asked.box.word("reply") == last:
            with contextlib.suppress(FrostlineError, OSError):
                asked.number = asked.box.request(layout.OP_BOUNDARY)

    def _note(self, process: Process, reply: str, detail: str, final: bool = True) -> None:
        """What became of it; not ``final``: it is still to be asked."""
        key = process.pid, process.start_ticks
        (self._shut_out.discard if final else self._shut_out.add)(key)
        entry = {"pid": process.pid, "reply": reply, "detail": detail}
        if self.entries.get(key) != entry:
            self.entries[key] = entry
            self.changed = True

    def finish(self) -> None:
        """Lets go of the mailboxes."""
        for asked in self._asked:
            asked.box.__exit__()
        self._asked.clear()
