"""The file of host signals: what is written is read again, whatever was thinned or cut short."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.format import host as layout
from frostline.reach.hostlog import Log, thinned
from frostline.recording.host import HostLog, read_host
from frostline.recording.loss import Losses

MS = 1_000_000
SIZE = len(layout.PROCESS_FIELDS)
STAMP = (77, 1000)

#: Rounds: (milliseconds since the one before, slow, growth of process 0 (fast), of process 1 (slow)).
ROUNDS = st.lists(
    st.tuples(st.integers(1, 100), st.booleans(), st.integers(0, 5), st.integers(0, 5)),
    min_size=1,
    max_size=120,
)


def write(log: Log, rounds: list[tuple[int, bool, int, int]]) -> list[tuple[int, bool, int, int]]:
    """(time, slow, value of 0, value of 1) of each round, as they were at that time."""
    log.event("process 0", {"process": 0, "pid": 10, "start_ticks": 5, "fast": True, "cgroups": [0]})
    log.event("process 1", {"process": 1, "pid": 11, "start_ticks": 6, "fast": False, "cgroups": []})
    log.event("cgroup 0", {"cgroup": 0, "path": "/c", "version": 1})
    at, values, told = 10**9, [0, 0], []
    for wait, slow, *grew in rounds:
        at += wait * MS
        values = [value + more for value, more in zip(values, grew, strict=True)]
        slow = slow or log.fresh
        rows = [(0, [values[0], *[7] * (SIZE - 1)])]
        if slow:
            rows.append((1, [values[1], *[0] * (SIZE - 1)]))
        log.round(at, slow, [rows, [(0, [0, 0, values[0]])], [(0, [0] * len(layout.HOST_FIELDS))], []])
        told.append((at, slow, values[0], values[1]))
    log.close()
    return told


def read(folder: Path) -> HostLog:
    losses = Losses()
    (log,) = read_host(folder, losses)
    assert losses.all() == ()
    return log


def check(log: HostLog, told: list[tuple[int, bool, int, int]], every: bool) -> None:
    """At the instants that are in the log the values are those of that time; all of them are if ``every``."""
    by_time = {at - (at - 10**9) % 1000: values for at, *values in told}
    for column, one in enumerate(sorted(log.processes, key=lambda p: p.pid)):
        assert (one.pid, one.start_ticks) == (10 + column, 5 + column)
        times = one.track.time.tolist()
        assert times == sorted(set(times))
        for at, row in zip(times, one.track.values.tolist(), strict=True):
            assert row[0] == by_time[at][1 + column]
        if every:
            mine = [(at, values) for at, values in by_time.items() if column == 0 or values[0]]
            for at, values in mine:  # each change is there, and what lies between did not change
                i = int(np.searchsorted(one.track.time, at, "left"))
                if i < len(times) and times[i] == at:
                    assert one.track.values[i, 0] == values[1 + column]
                else:
                    # Not told by itself: then nothing changed around it.
                    assert (0 < i < len(times) and one.track.flat[i - 1]) or i == len(times)
                    assert one.track.values[i - 1, 0] == values[1 + column]


@given(ROUNDS)
@settings(max_examples=60)
def test_what_was_written_is_read(rounds: list[tuple[int, bool, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        told = write(Log(folder, STAMP), rounds)
        log = read(Path(folder))
    check(log, told, every=True)
    assert log.processes[0].fast and not log.processes[1].fast and log.processes[0].cgroups == (0,)
    path, track = log.cgroups[0]
    assert path == "/c" and track.values[-1, 2] == told[-1][2]


@given(ROUNDS)
@settings(max_examples=40)
def test_parts_and_thinning_lose_no_count(rounds: list[tuple[int, bool, int, int]]) -> None:
    """So small a part and so low a limit that everything is thinned again and again."""
    with tempfile.TemporaryDirectory() as folder:
        log = Log(folder, STAMP, limit=700, part=200)
        # Flushed by time: a part is looked at once a second at most.
        told = write(log, [(1000 + wait, *rest) for wait, *rest in rounds])
        found = read(Path(folder))
        assert not list(Path(folder).glob("*.tmp")) and not list(Path(folder).glob("*.jsonl"))
    check(found, told, every=False)
    last = found.processes[0].track
    assert last.values[-1, 0] == told[-1][2] and last.values[0, 0] == told[0][2]


@given(ROUNDS, st.integers(0, 400))
@settings(max_examples=40)
def test_a_torn_end_costs_the_end(rounds: list[tuple[int, bool, int, int]], cut: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = write(Log(name, STAMP), rounds)
        (sealed,) = folder.glob("*.gz")
        whole = gzip.decompress(sealed.read_bytes())
        sealed.unlink()
        live = folder / layout.file_name(*STAMP, 0)
        live.write_bytes(whole[: max(1, len(whole) - cut)])
        log = read(folder)
    check(log, told, every=False)


def test_a_week_stays_in_its_limit(tmp_path: Path) -> None:
    limit = 60_000
    log = Log(str(tmp_path), STAMP, limit=limit, part=8_000)
    rounds = [(1000, i % 4 == 0, i * 7919 % 90_000, i * 104729 % 70_000) for i in range(15_000)]
    told = write(log, rounds)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size <= limit + 8_000
    found = read(tmp_path)
    check(found, told, every=False)
    time = found.processes[0].track.time
    # The newest are whole, the oldest are sparse, and the first is still there.
    assert time[0] == told[0][0] and np.diff(time[-20:]).max() <= 1001 * MS
    assert np.median(np.diff(time[:20])) >= 4000 * MS


def test_a_damaged_part_is_a_loss_and_the_next_is_read(tmp_path: Path) -> None:
    log = Log(str(tmp_path), STAMP, part=400)
    told = write(log, [(1000, True, 1, 1)] * 40)
    parts = sorted(tmp_path.glob("*.gz"), key=lambda path: int(path.name.split(".")[1]))
    assert len(parts) > 2
    lines = gzip.decompress(parts[0].read_bytes()).splitlines()
    parts[0].write_bytes(gzip.compress(b"\n".join([*lines[:6], b'[1,"x"]', b"]", *lines[6:]]) + b"\n"))
    parts[1].write_bytes(parts[1].read_bytes()[:30])
    losses = Losses()
    (found,) = read_host(tmp_path, losses)
    assert [loss.slug for loss in losses.all()] == ["host-damaged"] * 2
    assert found.processes[0].track.values[-1, 0] == told[-1][2]


def test_lines_of_nonsense_thin_to_something(tmp_path: Path) -> None:
    assert thinned(["", "{", '{"frostline_host":1,"start_ns":5,"thinned":0}', "[1,1]"], 1)[1:] == ["[1,1]"]
