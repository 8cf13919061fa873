"""One series of segment files: opened, filled and grown without a lock.

How records survive everything that happens inside a host:

* A slot is reserved by one call into C (``next`` on a range iterator), so neither another
  thread nor a pass that lands inside a write can take it.
* Each record is packed by one call whose last field is the commit word, slot + 1. A reader
  trusts nothing else. (``pack_into`` zeroes the record first; a fresh slot is zero already.)
* Space is reserved with ``posix_fallocate`` before it is mapped. A mapping over a sparse file
  raises SIGBUS on a full disk, and that is the host's death.
* Two threads that find a region full both open the next segment; the later one wins, the
  other's file stays, part filled, and nothing is lost. That is cheaper than any lock.
"""

import _struct
import mmap
import os
import sys
import time

from frostline import format as layout
from frostline import probe

_NOFOLLOW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WIPEONFORK = 18
#: Populated at once: the pages are reserved anyway, and a fault each 32 passes would be in the callback.
_SHARED = mmap.MAP_SHARED | mmap.MAP_POPULATE

pack_mark = _struct.Struct(layout.MARK + "Q").pack_into
pack_name = _struct.Struct(layout.NAME + "Q").pack_into
_pack_header = _struct.Struct(layout.HEADER).pack_into
_pack_region = _struct.Struct(layout.REGION).pack_into

_WORD = layout.WORD


class Region:
    """Where the next records of one kind go. Replaced as a whole when it is full."""

    __slots__ = ("base", "buffer", "capacity", "end", "kind", "mapping", "slots")

    def __init__(self, kind: int, mapping: "Mapping", base: int, capacity: int, record: int) -> None:
        self.kind = kind
        self.mapping = mapping
        self.buffer = mapping.mapping
        self.base = base
        self.capacity = capacity
        self.end = base + capacity * record
        self.slots = iter(range(capacity))


class Mapping:
    """A segment file in memory. Below 3.13 it is closed only where that closes our own descriptor.

    ``mmap`` keeps a duplicate of the descriptor. A host that calls ``os.closerange`` frees that
    number, its next file takes it, and our close would close the host's file.
    """

    __slots__ = ("_identity", "_number", "mapping", "path", "size", "words")

    def __init__(self, path: str, size: int) -> None:
        descriptor = os.open(path, _NOFOLLOW, 0o600)
        try:
            try:
                os.posix_fallocate(descriptor, 0, size)
                number = -1
                if probe.HAS_TRACKFD:
                    self.mapping = mmap.mmap(descriptor, size, flags=_SHARED, trackfd=False)  # type: ignore[call-arg,unused-ignore]
                else:
                    number = os.dup(descriptor)
                    os.close(number)  # the lowest free number: the one that mmap's own dup takes next
                    self.mapping = mmap.mmap(descriptor, size, flags=_SHARED)
            except BaseException:
                os.unlink(path)
                raise
            about = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        self.path = path
        self.size = size
        self.words = memoryview(self.mapping).cast("Q")  # holds the mapping open as long as we do
        self._identity = (about.st_dev, about.st_ino)
        self._number = number if number >= 0 and self._is_ours(number) else -1

    def _is_ours(self, number: int) -> bool:
        try:
            about = os.fstat(number)
        except OSError:
            return False
        return (about.st_dev, about.st_ino) == self._identity

    def may_close(self) -> bool:
        """Whether dropping the mapping closes nothing of the host's."""
        return probe.HAS_TRACKFD or (self._number >= 0 and self._is_ours(self._number))


#: Mappings that must never be dropped, see Mapping. A list of ours, bounded by the segments made.
_kept: "list[Mapping]" = []


#: Linux's numbers: a failure inside a callback must not import ``errno``.
_NO_SPACE = (28, 122, 12, 27)  # ENOSPC, EDQUOT, ENOMEM, EFBIG
_NO_FOLDER = (2, 20, 116)  # ENOENT, ENOTDIR, ESTALE
_NO_PERMISSION = (13, 1, 30)  # EACCES, EPERM, EROFS


def reason_of(error: OSError) -> int:
    """The OFF_* code for a failure to open a segment."""
    if error.errno in _NO_SPACE:
        return layout.OFF_SPACE
    if error.errno in _NO_FOLDER:
        return layout.OFF_FOLDER
    if error.errno in _NO_PERMISSION:
        return layout.OFF_PERMISSION
    return layout.OFF_ERROR


