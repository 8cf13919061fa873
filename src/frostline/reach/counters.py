"""The collector's own two numbers, read from a process's memory: what the next full pass waits for (D4).

CPython keeps them beside its generations, in a structure that it exports no function for. It is found
without offsets into the interpreter, which differ from build to build: behind the generations it has a
pointer to the first of them, that is, to itself. A word that holds the address of the place so many bytes
before it, with three generations of plausible counts there, is it. So the table below, of one line a
layout, is all that is known of a version; one that is not in it is refused.

Nothing is written, and nobody is stopped: ``pread`` of ``/proc/PID/mem`` copies 240 bytes. It needs
the right to trace the process, and says so where that is missing.
"""

import contextlib
import functools
import os
import struct
import time
from typing import NamedTuple

from frostline import format as layout
from frostline.reach import elf, permission

#: Threshold 2 that no count reaches: `idle` and `sync` hold full passes back by it.
_NEVER = 2**31 - 1


class Layout(NamedTuple):
    """Bytes from the first generation to what stands behind them."""

    #: ``generation0``: the pointer to the first generation.
    itself: int
    #: ``collecting``: not 0 inside a pass.
    collecting: int
    #: ``long_lived_total``; ``long_lived_pending`` follows it.
    total: int


#: (first, last) version: where it stands. From the headers of 3.10.13 to 3.15.2; each checked on a process.
LAYOUTS = (
    ((3, 10, 0), (3, 13, 255), Layout(72, 176, 200)),
    ((3, 14, 5), (3, 14, 255), Layout(232, 168, 216)),
    ((3, 15, 0), (3, 15, 255), Layout(160, 104, 144)),
)
#: A generation: two pointers, its threshold, its count.
_GENERATION = struct.Struct("<QQii")
_TWO = struct.Struct("<qq")
#: Bytes of an interpreter's state in which the collector's is looked for, where that is no part of the
#: runtime's (3.10), and of the runtime's in which the pointer to it is.
_INTERPRETER = 16 << 10
_POINTERS = 4 << 10
_LARGEST = 8 << 20
#: No heap has so many objects.
_TOO_MANY = 1 << 40


class Counters(NamedTuple):
    """One reading. Times are CLOCK_MONOTONIC, ns."""

    before: int
    after: int
    counts: tuple[int, int, int]
    thresholds: tuple[int, int, int]
    total: int
    pending: int

    @property
    def state(self) -> tuple[int, int, int]:
        """What a new reading is worth keeping for."""
        return self.counts[2], self.total, self.pending


class Refused(Exception):
    """Why a process's numbers cannot be read."""


class Memory:
    """The collector's state in one program of one process. Read from one thread."""

    def __init__(self, descriptor: int, address: int, where: Layout) -> None:
        self._descriptor = descriptor
        self._address = address
        self._where = where
        self._size = max(where.itself + 8, where.total + 16)

    def read(self) -> "Counters | None":
        """A reading that was the same twice; None inside a pass, or where it changed meanwhile.

        Raises:
            Refused: the program has ended, or has been replaced.
        """
        before = time.monotonic_ns()
        first = self._one()
        second = self._one()
        after = time.monotonic_ns()
        if first is None or second is None or first[0] != second[0] or first[3:] != second[3:]:
            return None
        counts, thresholds = (second[0], second[1], second[2]), second[3]
        return Counters(before, after, (counts[1], counts[2], counts[0]), thresholds, second[4], second[5])

    def _one(self) -> "tuple[int, int, int, tuple[int, int, int], int, int] | None":
        """(count 2, count 0, count 1, thresholds, total, pending)."""
        try:
            data = os.pread(self._descriptor, self._size, self._address)
        except OSError as error:
            raise Refused(error.strerror or "it cannot be read") from error
        if len(data) < self._size:
            raise Refused("the program has ended")
        if not _is_it(data, 0, self._address, self._where):
            raise Refused("it is not there any more")
        if int.from_bytes(data[self._where.collecting : self._where.collecting + 4], "little"):
            return None
        young, middle, old = (_GENERATION.unpack_from(data, 24 * i) for i in range(3))
        total, pending = _TWO.unpack_from(data, self._where.total)
        return old[3], young[3], middle[3], (young[2], middle[2], old[2]), total, pending

    def close(self) -> None:
        """Lets go of the process."""
        os.close(self._descriptor)


