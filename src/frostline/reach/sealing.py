"""Moving finished segments from the active folder (tmpfs) into the session folder.

A segment is moved when nothing will be written to it any more: all of a process's that has
ended; of a living one those that are full and have a successor. The first segment of a living
process stays: it holds the mailbox and four regions.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from frostline import format as layout
from frostline.format import request
from frostline.reach import linux, proc, segments
from frostline.reach.segments import SegmentName

_BLOCK = 4096
#: A detach answers, and a thread may end a record, after the series has been closed, ns.
_MOMENT = 1_000_000_000


@contextlib.contextmanager
def sealers_lock(session: str) -> Iterator[bool]:
    """One sealer at a time: two runs may share a session, and ``report`` seals too. False if taken."""
    try:
        descriptor = os.open(session, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def move(path: str, session: str) -> bool:
    """Copies a segment, makes it durable, and frees the original. False if it did not work.

    Renamed into place only when complete, so a reader finds it whole, in one of two places.
    """
    name = os.path.basename(path)
    target = os.path.join(session, name)
    temporary = os.path.join(session, f".{name}.{os.getpid()}")
    try:
        if os.stat(path).st_dev == os.stat(session).st_dev:
            os.rename(path, target)
            return True
        source = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        size = os.fstat(source).st_size
        out = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _copy(source, out, size)
            os.fsync(out)
        finally:
            os.close(out)
        os.rename(temporary, target)
        # The target may map the original for as long as it lives: unlinking alone frees nothing.
        linux.punch(source, -(-size // _BLOCK) * _BLOCK)
        os.unlink(path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    finally:
        os.close(source)
    return True


def _copy(source: int, out: int, size: int) -> None:
    """Copies what is not zero: most of a last segment is."""
    zero = bytes(_BLOCK)
    at = 0
    while at < size:
        data = os.pread(source, 1 << 18, at)
        if not data:
            break
        for start in range(0, len(data), _BLOCK):
            block = data[start : start + _BLOCK]
            if block != zero[: len(block)]:
                os.pwrite(out, block, at + start)
        at += len(data)
    os.ftruncate(out, size)


class Sealer:
    """Seals what is ready in one session, round by round."""

    def __init__(self, session: str) -> None:
        self.session = session
        #: Bytes moved of each series.
        self.moved: dict[tuple[int, int, int], int] = {}
        self._full: set[SegmentName] = set()

    def round(self, alive: Callable[[str, SegmentName], bool]) -> int:
        """One look at the active folder.

        Args:
            alive: whether the writer of the segment (path, name) still lives.

        Returns:
            How many segments were moved.
        """
        with sealers_lock(self.session) as ours:
            return self._round(alive) if ours else 0

    def _round(self, alive: Callable[[str, SegmentName], bool]) -> int:
        moved = 0
        series: dict[tuple[int, int, int], list[tuple[SegmentName, str]]] = {}
        # Looked up each time: another run may have ended, and taken the folder with it.
        for name, path in segments.listing(active_folder(self.session)).items():
            series.setdefault(name[:3], []).append((name, path))
        for members in series.values():
            if not alive(members[0][1], members[0][0]) or has_let_go(members[0][1]):
                ready = [path for _, path in members]
            else:
                ready = self._finished(members)
            for path in ready:
                size = segments.size(path)
                if move(path, self.session):
                    moved += 1
                    key = members[0][0][:3]
                    self.moved[key] = self.moved.get(key, 0) + size
        return moved

    def _finished(self, members: list[tuple[SegmentName, str]]) -> list[str]:
        """Of a living process: full segments that have a successor of their region."""
        kinds = {}
        for name, path in members:
            header = segments.read_header(path) if name.segment else None
            if header is not None and len(header.regions) == 1:
                kinds[name] = header.regions[0].kind
        latest = {kind: max(n.segment for n, k in kinds.items() if k == kind) for kind in kinds.values()}
        ready = []
        for name, path in members:
            if name not in kinds or name.segment == latest[kinds[name]]:
                continue
            if name in self._full:
                # Seen full a round ago: the field that is written after the commit word is in too.
                self._full.discard(name)
                ready.append(path)
            elif segments.is_full(path):
                self._full.add(name)
        return ready


class Swept(NamedTuple):
    """What `seal_dead` did: segments moved, segments left where they were."""

    moved: int
    left: int


def seal_dead(session: str) -> Swept:
    """Seals what dead processes left, for when there is no helper any more (`report` calls it).

    A process whose end is not certain is left alone, and nothing is moved out of a folder that is
    not ours alone.
    """
    active = active_folder(session)
    if not active or not _ours_alone(active):
        return Swept(0, 0)
    moved = Sealer(session).round(_may_live)
    left = len(segments.listing(active))
    if not left and not _helper_at_work(session):
        remove_active(session)  # a process that starts just now makes the folder and the link again
    return Swept(moved, left)


def _ours_alone(active: str) -> bool:
    try:
        about = os.stat(active)
    except OSError:
        return False
    mine = about.st_uid == os.getuid() and not about.st_mode & 0o077
    return mine and os.path.basename(active).startswith(f"frostline-{os.getuid()}-")


def _may_live(path: str, name: SegmentName) -> bool:
    """Whether the writer is not certainly dead."""
    header = segments.read_header(path)
    if header is None or not header.process_start:
        return True
    if header.pid_namespace != proc.pid_namespace():
        return True  # another container: its numbers mean nothing here
    now = proc.stat(header.pid)
    return now is not None and now.alive and now.start_ticks == header.process_start


def _helper_at_work(session: str) -> bool:
    """Whether a helper still serves the session: then the active folder is its to remove."""
    for name in os.listdir(session):
        if name.startswith("helper-") and name.endswith(".json"):
            number = name.split("-")[1]
            if number.isdecimal() and "frostline-helper" in proc.arguments(int(number)):
                return True
    return False


def writer_lives(path: str, name: SegmentName) -> bool:
    """Whether the process that a segment names is alive, by pid and start.

    From another pid namespace a number means nothing; then only the mapping could tell, and a
    segment of such a process is left where it is until the folder's age says otherwise.
    """
    header = segments.read_header(path)
    if header is None:
        # Unfinished: being made, or its maker was killed there. The pid alone must do.
        now = proc.stat(name.pid)
        return now is not None and now.alive
    if header.pid_namespace not in (0, proc.pid_namespace()):
        return _lives_elsewhere(header.pid, header.process_start)
    now = proc.stat(header.pid)
    return now is not None and now.alive and now.start_ticks == header.process_start


def _lives_elsewhere(pid: int, start_ticks: int) -> bool:
    for candidate in proc.everyone():
        now = proc.stat(candidate)
        if now is not None and now.alive and now.start_ticks == start_ticks:
            numbers = proc.own_pid_numbers(candidate)
            if numbers and numbers[-1] == pid:
                return True
    return False


def has_let_go(path: str) -> bool:
    """Whether a process that may live on has been detached from ``path``, its first segment."""
    words = segments.read_words(path)
    if words is None or words["state"] != layout.STATE_CLOSED or words["off_reason"] != layout.OFF_REMOVED:
        return False
    return time.monotonic_ns() - words["closed"] > _MOMENT


def active_folder(session: str) -> str:
    """Where the session's live segments are; empty if nowhere."""
    link = os.path.join(session, layout.ACTIVE_LINK)
    try:
        target = os.path.join(session, os.readlink(link))
    except OSError:
        return ""
    return target if os.path.isdir(target) else ""


def remove_active(session: str) -> bool:
    """Takes away the folder of active segments if nothing is left in it."""
    with sealers_lock(session) as ours:
        active = active_folder(session)
        if not ours or not active:
            return False
        _drop_looks(active)
        if os.listdir(active):
            return False
        try:
            os.rmdir(active)
            os.unlink(os.path.join(session, layout.ACTIVE_LINK))
        except OSError:
            return False
        return True


def _drop_looks(active: str) -> None:
    """Answers of ended processes that nobody has taken: whoever asked was killed, or had given up."""
    names: set[str] = set()
    with contextlib.suppress(OSError):
        names.update(os.listdir(active))
    for name in names:
        if name.endswith(request.LOOK_SUFFIX) and name.removesuffix(request.LOOK_SUFFIX) not in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(active, name))


def discard(active: str) -> None:
    """Takes away what ended processes left of a session whose folder somebody has removed."""
    if not active:
        return
    for name, path in segments.listing(active).items():
        if not writer_lives(path, name):
            with contextlib.suppress(OSError):
                os.unlink(path)
    _drop_looks(active)
    with contextlib.suppress(OSError):
        os.rmdir(active)
