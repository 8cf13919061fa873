"""A session for each doubt that an analysis can have, by its name."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.requests import with_requests
from frostline.recording import merge, read_session
from frostline.recording.requests import CLOSED, UNIX, Requests
from tests.analysis.test_requests import OPENED
from tests.requests import S, run_of
from tests.synthetic import MS, Process, write_helper, write_run

#: Its process in every session: the name that the report gives it.
NAME = "EngineCore dp0 (pid 4711)"
Build = Callable[[Path], Analysis]


def serving(pid: int = 4711, opened: int = 0, **more: Any) -> Process:
    """Steps, a slow one, and passes of all generations."""
    process = Process(pid=pid, opened=opened, **more)
    process.add_identity("EngineCore", 0)
    for i in range(100):
        process.add_span("step", i * 10 * MS, 5 * MS)
    process.add_span("step", 2_000 * MS, 90 * MS)
    for i in range(20):
        process.add_pass(i * 20 * MS, MS // 10, generation=i % 2)
    process.add_pass(2_001 * MS, 80 * MS)
    return process


def one(process: Process, folder: Path, **run: Any) -> Analysis:
    process.write(folder)
    write_run(folder, ["serve"], **run)
    return analyse(read_session(folder))


def _dead(folder: Path) -> Analysis:
    process = serving()
    process.add_mark(fmt.MARK_FORKED, 0, a=1)
    process.add_mark(fmt.MARK_DEAD_COLLECTOR, 0)
    return one(process, folder)


def _froze_nothing(folder: Path) -> Analysis:
    process = serving(text=[("policy", "freeze")])
    process.add_mark(fmt.MARK_BOUNDARY, 1_100 * MS)
    process.add_pass(1_100 * MS, 50 * MS)
    process.add_mark(fmt.MARK_FREEZE, 1_160 * MS, flags=fmt.MARK_FLAG_OURS, a=0)
    return one(process, folder)


def _frozen_garbage(folder: Path) -> Analysis:
    process = serving()
    flags = fmt.MARK_FLAG_SPLICE | fmt.MARK_FLAG_LATE | fmt.MARK_FLAG_OURS
    process.add_mark(fmt.MARK_FREEZE, 1_100 * MS, a=660_000, flags=flags)
    return one(process, folder)


def _no_boundary(folder: Path) -> Analysis:
    return one(serving(text=[("policy", "freeze")]), folder, policy="freeze")


def _missed(folder: Path) -> Analysis:
    write_helper(folder, [{"pid": 8, "python": True, "argv": ["python", "-S", "w.py"], "missed": "no-site"}])
    return one(serving(), folder)


def _attached(folder: Path) -> Analysis:
    process = serving()
    process.add_mark(fmt.MARK_ATTACH, 0, a=60 * S, b=100_001)
    return one(process, folder)


def _looked_at(folder: Path) -> Analysis:
    process = serving()
    process.add_mark(fmt.MARK_LOOK, 3_000 * MS, 400 * MS, a=0, flags=fmt.MARK_FLAG_OURS)
    return one(process, folder)


def _passes_lost(folder: Path) -> Analysis:
    process = serving()
    process.add_state(0, (3, 0, 0))
    process.add_state(5_000 * MS, (50, 10, 1), closing=True)
    return one(process, folder)


def _spans_lost(folder: Path) -> Analysis:
    return one(serving(words={"lost_spans": 7}), folder)


def _records_damaged(folder: Path) -> Analysis:
    process = serving()
    (first, *_) = process.write(folder)
    data = bytearray(first.read_bytes())
    at = fmt.HEADER_SIZE
    for kind, size, capacity in fmt.FIRST_REGIONS:
        if kind == fmt.REGION_PASSES:
            struct.pack_into("<Q", data, at + 3 * size - 8, 999)  # the commit word of the third
        at += size * capacity
    first.write_bytes(data)
    return analyse(read_session(folder))


def _segment_missing(folder: Path) -> Analysis:
    process = serving()
    for i in range(4_000):
        process.add_pass(3_000 * MS + i * MS, MS // 10, 0)
    process.write(folder, 1_500)[-1].unlink()
    return analyse(read_session(folder))


def _files_damaged(folder: Path) -> Analysis:
    process = serving()
    for i in range(4_000):
        process.add_pass(3_000 * MS + i * MS, MS // 10, 0)
    last = process.write(folder, 1_500)[-1]
    last.write_bytes(last.read_bytes()[: fmt.HEADER_SIZE + 100 * fmt.PASS_SIZE])
    return analyse(read_session(folder))


def _other_callbacks(folder: Path) -> Analysis:
    process = serving()
    process.add_mark(fmt.MARK_OTHER_CALLBACK, 0, a=process.name("apm.on_gc"))
    process.add_pass(2_500 * MS, 250 * MS, 2, begin=2_700 * MS, end=2_950 * MS, others=1)
    return one(process, folder)


def _slow_walk(folder: Path) -> Analysis:
    """Two full passes: one at the usual speed, and one that took fifty times as long for as much."""
    process = serving()
    process.passes.clear()
    process.add_state(0, (3, 0, 0))
    for i in range(600):
        process.add_pass(i * MS // 10, MS // 20, 0, count0=1000)
    process.add_pass(1_000 * MS, 60 * MS)
    process.add_pass(3_000 * MS, 3_000 * MS)
    return one(process, folder)


def _free_threaded(folder: Path) -> Analysis:
    return one(serving(build=fmt.BUILD_FREE_THREADED), folder)


def _incremental(folder: Path) -> Analysis:
    return one(serving(hexversion=0x030E00F0), folder)


def _span_refused(folder: Path) -> Analysis:
    process = serving()
    process.add_mark(fmt.MARK_REFUSED, 0, a=process.name("app:fast"), b=process.name("a cdef class"))
    return one(process, folder, spans="app:fast")


def _span_unused(folder: Path) -> Analysis:
    return one(serving(), folder, spans="app:missing=m")


def _running(folder: Path) -> Analysis:
    """The process that runs the test is the one that is recorded, and lives."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    pid = int(Path("/proc/self").readlink().name)
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    return one(serving(pid=pid, process_start=int(fields[19]), pid_namespace=namespace), folder)