class Series:
    """The files of one interpreter of one process, from its opening to its end."""

    def __init__(self, session: str, policy: str, interpreter: int, parent: "Series | None") -> None:
        self.session = session
        self.policy = policy
        self.pid = os.getpid()
        self.series = time.monotonic_ns()
        self.interpreter = interpreter
        self._segments = iter(range(1, 1 << 30))
        self._grown: dict[int, int] = {}
        self._bytes = layout.FIRST_SEGMENT_SIZE
        self._span_files: list[tuple[str, int]] = []
        # A forked child makes no folder: where the user has removed the session, or changed the root,
        # it would come back.
        self.folders: tuple[str, str] = (
            parent.folders if parent is not None else (active_folder(session), session)
        )
        first = self._create(0, layout.FIRST_SEGMENT_SIZE)
        self.first = first
        self.words = first.words
        self.regions: dict[int, Region] = {}
        offset = layout.HEADER_SIZE
        table = []
        for kind, record, capacity in layout.FIRST_REGIONS:
            self.regions[kind] = Region(kind, first, offset, capacity, record)
            table.append((kind, record, offset, capacity))
            offset += capacity * record
        self._write_header(first, 0, table, self._text(parent.series if parent is not None else 0))

    # --- files ---------------------------------------------------------------------
    def _create(self, segment: int, size: int) -> Mapping:
        """A new segment on tmpfs, else in the session folder."""
        name = layout.segment_name(self.pid, self.series, self.interpreter, segment)
        failure: OSError | None = None
        for folder in self.folders:
            try:
                return Mapping(folder + "/" + name, size)
            except OSError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def grow(self, full: Region) -> Region:
        """The region after a full one. Raises OSError where there is no room for it."""
        kind = full.kind
        current = self.regions[kind]
        if current is not full:
            return current
        record = {k: size for k, size, _ in layout.RECORDS}[kind]
        grown = self._grown.get(kind, 0)
        size = layout.GROWN_SEGMENT_SIZES[min(grown, len(layout.GROWN_SEGMENT_SIZES) - 1)]
        # The helper raises the word by what it has moved out of our way.
        limit = self.words[_WORD["retention"]]
        if limit and self._bytes + size > limit and not self._make_room(size):
            raise OSError(28, "the retention limit of this process is reached")
        segment = next(self._segments)
        mapping = self._create(segment, size)
        capacity = (size - layout.HEADER_SIZE) // record
        self._write_header(mapping, segment, [(kind, record, layout.HEADER_SIZE, capacity)], b"")
        region = Region(kind, mapping, layout.HEADER_SIZE, capacity, record)
        self._grown[kind] = grown + 1
        self._bytes += size
        if kind == layout.REGION_SPANS:
            self._span_files.append((mapping.path, size))
        self.regions[kind] = region
        if full.mapping is not self.first and not full.mapping.may_close():
            _kept.append(full.mapping)
        return region

    def _make_room(self, size: int) -> bool:
        """Removes our oldest span segments. The helper does better; this is for when it is gone."""
        freed = 0
        while freed < size and len(self._span_files) > 1:
            path, old = self._span_files.pop(0)
            try:
                os.unlink(path)
            except OSError:
                pass  # moved to the session folder already: it no longer fills the tmpfs
            else:
                self.words[_WORD["dropped_spans"]] += (old - layout.HEADER_SIZE) // layout.SPAN_SIZE
            freed += old
        self._bytes -= freed
        return freed >= size

    def _write_header(
        self, mapping: Mapping, segment: int, table: "list[tuple[int, int, int, int]]", text: bytes
    ) -> None:
        before = time.monotonic_ns()
        realtime = time.time_ns()
        after = time.monotonic_ns()
        for number, entry in enumerate(table):
            _pack_region(mapping.mapping, layout.REGION_TABLE + 24 * number, *entry)
        mapping.mapping[layout.TEXT : layout.TEXT + len(text)] = text
        _pack_header(
            mapping.mapping,
            0,
            b"\0" * 8,
            layout.VERSION,
            layout.HEADER_SIZE,
            self.pid,
            os.getppid(),
            self.series,
            segment,
            self.interpreter,
            _pid_namespace(),
            _process_start(),
            (before + after) // 2,
            realtime,
            (after - before) // 2,
            sys.hexversion,
            probe.build_flags(),
            len(table),
            len(text),
        )
        # Last, as one store: a header without its magic is one that was never finished.
        mapping.words[0] = int.from_bytes(layout.MAGIC, "little")

    def _text(self, parent_series: int) -> bytes:
        from frostline import __version__

        lines = [
            ("python", sys.version),
            ("executable", sys.executable or ""),
            ("policy", self.policy),
            ("frostline", __version__),
            ("session", self.session),
        ]
        if parent_series:
            lines.append(("parent_series", str(parent_series)))
        lines += [("argv", argument) for argument in layout.redact(list(sys.orig_argv))]
        out = b""
        for key, value in lines:
            escaped = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
            line = (key + "\t" + escaped + "\n").encode("utf-8", "replace")
            if len(out) + len(line) > layout.TEXT_SIZE - 16:
                out += b"truncated\t1\n"
                break
            out += line
        return out

    def note_failure(self, error: OSError) -> None:
        """Leaves why a segment could not be opened where a reader finds it; recording goes on."""
        self.words[_WORD["off_errno"]] = error.errno or 0
        self.words[_WORD["off_reason"]] = reason_of(error)

    def count(self, word: str, by: int = 1) -> None:
        """Adds to one of the live words."""
        words, place = self.words, _WORD[word]
        words[place] = (words[place] + by) & (2**64 - 1)  # a stranger may have written any number there


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _process_start() -> int:
    try:
        descriptor = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(descriptor, 1024)
        finally:
            os.close(descriptor)
        return int(text.rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def active_folder(session: str) -> str:
    """The folder of active segments: where the session's link points, made if need be.

    ``frostline run`` has made both; with the environment alone the first process does.
    """
    link = session + "/" + layout.ACTIVE_LINK
    try:
        target = os.readlink(link)
    except OSError:
        try:
            os.makedirs(session, 0o700, exist_ok=True)
            shared = f"/dev/shm/frostline-{os.getuid()}-{os.getpid():x}{time.monotonic_ns():x}"
            os.mkdir(shared, 0o700)
        except OSError:
            return session
        try:
            os.symlink(shared, link)
        except OSError:
            os.rmdir(shared)
            try:
                return os.readlink(link)  # another process was first
            except OSError:
                return session
        return shared
    if not os.path.isdir(target):
        try:
            os.mkdir(target, 0o700)  # /dev/shm was cleared: a container restarted
        except OSError:
            return session
    return target


def wiped_on_fork() -> "mmap.mmap | bytearray":
    """Bytes that read 0 in any forked child, a raw fork in C included.

    Ordinary bytes where the kernel has no MADV_WIPEONFORK: then only forks with hooks are noticed.
    """
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_WIPEONFORK)
    except (OSError, ValueError):
        return bytearray(8)
    return page
