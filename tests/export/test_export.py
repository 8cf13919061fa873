"""Chrome events: what is written is what was recorded, and what the viewers ask for."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.clock import clock
from frostline.errors import FrostlineError
from frostline.export.chrome import microseconds, write_chrome
from frostline.recording import read_session
from tests.export.checker import problems
from tests.synthetic import MS, Process

#: Wall clock when the synthetic process opened.
EPOCH = 1_790_000_000_123_456_789


def session(folder: Path, pid: int = 4711) -> Analysis:
    folder.mkdir(exist_ok=True)
    process = Process(pid=pid, opened=5_000_000_000)
    process.add_identity("EngineCore", 0)
    for i in range(4):
        process.add_pass(1_000 * MS * (i + 1), 300 * MS, tid=77, collected=i)
    process.add_pass(1_500 * MS, 2 * MS, generation=0, tid=77)
    process.add_span("step", 990 * MS, 320 * MS)
    process.add_span("request", 900 * MS, 900 * MS, kind=fmt.SPAN_ASYNC)
    process.write(folder)
    return analyse(read_session(folder))


@given(st.integers(-(10**18), 10**19))
def test_microseconds_lose_no_digit(ns: int) -> None:
    assert Decimal(microseconds(ns)) * 1000 == ns


@given(st.lists(st.integers(0, 10**15), min_size=2, max_size=9, unique=True), st.integers(-500, 500))
def test_the_clock_is_exact_at_every_anchor_and_in_between_between(times: list[int], drift: int) -> None:
    anchors = [(at, EPOCH + at + drift * i, 40) for i, at in enumerate(sorted(times))]
    ours = clock(anchors)
    for (at, real, _), (later, real_later, _) in itertools.pairwise(anchors):
        found = ours.unix(np.array([at, (at + later) // 2, later]))
        assert (found[0], found[2]) == (real, real_later)
        assert min(real - at, real_later - later) - 1 <= found[1] - (at + later) // 2
        assert found[1] - (at + later) // 2 <= max(real - at, real_later - later) + 1
    assert ours.error == 40 + abs(drift)


def test_no_anchor_is_an_error_with_a_name() -> None:
    with pytest.raises(FrostlineError, match="wall clock"):
        clock([])


def test_chrome_events_are_the_recording(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    out = tmp_path / "t.json"
    count = write_chrome(analysis, out)
    events = json.loads(out.read_text(), parse_float=Decimal)["traceEvents"]
    assert count == len(events)
    gc = [event for event in events if event.get("cat") == "python_gc"]
    assert [event["dur"] for event in gc if event["name"] == "GC gen2"] == [300_000] * 4
    assert {(event["pid"], event["tid"]) for event in gc} == {(4711, 77)}
    named = [event for event in events if event["ph"] == "M"]
    assert named[0]["args"]["name"] == "EngineCore dp0 (pid 4711)"
    assert [event["ph"] for event in events if event["name"] in ("step", "request")] == ["X", "b", "e"]
    assert not [e for e in json.loads(_without_spans(analysis, tmp_path))["traceEvents"] if e["ph"] == "b"]


def _without_spans(analysis: Analysis, tmp_path: Path) -> str:
    write_chrome(analysis, tmp_path / "p.json", spans=False)
    return (tmp_path / "p.json").read_text()


def rich(folder: Path) -> Analysis:
    """Two processes whose coroutines overlap, steps in steps, passes in steps, a heap and marks."""
    session(folder)
    other = Process(pid=4712, opened=5_100_000_000)
    other.add_state(0, (3, 0, 0))
    for i in range(40):
        other.add_span("GET /", i * 10 * MS, 25 * MS, kind=fmt.SPAN_ASYNC)
        other.add_span("step", i * 10 * MS, 8 * MS)
        other.add_span('inner "quoted" \\ \u2028', i * 10 * MS + 1, 7 * MS)
        other.add_pass(i * 10 * MS + MS, 5 * MS, generation=i % 3)
    other.add_mark(fmt.MARK_FREEZE, 500 * MS, a=1_000)
    other.write(folder)
    return analyse(read_session(folder))


def test_the_viewers_find_nothing_wrong_with_it(tmp_path: Path) -> None:
    """By our own reading of the format; ``test_viewers`` opens it in them."""
    analysis = rich(tmp_path / "s")
    write_chrome(analysis, tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text()
    assert problems(text) == []
    phases = {event["ph"] for event in json.loads(text)["traceEvents"]}
    assert phases == {"M", "X", "b", "e", "i", "C"}


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        ({"ph": "X", "dur": -1}, "dur is no length"),
        ({"ph": "X", "dur": 1, "pid": None}, "pid is neither"),
        ({"ph": "i"}, "no scope"),
        ({"ph": "C", "args": {"value": "7"}}, "a counter without numbers"),
        ({"ph": "b"}, "no id"),
        ({"ph": "b", "id": "1", "cat": "x"}, "never ends"),
        ({"ph": "M", "name": "proces_name"}, "unknown or empty metadata"),
        ({"ph": "Q"}, "phase"),
        ({"ph": "X", "dur": 5, "ts": 2}, "overlaps"),
        ({"ph": "X", "dur": 5, "ts": float("nan")}, "not JSON"),
    ],
)
def test_the_check_itself_finds_what_is_wrong(event: dict[str, object], wrong: str) -> None:
    first = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 3}
    whole = {"name": "b", "pid": 1, "tid": 1, "ts": 9, **event}
    assert problems(json.dumps([first])) == []
    assert any(wrong in text for text in problems(json.dumps([first, whole])))
