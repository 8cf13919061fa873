"""Which session is meant where none is named: the newest one that has something in it.

A command that failed at once leaves a session too. Nobody wants a report on that one.
"""

import os
from typing import NamedTuple

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.reach import files, proc, sealing, segments
from frostline.reach.session import remembered

#: Regions that tell of what a process did.
_TELLING = (layout.REGION_PASSES, layout.REGION_SPANS)


class Newest(NamedTuple):
    """What was found."""

    path: str
    #: Newer sessions that have ended and hold neither a pass nor a span, the newest first.
    passed_over: tuple[str, ...]

    @property
    def note(self) -> str:
        """In words, why it is not the very newest; empty where it is."""
        if not self.passed_over:
            return ""
        first = _shown(self.passed_over[0])
        more = f" and {len(self.passed_over) - 1} before it" if len(self.passed_over) > 1 else ""
        return (
            f"the newest session, {first},{more} recorded no pass and no span; this is the newest that did,"
            f" {_shown(self.path)}"
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
    """Whether a session runs, or holds a pass or a span."""
    helpers = files.read_notes(path, "helper-")
    if not helpers:
        # Just begun, or nobody watches: the command has the pid that `run` had.
        if any(_lives(note.number("pid"), 0) for note in _of_this_boot(files.read_notes(path, "run-"))):
            return True
    elif any(
        not note.true("ended") and _lives(note.number("pid"), note.number("start_ticks")) for note in helpers
    ):
        return True
    active = sealing.active_folder(path)
    for folder in (active, path) if active else (path,):
        if any(_tells(file) for file in segments.listing(folder).values()):
            return True
    return False


def _of_this_boot(notes: "list[files.Note]") -> "list[files.Note]":
    return [note for note in notes if note.text("boot_id") in ("", proc.boot_id())]


def _lives(pid: int, start_ticks: int) -> bool:
    now = proc.stat(pid) if pid else None
    return now is not None and now.alive and start_ticks in (0, now.start_ticks)


def _tells(path: str) -> bool:
    try:
        data = files.read(path)
    except OSError:
        return False
    header = segments.parse_header(data[: layout.HEADER_SIZE])
    if header is None:
        return bool(data)  # damaged, or of another version: a report says so
    return any(
        segments.committed(data, region._replace(capacity=min(region.capacity, 16)))
        for region in header.regions
        if region.kind in _TELLING
    )


def _shown(folder: str) -> str:
    """A session as the user types it from here."""
    here = proc.working_folder()
    where = os.path.relpath(folder, here) if here else folder
    return folder if where.startswith("..") else where
