"""Seal what dead processes left on tmpfs: move it to the session folder, so that it survives a reboot.

The helper of ``frostline run`` does this while it lives; this is for when there is none.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from frostline import format as fmt
from frostline.recording.loss import Loss, Losses
from frostline.recording.process import is_dead
from frostline.recording.segment import open_file, read_segment
from frostline.recording.session import active_folder, find_files

_COPY = 4096 * 4
_FALLOC_PUNCH = 0x03  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


@dataclass(frozen=True)
class Sealed:
    """What :func:`seal` did."""

    moved: int
    left: int
    losses: tuple[Loss, ...]


def seal(session: Path | str) -> Sealed:
    """Moves the segments of dead processes from the live folder to the session folder.

    Each is copied, flushed to disk, renamed into place, and only then is the original removed. A
    process whose end is not certain is left alone. Nothing is moved out of a folder that is not
    ours alone.
    """
    folder = Path(session)
    losses = Losses()
    active = active_folder(folder)
    if active is None or not _is_ours(active):
        return Sealed(0, 0, ())
    with _alone(folder) as ours:
        return _seal(folder, active, losses) if ours else Sealed(0, 0, ())


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """One sealer at a time, the helper included: a lock on the folder itself. False if it is taken.

    Two at once would lose data: the one frees the original's pages while the other copies them.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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


def _seal(folder: Path, active: Path, losses: Losses) -> Sealed:
    files = find_files(folder, losses)
    moved = left = 0
    for paths in files.by_series.values():
        here = [path for path in paths if path.parent == active]
        if not here:
            continue
        if not all(_dead_writer(path) for path in here[:1]):
            left += len(here)
            continue
        for path in here:
            try:
                _move(path, folder / path.name)
                moved += 1
            except FileExistsError:
                left += 1  # another sealer is at it
            except FileNotFoundError:
                continue  # another sealer was first
            except OSError as error:
                losses.add("seal-failed", f"cannot move this segment: {error.strerror}", path)
                left += 1
    _remove_originals(folder, active)
    return Sealed(moved, left, losses.all())


def _is_ours(active: Path) -> bool:
    try:
        status = active.stat()
    except OSError:
        return False
    mine = status.st_uid == os.getuid() and not status.st_mode & 0o077
    return mine and active.name.startswith(f"frostline-{os.getuid()}-")


def _dead_writer(path: Path) -> bool:
    try:
        segment = read_segment(path, Losses())
    except FileNotFoundError:
        return False
    if segment is None:
        return False
    header = segment.header
    return is_dead(header["pid"], header["process_start"], header["pid_namespace"])


def _move(source: Path, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.sealing")
    descriptor = open_file(source)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        out = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(out, "wb") as file:
                while piece := os.read(descriptor, _COPY):
                    # Most of a last segment is empty, and stays a hole in the copy.
                    if piece.count(0) == len(piece):
                        file.seek(len(piece), os.SEEK_CUR)
                    else:
                        file.write(piece)
                file.truncate(os.fstat(descriptor).st_size)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    _discard(source, size)


def _discard(source: Path, size: int) -> None:
    """Frees the pages even where somebody still maps the file, then removes it."""
    with contextlib.suppress(OSError):
        writable = os.open(source, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.fallocate(writable, _FALLOC_PUNCH, ctypes.c_long(0), ctypes.c_long(size))
        finally:
            os.close(writable)
    with contextlib.suppress(FileNotFoundError):
        source.unlink()


def _remove_originals(folder: Path, active: Path) -> None:
    """Removes what a sealer that died between its last two steps left, and an empty live folder."""
    for path in sorted(active.glob("*" + fmt.SUFFIX)):
        if (folder / path.name).exists() and _dead_writer(path):
            with contextlib.suppress(OSError):
                path.unlink()
    if not any(active.iterdir()) and not _helper_at_work(folder):
        # A process that starts just now makes the folder and the link again.
        with contextlib.suppress(OSError):
            active.rmdir()
            (folder / fmt.ACTIVE_LINK).unlink()


def _helper_at_work(folder: Path) -> bool:
    """Whether a helper still serves the session: then the live folder is its to remove."""
    for path in folder.glob("helper-*.json"):
        try:
            pid = int(path.name.split("-")[1])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (ValueError, IndexError, OSError):
            continue
        if b"frostline" in command:
            return True
    return False
