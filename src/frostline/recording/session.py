"""One session: a folder of segments, its live folder, and what ``run`` and its helper wrote there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from frostline import format as fmt
from frostline.errors import FrostlineError
from frostline.recording.counts import attach_counts
from frostline.recording.host import read_host
from frostline.recording.loss import Loss, Losses
from frostline.recording.model import Series
from frostline.recording.notes import Session, is_running, read_notes
from frostline.recording.segment import FILE_NAME
from frostline.recording.series import read_series, shift

#: Called with bytes read and bytes in all.
Progress = Callable[[int, int], None]

#: More segments than this in one folder is not a session.
_MAX_FILES = 500_000


@dataclass(frozen=True)
class Files:
    """Where the segments of a session are, sealed ones first."""

    folder: Path
    active: Path | None
    by_series: dict[tuple[int, int, int], list[Path]]
    size: int


def active_folder(folder: Path) -> Path | None:
    """The folder that the session's link names, if it exists and belongs to the session's owner."""
    link = folder / fmt.ACTIVE_LINK
    try:
        target = link.readlink()
        if not target.is_absolute() or not target.is_dir():
            return None
        if target.stat().st_uid != folder.stat().st_uid:
            return None
    except OSError:
        return None
    return target


def find_files(folder: Path, losses: Losses) -> Files:
    """Lists the segments of a session; foreign files are left alone."""
    by_series: dict[tuple[int, int, int], list[Path]] = {}
    active = active_folder(folder)
    size = 0
    seen: set[str] = set()
    for place in (folder, active):
        if place is None:
            continue
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            if place is folder:
                raise FrostlineError(
                    "session-unreadable",
                    f"cannot list {folder}: {error.strerror}",
                    "check the path and its permissions",
                ) from error
            losses.add("folder-unreadable", f"cannot list the live segments: {error.strerror}", place)
            continue
        if len(entries) > _MAX_FILES:
            losses.add("too-many-files", f"{len(entries)} files: only {_MAX_FILES} are read", place)
            entries = entries[:_MAX_FILES]
        for entry in entries:
            name = FILE_NAME.match(entry.name)
            if name is None:
                if entry.name.endswith(fmt.SUFFIX):
                    losses.add("segment-foreign", "not named as a segment is: left out", entry.path)
                continue
            if entry.name in seen:
                continue  # sealed already: its original is about to be removed
            seen.add(entry.name)
            try:
                if not entry.is_file(follow_symlinks=False):
                    losses.add("segment-unreadable", "not a regular file: left out", entry.path)
                    continue
                size += entry.stat(follow_symlinks=False).st_size
            except OSError:
                continue
            key = (int(name[1]), int(name[2]), int(name[3]))
            by_series.setdefault(key, []).append(Path(entry.path))
    return Files(folder, active, by_series, size)


def read_session(path: Path | str, progress: Progress | None = None) -> Session:
    """Reads a session, also while it is being written. What cannot be read is in ``losses``.

    Raises:
        FrostlineError: there is nothing there that can be read at all.
    """
    folder = Path(path)
    if not folder.exists():
        raise FrostlineError(
            "session-not-found", f"there is no {folder}", "give the folder that `frostline run -o` wrote"
        )
    losses = Losses()
    files = find_files(folder, losses) if folder.is_dir() else _single_file(folder)
    session = Session(path=folder)
    active = files.active
    if folder.is_dir():
        read_notes(session, folder, losses)
        session.host = read_host(folder, losses)

    def live(file: Path) -> bool:
        return active is not None and file.parent == active

    def sealed(file: Path) -> Path | None:
        if not live(file):
            return None
        moved = folder / file.name
        return moved if moved.exists() else None

    done = 0

    def read(size: int) -> None:
        nonlocal done
        done += size
        if progress is not None:
            progress(done, max(done, files.size))

    for key in sorted(files.by_series, key=lambda k: (k[1], k)):
        series = read_series(sorted(files.by_series[key]), losses, live, sealed, read, session.dropped)
        if series is not None:
            session.series.append(series)
    if folder.is_dir():
        attach_counts(folder, session.series, losses)
    session.running = is_running(session)
    session.losses = losses.all()
    if not session.series and not session.runs:
        raise _nothing(folder, session.losses)
    _inherit_names(session.series)
    return session


def _single_file(path: Path) -> Files:
    name = FILE_NAME.match(path.name)
    key = (int(name[1]), int(name[2]), int(name[3])) if name else (0, 0, 0)
    return Files(path.parent, None, {key: [path]}, path.stat().st_size)


def _nothing(folder: Path, losses: tuple[Loss, ...]) -> FrostlineError:
    if losses:
        shown = "; ".join(str(loss) for loss in losses[:3])
        more = f" and {len(losses) - 3} more" if len(losses) > 3 else ""
        return FrostlineError(
            "session-damaged",
            f"nothing in {folder} can be read: {shown}{more}",
            "check that this is a session of this Frostline version, and that it was copied whole",
        )
    return FrostlineError(
        "session-empty",
        f"{folder} holds no recording",
        "record one with `frostline run -o FOLDER -- COMMAND`; `frostline doctor` says why none was made",
    )


def _inherit_names(series: list[Series]) -> None:
    """A forked child uses its parent's name ids: what its own file does not say, the parent's does."""
    by_number = {s.series: s for s in series}
    for child in series:
        parent_text = child.first_text("parent_series")
        parent = by_number.get(int(parent_text)) if parent_text.isdecimal() else None
        if parent is not None and parent is not child:
            for number, text in parent.names.items():
                child.names.setdefault(number, text)


# --- several sessions -----------------------------------------------------------------
def merge(sessions: list[Session]) -> Session:
    """Joins sessions on the first one's clock, by their anchors.

    Sessions of one boot share CLOCK_MONOTONIC and need no shift. Others are laid over each other
    by wall time: as good as the hosts' clocks agree, which we cannot know, plus the anchors' error.
    """
    first = sessions[0]
    merged = Session(
        path=first.path,
        series=list(first.series),
        runs=list(first.runs),
        processes=list(first.processes),
        ready=first.ready,
        ready_option=first.ready_option,
        losses=first.losses,
        running=any(session.running for session in sessions),
        anchors=list(first.anchors),
        host=list(first.host),
    )
    offset, error = _offset(first)
    known = list(first.runs)
    for index, other in enumerate(sessions[1:], start=1):
        other_offset, other_error = _offset(other)
        by = 0
        if not _same_boot(first, other):
            by = other_offset - offset
            merged.clock_error = max(merged.clock_error, error + other_error, 1)
        twice = _take_twins(merged, other)
        for series in other.series:
            shift(series, by)
            series.session = index
        merged.series += other.series
        merged.others.append(other.path)
        new = [run for run in other.runs if run not in known]
        known += new
        merged.runs += [replace(run, session=index, started=run.started + by) for run in new]
        there = {log.helper for log in merged.host}
        for log in other.host:
            if log.helper not in there:
                log.shift(by, index)
                merged.host.append(log)
        merged.processes += [
            replace(p, session=index, first_seen=p.first_seen + by, last_seen=p.last_seen + by)
            for p in other.processes
            if (p.pid, p.first_seen) not in twice
        ]
        if merged.ready is None:
            merged.ready, merged.ready_option = other.ready, other.ready_option
        merged.losses += other.losses
    return merged


def _take_twins(merged: Session, other: Session) -> set[tuple[int, int]]:
    """Takes out of ``other`` what ``merged`` has too: the same session, or a copy, named twice.

    The fuller of two copies is kept. Returns (pid, first seen) of the processes of both.
    """
    have = {_identity(series): i for i, series in enumerate(merged.series) if series.anchor[1]}
    both = [series for series in other.series if series.anchor[1] and _identity(series) in have]
    if not both:
        return set()
    for series in both:
        i = have[_identity(series)]
        if series.bytes > merged.series[i].bytes:
            series.session = merged.series[i].session
            merged.series[i] = series
    other.series = [series for series in other.series if not any(series is twin for twin in both)]
    message = f"{len(both)} recordings are in {merged.path} too, and are counted once"
    merged.losses += (Loss("recorded-twice", message, str(other.path)),)
    seen = {(p.pid, p.first_seen) for p in merged.processes}
    return seen & {(p.pid, p.first_seen) for p in other.processes}


def _identity(series: Series) -> tuple[object, ...]:
    """The anchor tells hosts and boots apart, where pid and start could be the same by chance."""
    return (series.key, series.anchor)


def _same_boot(one: Session, other: Session) -> bool:
    boots = {run.boot_id for session in (one, other) for run in session.runs if run.boot_id}
    known = all(any(run.boot_id for run in session.runs) for session in (one, other))
    return known and len(boots) == 1


def _offset(session: Session) -> tuple[int, int]:
    """Realtime minus monotonic, from the tightest anchor, and its error; ns."""
    anchors = [series.anchor for series in session.series if series.anchor[1]]
    if not anchors:
        return 0, 0
    monotonic, realtime, error = min(anchors, key=lambda anchor: anchor[2])
    return realtime - monotonic, error