def _clocks(folder: Path) -> Analysis:
    sessions = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        serving().write(folder / name)
        write_run(folder / name, ["serve"], boot_id=name)
        sessions.append(read_session(folder / name))
    return analyse(merge(sessions))


def _client(requests: Callable[[], Requests]) -> Build:
    def build(folder: Path) -> Analysis:
        process = serving(opened=OPENED)
        process.add_state(30 * S, (0, 0, 0), closing=True)
        return with_requests(one(process, folder), [requests()])

    return build


def _at(count: int, start: int = OPENED + S) -> list[int]:
    return [start + i * 100 * MS for i in range(count)]


def _by_the_wall(folder: Path) -> Analysis:
    """The recording's anchor is good to 20 ms, and so is what is laid over by it."""
    process = serving(opened=OPENED)
    process.add_state(30 * S, (0, 0, 0), closing=True)
    (first, *_) = process.write(folder)
    data = bytearray(first.read_bytes())
    fields = [name for name, _, _ in fmt.HEADER_FIELDS]
    codes = [code for _, code, _ in fmt.HEADER_FIELDS]
    at = struct.calcsize("<" + "".join(codes[: fields.index("anchor_error")]))
    struct.pack_into("<" + codes[fields.index("anchor_error")], data, at, 20 * MS)
    first.write_bytes(data)
    analysis = analyse(read_session(folder))
    (monotonic, realtime, _) = analysis.anchors[0]
    moved = [at - monotonic + realtime for at in _at(50)]
    return with_requests(analysis, [run_of(moved, [10 * MS] * 50, clock=UNIX)])


BUILDS: dict[str, Build] = {
    "dead-collector": _dead,
    "froze-nothing": _froze_nothing,
    "frozen-garbage": _frozen_garbage,
    "no-boundary": _no_boundary,
    "processes-missed": _missed,
    "attached-late": _attached,
    "looked-at": _looked_at,
    "passes-lost": _passes_lost,
    "spans-lost": _spans_lost,
    "records-damaged": _records_damaged,
    "segment-missing": _segment_missing,
    "files-damaged": _files_damaged,
    "other-callbacks": _other_callbacks,
    "slow-walk": _slow_walk,
    "free-threaded": _free_threaded,
    "incremental": _incremental,
    "span-refused": _span_refused,
    "span-unused": _span_unused,
    "still-running": _running,
    "clocks": _clocks,
    "requests-late": _client(lambda: run_of(_at(50), [30 * MS] * 50, late=20 * MS)),
    "requests-own": _client(lambda: run_of(_at(50), [30 * MS] * 50, own=3)),
    "requests-closed-loop": _client(lambda: run_of(_at(50), [10 * MS] * 50, loop=CLOSED)),
    "requests-outside": _client(lambda: run_of([*_at(50), OPENED + 60 * S], [10 * MS] * 51)),
    "requests-unread": _client(lambda: run_of(_at(50), [10 * MS] * 50, unread=3)),
    "requests-clock": _by_the_wall,
}
