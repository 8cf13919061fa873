"""Asking every recorded process of a session, of one pid, or of a pid's tree; each answer is awaited.

For the commands that change something in a live server. Who did not answer is as much the result
as who did: a policy that misses one process of a server is the failure that this project began with.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.format import meanings
from frostline.reach import control, facts, missed, overview, permission, proc, sealing, segments
from frostline.reach.newest import newest

#: Callers at a time: each waits on one process, most of the time asleep.
_AT_ONCE = 32


class Target(NamedTuple):
    """A live Python process."""

    pid: int
    name: str
    #: The first segment of its newest series; empty if it cannot be asked.
    mailbox: str
    #: Why it cannot be asked; empty if it can.
    why_not: str


class Answer(NamedTuple):
    """What became of a request to one process."""

    pid: int
    name: str
    #: done, none (no answer within the time), busy, refused, error, gone, unreachable
    outcome: str
    result: int
    detail: str
    #: Seconds from the request to the answer.
    took: float

    @property
    def done(self) -> bool:
        return self.outcome == "done"


_OUTCOMES = {
    layout.REPLY_NONE: "none",
    layout.REPLY_DONE: "done",
    layout.REPLY_BUSY: "busy",
    layout.REPLY_REFUSED: "refused",
}


def targets(where: "str | None", tree: bool = False, doing: str = "ping") -> list[Target]:
    """The live processes meant by an argument of the command line.

    Args:
        where: a session's folder, a pid, or None for the newest session.
        tree: of a pid, its descendants as well.
        doing: the command's name, for the message.

    Raises:
        FrostlineError: ``no-session``, ``no-process``, ``not-yours``, or ``no-targets``.
    """
    found = of_pid(int(where), tree, doing) if where is not None and _is_pid(where) else _of_session(where)
    if not found:
        raise FrostlineError(
            "no-targets",
            f"{'the newest session' if where is None else where}: no process of it is alive",
            "`frostline status` lists a session's processes; a pid names one of a running server.",
        )
    return found


def _is_pid(where: str) -> bool:
    return where.isascii() and where.isdigit() and len(where) <= 10


def _of_session(where: "str | None") -> list[Target]:
    folder = os.path.realpath(where or newest().path)
    rows = {row.pid: row for row in overview.read(folder).rows if row.alive}
    active = sealing.active_folder(folder)
    found = []
    for pid, path in _newest_first_segments(active or folder).items():
        row = rows.pop(pid, None)
        found.append(_target(pid, path, row.name if row else ""))
    for row in rows.values():
        why = "it records no more: detached, or its live segment has gone"
        if not row.recorded:
            why = "not recorded: " + missed.REASONS.get(row.reason, (row.detail or "not yet", ""))[0]
        found.append(Target(row.pid, row.name, "", why))
    return sorted(found)


def _newest_first_segments(folder: str) -> dict[int, str]:
    """Pid here -> first segment of its newest series, of processes that are alive."""
    found: dict[int, str] = {}
    numbers: dict[int, int] | None = None
    here = proc.pid_namespace()
    for name, path in segments.listing(folder).items():  # in order: a later series replaces an earlier
        if name.segment or name.interpreter:
            continue
        header = segments.read_header(path)
        if header is None:
            continue
        pid = header.pid
        if header.pid_namespace not in (0, here):
            # In a container it calls itself by another number.
            if numbers is None:
                numbers = {}
                for one in proc.everyone():
                    numbers.setdefault(proc.own_pid_numbers(one)[-1], one)
            pid = numbers.get(pid, 0)
        now = proc.stat(pid) if pid else None
        if now is not None and now.alive and now.start_ticks == header.process_start:
            found[pid] = path
    return found


def of_pid(pid: int, tree: bool, doing: str = "ping") -> list[Target]:
    """A process, recorded or not, and with ``tree`` the Python processes among its descendants.

    Args:
        doing: the command's name, for the message.

    Raises:
        FrostlineError: ``no-process`` or ``not-yours``.
    """
    now = proc.stat(pid)
    if now is None or not now.alive:
        raise FrostlineError(
            "no-process", f"there is no process {pid}", "`pgrep -af NAME` finds the pid of one that runs."
        )
    if not mine(pid):
        raise permission.not_yours(pid, doing + " --tree" * tree)
    pids = [pid, *(descendants(pid) if tree else ())]
    found = []
    for one in pids:
        path = _mapped_mailbox(one)
        if path:
            found.append(_target(one, path, ""))
        elif one == pid or proc.is_interpreter(proc.executable(one)):
            found.append(Target(one, name_of(one), "", _why_not_recorded(one)))
    return found


def _why_not_recorded(pid: int) -> str:
    from frostline.reach import inside  # with ctypes and what reads symbols: only where it is asked for

    return inside.why_not_recorded(pid)


def descendants(pid: int) -> list[int]:
    """The living processes that descend from one, as /proc shows their parents."""
    children: dict[int, list[int]] = {}
    for one in proc.everyone():
        now = proc.stat(one)
        if now is not None and now.alive:
            children.setdefault(now.parent, []).append(one)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in sorted(children.get(waiting.pop(), ())):
            if child not in found:
                found.append(child)
                waiting.append(child)
    return found


def _mapped(pid: int) -> list[str]:
    """The segments that a process maps."""
    paths = []
    for line in proc.mapped(pid).splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and path[0].removesuffix(" (deleted)").endswith(layout.SUFFIX):
            paths.append(path[0].removesuffix(" (deleted)"))
    return paths


def _mapped_mailbox(pid: int) -> str:
    """Its own first segment; a forked child maps its parent's as well."""
    own = proc.own_pid_numbers(pid)[-1]
    best, newest = "", -1
    for path in _mapped(pid):
        name = segments.parse_name(os.path.basename(path))
        if name is None or name.segment or name.interpreter or name.pid != own or name.series <= newest:
            continue
        seen = path if os.path.exists(path) else f"/proc/{pid}/root{path}"
        if os.path.exists(seen):
            best, newest = seen, name.series
    return best