def layout_of(hexversion: int, build: int) -> "Layout | None":
    """Where a version keeps them; None if it is not known, or another collector (``cpython-gc``)."""
    version = (hexversion >> 24, hexversion >> 16 & 255, hexversion >> 8 & 255)
    if build & layout.BUILD_FREE_THREADED:
        return None
    return next((where for first, last, where in LAYOUTS if first <= version <= last), None)


def find(pid: int, hexversion: int, build: int) -> Memory:
    """The collector's state of a process's main interpreter. Takes some milliseconds, once a program.

    Raises:
        Refused: with the reason.
    """
    where = layout_of(hexversion, build)
    if where is None:
        raise Refused("this version keeps no such numbers, or it is not known where")
    try:
        descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(_why(pid, error)) from error
    try:
        address = _search(pid, descriptor, where)
        if address:
            return Memory(descriptor, address, where)
    except OSError as error:
        os.close(descriptor)
        raise Refused(_why(pid, error)) from error
    os.close(descriptor)
    raise Refused("the collector's state was not found in it")


def in_words(pid: int, hexversion: int, build: int) -> str:
    """What a process's next full pass waits for, as it is now; empty where that cannot be read.

    Two numbers and no forecast: how fast they change takes more than one look.
    """
    try:
        memory = find(pid, hexversion, build)
    except Refused:
        return ""
    try:
        found = memory.read() or memory.read()
    except Refused:
        return ""
    finally:
        memory.close()
    if found is None:
        return "a pass is running"
    if found.thresholds[2] >= _NEVER:
        return "none comes by itself: threshold 2 is as high as it goes"
    if not found.total:
        return f"{found.pending:,} survivors, no full pass yet"
    return (
        f"{found.pending:,} of {found.total // 4:,} survivors, "
        f"count 2 at {found.counts[2]} of {found.thresholds[2] + 1}"
    )


def _why(pid: int, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"{error.strerror}. {permission.why_refused(pid)}"
    return error.strerror or "it cannot be read"


def _search(pid: int, descriptor: int, where: Layout) -> int:
    for image in elf.images(pid):
        # Of the many files that a server maps, the program itself or its libpython.
        if "python" not in image.name.rpartition("/")[2] and image.path != f"/proc/{pid}/exe":
            continue
        place, size = _runtime(image.path, image.name, _age(image.path))
        if place:
            return _search_runtime(descriptor, place + image.bias, min(size, _LARGEST), where)
    return 0


def _age(path: str) -> int:
    try:
        about = os.stat(path)
    except OSError:
        return 0
    return about.st_mtime_ns ^ about.st_ino


@functools.lru_cache(maxsize=64)
def _runtime(path: str, name: str, age: int) -> tuple[int, int]:
    """(place in the file's own addresses, bytes) of the interpreter's runtime; (0, 0) if it has none.

    ``name`` and ``age`` tell two files apart that are opened by one path.
    """
    with contextlib.suppress(OSError, ValueError, struct.error):
        return elf.sized_symbol(path, "_PyRuntime")
    return 0, 0


def _search_runtime(descriptor: int, start: int, size: int, where: Layout) -> int:
    data = os.pread(descriptor, size, start)
    if found := _match(data, start, where):
        return found
    # 3.10: the interpreter's state is a block of its own, and the runtime's holds pointers to it.
    for pointer in sorted(set(_words(data[:_POINTERS]))):
        if pointer % 8 or not 1 << 16 <= pointer < 1 << 47:
            continue
        try:
            block = os.pread(descriptor, _INTERPRETER, pointer)
        except OSError:
            continue  # no address
        if found := _match(block, pointer, where):
            return found
    return 0


def _words(data: bytes) -> "memoryview[int]":
    return memoryview(data[: len(data) // 8 * 8]).cast("Q")


def _match(data: bytes, start: int, where: Layout) -> int:
    """The address of the first generation in a block of memory, 0 if it is not there."""
    steps = where.itself // 8
    for i, word in enumerate(_words(data)[steps:]):
        if word == start + 8 * i and _is_it(data, 8 * i, word, where):
            return word
    return 0


def _is_it(data: bytes, at: int, address: int, where: Layout) -> bool:
    if len(data) < at + max(where.itself + 8, where.total + 16):
        return False
    if int.from_bytes(data[at + where.itself : at + where.itself + 8], "little") != address:
        return False
    for i in range(3):
        following, before, threshold, count = _GENERATION.unpack_from(data, at + 24 * i)
        if not following or not before or threshold < 0 or count < 0:
            return False
    total: int
    pending: int
    total, pending = _TWO.unpack_from(data, at + where.total)
    return 0 <= total < _TOO_MANY and 0 <= pending < _TOO_MANY
