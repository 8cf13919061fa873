"""Chrome events and the merge into a torch trace: what is written is what was recorded, on one clock."""

from __future__ import annotations

import gzip
import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.clock import clock
from frostline.errors import FrostlineError
from frostline.export.chrome import microseconds, write_chrome
from frostline.export.torch import merge_into
from frostline.recording import read_session
from tests.commands.test_control import frostline
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


def unix_of(analysis: Analysis, at: int) -> int:
    """The wall clock ``at`` ns after the process opened, from the anchor in its header."""
    monotonic, realtime, _ = analysis.processes[0].series.anchor
    return 5_000_000_000 + at - monotonic + realtime


def trace(analysis: Analysis, device_works: list[tuple[int, int]], extra: tuple[Any, ...] = ()) -> str:
    """A trace as Kineto writes it, around the session; times are ms after the process opened."""
    base = unix_of(analysis, 0) - 4_999_999_999_123  # ts near 5e9 us, three decimals
    zero = unix_of(analysis, 0) - base

    def event(at: int, took: int, **more: object) -> str:
        where = f'"ts":{microseconds(zero + at * MS)},"dur":{microseconds(took * MS)}'
        return f'{{"ph":"X",{where},{json.dumps(more)[1:-1]}}}'

    kernels = [event(at, took, cat="kernel", name="gemm", pid=0, tid=7) for at, took in device_works]
    others = [event(at, took, **more) for at, took, more in extra]
    return (
        '{"schemaVersion":1,"baseTimeNanoseconds":' + str(base) + ',\n  "traceEvents": [\n'
        + ",\n".join([*kernels, *others]) + '\n],"traceName":"t"}'
    )  # fmt: skip


def passes_in(text: str) -> list[dict[str, Any]]:
    events = json.loads(text, parse_float=Decimal)["traceEvents"]
    return [event for event in events if event.get("cat") == "python_gc"]


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


def test_passes_of_another_process_come_into_the_trace_where_they_were(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    # The device rests for three of the passes, each time for 20 ms more than the pass.
    works = [(0, 990), (1_310, 680), (2_310, 680), (3_310, 1_500)]
    before = trace(analysis, works)
    source, out = tmp_path / "trace.json", tmp_path / "merged.json"
    source.write_text(before)
    merged = merge_into(analysis, source, out)
    text = out.read_text()
    assert source.read_text() == before
    assert text.startswith(before[: before.index("[") + 1]) and text.endswith(before[before.index("[") + 2 :])
    found = passes_in(text)
    assert len(found) == merged.passes == 5
    base = json.loads(before)["baseTimeNanoseconds"]
    first = min(found, key=lambda event: event["ts"])
    assert base + int(first["ts"] * 1000) == unix_of(analysis, 1_000 * MS)
    assert first["dur"] == 300_000
    # All of the original's events are there, in their order and unchanged.
    kept = [e for e in json.loads(text, parse_float=str)["traceEvents"] if e.get("cat") == "kernel"]
    assert kept == json.loads(before, parse_float=str)["traceEvents"]
    (device,) = merged.devices
    (bucket,) = device.buckets
    assert (bucket.count, bucket.explained) == (3, 3)
    (one,) = device.found
    assert one.name == "EngineCore dp0 (pid 4711)" and one.by.tolist() == [0, 2, 3]
    assert one.by_chance < 0.05


def test_what_torch_has_recorded_itself_is_not_doubled(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    own = (1_001, 298, {"cat": "python_function", "name": "Python GC", "pid": 4711, "tid": 77})
    other = (2_001, 298, {"cat": "python_function", "name": "Python GC", "pid": 99, "tid": 99})
    source, out = tmp_path / "trace.json.gz", tmp_path / "merged.json.gz"
    source.write_bytes(gzip.compress(trace(analysis, [(0, 5_000)], (own, other)).encode()))
    merged = merge_into(analysis, source, out)
    assert (merged.passes, merged.already) == (4, 1)
    assert len(passes_in(gzip.decompress(out.read_bytes()).decode())) == 4


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": 3}', '{"traceEvents": []}', "\x00"])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    analysis = session(tmp_path / "s")
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FrostlineError) as caught:
        merge_into(analysis, tmp_path / "x.json", tmp_path / "y.json")
    assert caught.value.slug == "bad-trace"
    assert not (tmp_path / "y.json").exists()


def test_a_trace_of_another_day_is_refused(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    text = trace(analysis, [(0, 100)])
    base = json.loads(text)["baseTimeNanoseconds"]
    (tmp_path / "x.json").write_text(text.replace(str(base), str(base + 86_400 * 10**9)))
    with pytest.raises(FrostlineError) as caught:
        merge_into(analysis, tmp_path / "x.json", tmp_path / "y.json")
    assert caught.value.slug == "trace-elsewhen"


def test_the_command_writes_beside_the_trace_and_never_over_it(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    source = tmp_path / "trace.json"
    source.write_text(trace(analysis, [(0, 990), (1_310, 3_000)]))
    done = frostline(tmp_path, "export", str(tmp_path / "s"), "--into", str(source))
    assert done.returncode == 0, done.stderr
    assert "5 passes put into" in done.stdout and "consistent with a pass" in done.stdout
    assert len(passes_in((tmp_path / "trace.frostline.json").read_text())) == 5
    over = frostline(tmp_path, "export", str(tmp_path / "s"), "--into", str(source), "--to", str(source))
    assert over.returncode == 1 and "trace-kept" in over.stderr
    assert frostline(tmp_path, "export", str(tmp_path / "s")).returncode == 2