def is_recorded(pid: int) -> bool:
    """Whether a recorder is at work in a process, as its live words say."""
    path = _mapped_mailbox(pid)
    words = segments.read_words(path) if path else None
    return words is not None and words["state"] == layout.STATE_RECORDING


def session_of(pid: int) -> str:
    """The session that a process is recorded into, as the process sees it; empty if that is not known."""
    path = _mapped_mailbox(pid) if is_recorded(pid) else ""
    header = segments.read_header(path) if path else None
    return header.text.get("session", [""])[0] if header is not None else ""


def mine(pid: int) -> bool:
    """Whether the process runs as us."""
    return proc.user(pid) == os.geteuid()


def name_of(pid: int, path: str = "") -> str:
    """What a process is called, without its pid; ``path``: the first segment of its recording."""
    known = facts.read([path] if path else [])
    return facts.name(known.identity, proc.arguments(pid), "")


def _target(pid: int, path: str, name: str) -> Target:
    name = name or name_of(pid, path)
    if not mine(pid):
        return Target(pid, name, "", "it belongs to another user: a request is for the same user only")
    mapped = {os.path.basename(one) for one in _mapped(pid)}
    if os.path.basename(path) not in mapped:
        # After an exec pid and start are the same, and SIGURG is not ours to send any more.
        return Target(pid, name, "", "it runs another program now, which is not recorded")
    return Target(pid, name, path, "")


def ask_all(
    found: list[Target],
    op: int,
    arguments: tuple[int, ...] = (),
    seconds: float = 5.0,
    told: "Callable[[Answer], None] | None" = None,
    text: "bytes | None" = None,
    spread: int = 0,
) -> list[Answer]:
    """Asks all of them at once and awaits each answer, for at most ``seconds``.

    Args:
        told: called with each answer as it comes, from several threads, one at a time.
        text: of OP_POLICY; the detail of an answer is the target's text then.
        spread: where not 0, one argument more: 0 for the first, and so much more for each next one.
    """
    answers: dict[int, Answer] = {}
    lock = threading.Lock()
    waiting = list(enumerate(found))
    # One bound for all: who is asked late, since thirty-two main threads are in C, waits less.
    until = time.monotonic() + seconds

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                place, target = waiting.pop(0)
            more = (place * spread,) if spread else ()
            answer = _ask(target, op, (*arguments, *more), max(0.2, until - time.monotonic()), text)
            with lock:
                answers[place] = answer
                if told is not None:
                    told(answer)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_AT_ONCE, len(found)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[place] for place in sorted(answers)]


def _ask(target: Target, op: int, arguments: tuple[int, ...], seconds: float, text: "bytes | None") -> Answer:
    def answer(outcome: str, detail: str, result: int = 0) -> Answer:
        return Answer(target.pid, target.name, outcome, result, detail, time.monotonic() - begun)

    begun = time.monotonic()
    if target.why_not:
        return answer("unreachable", target.why_not)
    try:
        reply = control.send(target.mailbox, op, arguments, seconds, target.pid, text)
    except FrostlineError as error:
        if error.slug == "process-gone":
            return answer("gone", "gone: it ended before it answered")
        return answer("unreachable", _why_silent(target.mailbox, error))
    except OSError as error:
        return answer("unreachable", f"it cannot be signalled: {error.strerror}")
    if reply.status == layout.REPLY_BUSY and reply.number == 0:
        return answer("busy", "others were asking it all the time")
    if reply.status == layout.REPLY_NONE:
        now = proc.stat(target.pid)
        where = "it is stopped" if now is not None and now.state in "Tt" else "its main thread is in C"
        return answer("none", f"{where}; it answers when it comes back, unless asked again")
    detail = reply.text if reply.done and reply.text else reply.detail
    return answer(_OUTCOMES.get(reply.status, "error"), detail, reply.result)


def _why_silent(path: str, error: FrostlineError) -> str:
    words = segments.read_words(path)
    if error.slug != "no-control" or words is None:
        return error.message
    if words["state"] == layout.STATE_OPENING:
        return "it is just starting: ask again"
    if words["off_reason"] == layout.OFF_REMOVED:
        return "detached already: nothing of Frostline's is at work in it"
    if words["state"] == layout.STATE_CLOSED:
        return "it is ending"
    if words["state"] == layout.STATE_OFF:
        reason = dict(meanings.OFF_REASONS).get(words["off_reason"], "unknown reason")
        return f"its recording has stopped: {reason}"
    return "control is off in it (FROSTLINE_CONTROL=off, or the program took SIGURG)"
