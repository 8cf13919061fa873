"""Which session is meant where none is named: the newest one that has something in it.

A command that failed at once leaves a session too. Nobody wants a report on that one: it has something in
it only if work was seen, or a full pass.
"""

import os
import struct
from typing import NamedTuple

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.reach import files, proc, sealing, segments
from frostline.reach.session import remembered

#: ns. A command that ended with an error so soon has failed at its start; and one that ended so soon, where
#: the code that it ended with was gone before the helper could read it.
_FAILED = 10_000_000_000
_AT_ONCE = 2_000_000_000
_PASS = struct.Struct(layout.PASS)
_GENERATION = [name for name, _, _ in layout.PASS_FIELDS].index("generation")


class Newest(NamedTuple):
    """What was found."""

    path: str
    #: Newer sessions that have ended and have nothing in them, the newest first.
    passed_over: tuple[str, ...]

    @property
    def note(self) -> str:
        """In words, why it is not the very newest; empty where it is."""
        if not self.passed_over:
            return ""
        first = _shown(self.passed_over[0])
        more = f" and {len(self.passed_over) - 1} before it" if len(self.passed_over) > 1 else ""
        return (
            f"the newest session, {first},{more} ended at once or recorded nothing; this is the newest with"
            f" something in it, {_shown(self.path)}"
        )


def newest(cwd: "str | None" = None) -> Newest:
    """The newest session that runs, or has something in it; the very newest where none has.

    Looked for among those that ``run`` and ``attach`` noted, and the default folders in ``cwd``.

    Raises:
        FrostlineError: ``no-session``.
    """
    candidates = sorted(_candidates(cwd), reverse=True)
    if not candidates:
        raise FrostlineError(
            "no-session",
            "no session was named, and none was found here",
            "Record one with `frostline run -- COMMAND`, or name its folder.",
        )
    passed: list[str] = []
    for _, path in candidates:
        if has_something(path):
            return Newest(path, tuple(passed))
        passed.append(path)
    return Newest(candidates[0][1], ())


def _candidates(cwd: "str | None") -> set[tuple[int, str]]:
    """(when it was begun or joined last, path)."""
    places = remembered()
    here = cwd or proc.working_folder()
    if here:
        try:
            names = os.listdir(here)
        except OSError:
            names = []
        places += [
            os.path.join(here, name)
            for name in names
            if name.startswith("frostline-") and "-" in name.removeprefix("frostline-")
        ]
    found = set()
    for place in places:
        if not place.startswith("/") or not os.path.isdir(place):
            continue
        try:
            path = os.path.realpath(place)
            stamps = [os.stat(os.path.join(path, name)).st_mtime_ns for name in segments.runs(path)]
            found.add((max(stamps, default=os.stat(path).st_mtime_ns), path))
        except (OSError, ValueError):
            continue
    return found


def has_something(path: str) -> bool:
    """Whether a session runs, or holds a pass or a span; of one that failed at once a full one, or a span."""
    helpers = files.read_notes(path, "helper-")
    if not helpers:
        # Just begun, or nobody watches: the command has the pid that `run` had.
        if any(_lives(note.number("pid"), 0) for note in _of_this_boot(files.read_notes(path, "run-"))):
            return True
    elif any(
        not note.true("ended") and _lives(note.number("pid"), note.number("start_ticks")) for note in helpers
    ):
        return True
    failed = _failed_at_once(helpers)
    active = sealing.active_folder(path)
    for folder in (active, path) if active else (path,):
        if any(_tells(file, failed) for file in segments.listing(folder).values()):
            return True
    return False


def _failed_at_once(helpers: "list[files.Note]") -> bool:
    """Whether each command of the session ended with an error, soon after its start, as far as is known."""
    roots = [
        process
        for helper in helpers
        for process in helper.notes("processes")
        if process.number("pid") == helper.number("root")
    ]
    return bool(roots) and all(_failed(process) for process in roots)


def _failed(process: files.Note) -> bool:
    code = process.optional("exit")
    lived = process.number("last_seen_ns") - process.number("first_seen_ns")
    return code != 0 and lived < (_AT_ONCE if code is None else _FAILED)


def _of_this_boot(notes: "list[files.Note]") -> "list[files.Note]":
    return [note for note in notes if note.text("boot_id") in ("", proc.boot_id())]


def _lives(pid: int, start_ticks: int) -> bool:
    now = proc.stat(pid) if pid else None
    return now is not None and now.alive and start_ticks in (0, now.start_ticks)


def _tells(path: str, failed: bool) -> bool:
    try:
        data = files.read(path)
    except OSError:
        return False
    header = segments.parse_header(data[: layout.HEADER_SIZE])
    if header is None:
        return bool(data)  # damaged, or of another version: a report says so
    for region in header.regions:
        for slot in region.slots(len(data)):
            end = region.offset + region.record_size * (slot + 1)
            if data[end - 8 : end] == bytes(8):
                continue
            if region.kind == layout.REGION_SPANS:
                return True
            if region.kind == layout.REGION_PASSES and region.record_size == layout.PASS_SIZE:
                fields = _PASS.unpack_from(data, end - region.record_size)
                if not failed or fields[_GENERATION] == 2:
                    return True
    return False


def _shown(folder: str) -> str:
    """A session as the user types it from here."""
    here = proc.working_folder()
    where = os.path.relpath(folder, here) if here else folder
    return folder if where.startswith("..") else where
