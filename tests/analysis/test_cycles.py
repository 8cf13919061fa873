"""What looks found, added up (B10): nothing is lost or counted twice, and damage is counted."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis import Analysis, analyse
from frostline.analysis.cycles import CycleReport, gather
from frostline.format import cycles as fmt
from frostline.recording import read_session
from frostline.recording.cycles import LookLog, look_of, read_looks
from frostline.report.blocks import plain
from frostline.report.cycles import cycles as shown
from frostline.report.cycles import to_json
from tests.jsondoc import documented, keys
from tests.synthetic import Process


def kind(path: str, count: int, finalized: bool = False, site: str = "") -> dict[str, object]:
    return {
        "path": path, "count": count, "objects": 2 * count, "hanging": count, "bytes": 100 * count,
        "largest": 2, "pattern": "", "remedy": "", "site": site, "finalized": finalized,
    }  # fmt: skip


def line(*kinds: dict[str, object], why: str = fmt.BY_PASS, **more: object) -> dict[str, object]:
    found = sum(int(str(one["objects"])) for one in kinds)
    return {
        "why": why, "at": 1, "tid": 7, "generation": 2, "found": found, "looked_at": found, "pause": 0.001,
        "stopped": 0.25, "kinds": list(kinds), "others": 0, "unseen": 0, "cut": False, "finalizers": {},
        "skipped": 0,
    } | more  # fmt: skip


def log(pid: int, *lines: dict[str, object]) -> LookLog:
    return LookLog((pid, 1, 0), fmt.FULL, False, [look_of(one) for one in lines], ended=True)


@functools.cache
def nobody() -> Analysis:
    """A session whose only process is none of those that tell."""
    with tempfile.TemporaryDirectory() as folder:
        Process().write(Path(folder))
        return analyse(read_session(Path(folder)))


def report(*logs: LookLog, spans: tuple[str, ...] = ()) -> CycleReport:
    return gather(nobody(), {one.key: one for one in logs}, (), {}, spans)


NAMES = st.sampled_from(("A -> A", "B -> C -> B", "D -> D"))
LOOKS = st.lists(st.lists(st.tuples(NAMES, st.integers(1, 500), st.booleans()), max_size=4), max_size=6)


@given(st.lists(LOOKS, min_size=1, max_size=3))
def test_nothing_is_lost_or_counted_twice(told: list[list[list[tuple[str, int, bool]]]]) -> None:
    logs = [
        log(pid, *(line(*(kind(*one) for one in look)) for look in looks))
        for pid, looks in enumerate(told, 2)
    ]
    every = [(pid, one) for pid, looks in enumerate(told, 2) for look in looks for one in look]
    found = report(*logs)
    (looked,) = found.looked
    for cycle in looked.cycles:
        mine = [(pid, n) for pid, (path, n, done) in every if (path, done) == (cycle.path, cycle.finalized)]
        assert cycle.count == sum(n for _, n in mine) == sum(cycle.processes.values())
        assert cycle.looks == len(mine)
        assert set(cycle.processes) == {f"pid {pid}" for pid, _ in mine}
    assert {(c.path, c.finalized) for c in looked.cycles} == {(path, done) for _, (path, _, done) in every}
    assert looked.count == sum(map(len, told))
    assert found.seen == sum(2 * n for _, (_, n, _) in every)
    sizes = [c.objects + c.hanging for c in looked.cycles]
    assert sizes == sorted(sizes, reverse=True)


def test_what_the_report_says() -> None:
    writer = {"Writer": 3, "Reader": 1}
    found = report(
        log(
            2,
            line(kind("A -> A", 10, site="/x/a.py:3 < /x/b.py:9"), tid=9, finalizers=writer),
            line(kind("A -> A", 5), kind("B -> B", 1, True), cut=True, unseen=4, others=2),
            line(kind("A -> A", 1), kind("E -> E", 1), why=fmt.BY_EXIT),
        ),
        log(3, line(kind("A -> A", 100))),
    )
    text = "\n".join(plain(shown(found)))
    assert text.count("at the exit alone") == 1 and "in 4 of 4 looks\n" in text
    assert (
        "At least 120 cycles, of " in text
        and "in 2 processes: 3 passes of its own, 1 look at the exit" in text
    )
    assert "at least 116 x  A -> A" in text and "made by pid 3 (100), pid 2 (16)" in text
    assert "allocated at /x/a.py:3 < /x/b.py:9" in text
    assert "freed by their own finalizers" in text and "in 1 of 4 looks" in text
    assert "in thread 9: Writer (3), Reader (1)" in text
    assert "4 objects were not asked for finalizers" in text and "the time was up (--budget)" in text
    assert "and 2 more kinds or cycles" in text
    assert "stopped the processes for 1,000 ms in all, the longest 250 ms" in text
    told = json.loads(json.dumps(to_json(found)))
    # Nobody was silent here, and tracemalloc was off.
    rest = {key for key in documented("cycles -- COMMAND") if key.startswith(("silent[]", "tracemalloc[]"))}
    assert keys(told) == documented("cycles -- COMMAND") - rest


def test_of_a_span_it_says_in_how_many_calls() -> None:
    calls = [
        line(
            kind("A -> A", 2),
            why=fmt.BY_SPAN,
            span="step",
            call=n + 1,
            finished=n < 2,
            passes=n,
            others_ran=n == 1,
        )
        for n in range(3)
    ]
    found = report(log(2, *calls), spans=("step", "other"))
    text = "\n".join(plain(shown(found)))
    assert "step: at least 6 cycles" in text and "3 calls looked at" in text and "in 3 of 3 calls" in text
    assert "3 passes ran inside the calls" in text and "1 of the calls had not ended" in text
    assert "other threads or tasks may have run" in text
    assert "other: no call of it was looked at" in text and "passes that were looked at" not in text


def test_a_damaged_file_is_read_as_far_as_it_makes_sense(tmp_path: Path) -> None:
    head = {
        fmt.MAGIC: fmt.VERSION,
        "pid": 7,
        "series": 100,
        "interpreter": 0,
        "forked": True,
        "looks_at": "full",
    }
    cost = {"frames": 2, "memory": 10, "peak": 20, "with_ns": 3.5, "without_ns": 1.0}
    lines = [
        json.dumps(head),
        json.dumps(line(kind("A -> A", 1), skipped=2)),
        "noise",
        json.dumps({"why": "pass", "skipped": 1}),
        json.dumps([1, 2]),
        json.dumps({"end": 5, "skipped": 9, "tracemalloc": cost}),
        json.dumps(line(kind("B -> B", 1)))[:50],
    ]
    (tmp_path / fmt.file_name(7, 100, 0)).write_text("\n".join(lines))
    (tmp_path / fmt.file_name(8, 100, 0)).write_bytes(os.urandom(2000))
    (tmp_path / fmt.file_name(9, 100, 0)).write_text("")
    (tmp_path / fmt.file_name(10, 100, 0)).write_text(json.dumps(head | {fmt.MAGIC: 99}))
    ((key, one),) = read_looks(tmp_path).items()
    assert key == (7, 100, 0) and one.forked and one.ended and one.damaged == 4 and one.skipped == 9
    assert [look.kinds[0].path for look in one.looks] == ["A -> A"] and one.tracemalloc == cost


def test_what_is_asked_for_is_read_back() -> None:
    for looks_at in (fmt.FULL, fmt.ALL, fmt.SPANS):
        assert fmt.parse(fmt.setting(looks_at, 3, 0.5)) == (looks_at, 3, 0.5)
    for text in ("", "full", "full x 1", "full 1 x", "other 1 1"):
        assert fmt.parse(text)[0] == ""
