"""A session that is counted while it grows (D13): looked at ever so often, the counts are the whole's."""

from __future__ import annotations

import subprocess
import tempfile
from bisect import bisect_left
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.recording.layout import Int64
from frostline.recording.tail import (
    BOUNDS,
    COLLECTED,
    EXPLICIT,
    FROSTLINE,
    OTHER,
    PAUSED,
    UNCOLLECTABLE,
    Tail,
    nothing,
)
from tests.synthetic import MS, Process

PER_SEGMENT = 8
#: In the first segment.
(ROOM,) = (capacity for kind, _, capacity in fmt.FIRST_REGIONS if kind == fmt.REGION_PASSES)

passes = st.tuples(
    st.integers(0, 2),
    st.integers(0, 7_000 * MS) | st.sampled_from(BOUNDS),
    st.sampled_from((0, fmt.PASS_EXPLICIT, fmt.PASS_FROSTLINE, fmt.PASS_EXPLICIT | fmt.PASS_FROSTLINE)),
    st.integers(0, 1_000_000),
    st.integers(0, 100),
    st.integers(0, 5 * MS),
)


def folders(place: Path) -> tuple[Path, Path]:
    """A session, and its folder of live segments."""
    session, active = place / "s", place / "live"
    session.mkdir()
    active.mkdir()
    (session / fmt.ACTIVE_LINK).symlink_to(active)
    return session, active


def add(process: Process, at: int, one: tuple[int, int, int, int, int, int]) -> None:
    generation, took, flags, collected, uncollectable, others = one
    full = fmt.PASS_FULL if generation == 2 else 0
    told = {"uncollectable": uncollectable} if generation == 2 else {}
    # Another tool's callback holds the process for a while longer.
    end = {"end": at + took + others} if others else {}
    process.add_pass(at, took, generation, flags=flags | full, collected=collected, **told, **end)


def expected(every: list[tuple[int, int, int, int, int, int]]) -> Int64:
    """By hand, one after the other."""
    counts = nothing()
    for generation, took, flags, collected, uncollectable, others in every:
        cause = FROSTLINE if flags & fmt.PASS_FROSTLINE else EXPLICIT if flags else OTHER
        counts[generation, cause, bisect_left(BOUNDS, took + others)] += 1
        counts[generation, cause, PAUSED] += took + others
        counts[generation, cause, COLLECTED] += collected
        counts[generation, cause, UNCOLLECTABLE] += uncollectable if generation == 2 else 0
    return counts


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(passes, max_size=30), st.booleans()), min_size=1, max_size=6))
def test_what_is_counted_is_what_was_written_wherever_it_has_been_moved_to(
    stages: list[tuple[list[tuple[int, int, int, int, int, int]], bool]],
) -> None:
    """Stages: what is written, and whether finished segments are then moved to the session's folder."""
    with tempfile.TemporaryDirectory() as place:
        session, active = folders(Path(place))
        process, tail = Process(opened=10**12), Tail(session)
        every: list[tuple[int, int, int, int, int, int]] = []
        for _ in range(ROOM - 3):  # so that few more fill the first segment
            every.append((0, MS, 0, 0, 0, 0))
            add(process, len(every) * 10_000 * MS, every[-1])
        before = nothing()
        for new, moves in stages:
            for one in new:
                every.append(one)
                add(process, len(every) * 10_000 * MS, one)
            written = _write(process, active, session)
            for path in written[:-1] if moves else ():
                path.replace(session / path.name)
            (found,) = tail.look()
            assert np.array_equal(found.counts, expected(every))
            assert bool((found.counts >= before).all())
            before = found.counts.copy()
            (again,) = tail.look()
            assert np.array_equal(again.counts, before)


def _write(process: Process, active: Path, session: Path) -> list[Path]:
    """As the recorder leaves it: a segment that was moved is not there again."""
    written = process.write(active, PER_SEGMENT)
    for path in written:
        if (session / path.name).exists():
            path.unlink()
    return [path for path in written if path.exists()]


def test_a_finished_segment_is_read_once(tmp_path: Path) -> None:
    """What a look costs does not grow with the recording: of what is counted only the names are kept."""
    session, active = folders(tmp_path)
    process, tail = Process(opened=10**12), Tail(session)
    for i in range(ROOM + 20 * PER_SEGMENT):
        process.add_pass(i * MS, MS // 2, 0, flags=0)
    *full, last = process.write(active, PER_SEGMENT)
    (found,) = tail.look()
    assert len(full) == 20 and found.finished == {path.name for path in (*full, last)}
    for path in full[1:]:
        path.write_bytes(b"nobody reads this again")
    process.add_pass(10_000 * MS, MS // 2, 2)
    assert len(process.write(tmp_path, PER_SEGMENT)) == 22
    newest = max(tmp_path.glob(f"*{fmt.SUFFIX}"))
    newest.replace(active / newest.name)
    (found,) = tail.look()
    assert int(found.counts[0, OTHER, : len(BOUNDS) + 1].sum()) == ROOM + 20 * PER_SEGMENT
    assert int(found.counts[2, OTHER, : len(BOUNDS) + 1].sum()) == 1


def test_a_record_that_is_half_written_counts_when_it_is_whole(tmp_path: Path) -> None:
    session, active = folders(tmp_path)
    process, tail = Process(opened=10**12), Tail(session)
    for i in range(3):
        process.add_pass(i * MS, MS // 2, 2)
    (path,) = process.write(active)
    whole = path.read_bytes()
    (table,) = [offset for kind, _, offset in _regions() if kind == fmt.REGION_PASSES]
    commit = table + fmt.PASS_SIZE * 2 - 8
    path.write_bytes(whole[:commit] + bytes(8) + whole[commit + 8 :])  # a hole before a record that is there
    (found,) = tail.look()
    assert int(found.counts[2, OTHER, : len(BOUNDS) + 1].sum()) == 2
    path.write_bytes(whole)
    (found,) = tail.look()
    assert int(found.counts[2, OTHER, : len(BOUNDS) + 1].sum()) == 3


def _regions() -> list[tuple[int, int, int]]:
    found, offset = [], fmt.HEADER_SIZE
    for kind, size, capacity in fmt.FIRST_REGIONS:
        found.append((kind, size, offset))
        offset += size * capacity
    return found


def test_damage_takes_nothing_back(tmp_path: Path) -> None:
    session, active = folders(tmp_path)
    one, other = Process(pid=11, opened=10**12), Process(pid=12, opened=10**12 + 1)
    for process in (one, other):
        process.add_pass(0, MS, 2, collected=5)
    (path,) = one.write(active)
    other.write(active)
    tail = Tail(session)
    before = [found.counts.copy() for found in tail.look()]
    path.write_bytes(b"")
    after = tail.look()
    assert [found.key[0] for found in after] == [11, 12]
    assert all(np.array_equal(a, b.counts) for a, b in zip(before, after, strict=True))


def test_what_has_ended_is_not_read_again(tmp_path: Path) -> None:
    """A folder that a thousand restarts have written into costs a look no more than its listing."""
    with subprocess.Popen(["true"]) as ended:
        pass
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    process = Process(pid=ended.pid, opened=10**12, pid_namespace=namespace)
    process.add_pass(0, MS, 2)
    (path,) = process.write(tmp_path)
    tail = Tail(tmp_path)
    (found,) = tail.look()
    assert found.dead and int(found.counts[2, OTHER, : len(BOUNDS) + 1].sum()) == 1
    path.write_bytes(b"nobody reads this again")
    (again,) = tail.look()
    assert again.damaged == set() and int(again.counts[2, OTHER, : len(BOUNDS) + 1].sum()) == 1
