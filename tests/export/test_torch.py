"""The merge into a torch trace: on one clock, nothing doubled, the gaps and what is consistent with them."""

from __future__ import annotations

import gzip
import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frostline.analysis import Analysis
from frostline.errors import FrostlineError
from frostline.export import kineto
from frostline.export.chrome import microseconds
from frostline.export.torch import GAP_THREAD, merge_into
from tests.commands.test_control import frostline
from tests.export.checker import problems
from tests.export.test_export import session
from tests.kineto import Kineto
from tests.synthetic import MS


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


# --- a trace as torch writes it -------------------------------------------------------
#: The stretches in which a device works, ms after the processes opened, in kernels of 10 ms.
WORKS = {0: [(0, 990), (1_310, 1_990), (2_310, 2_990), (3_310, 4_800)], 1: [(0, 2_400), (2_800, 4_800)]}


def profiled(analysis: Analysis, host: int = 5_000, passes: tuple[tuple[int, int], ...] = ()) -> Kineto:
    """Two devices: the first rests while the engine core collects, the second once for 400 ms besides."""
    names = itertools.cycle(
        ("void cutlass::Kernel2<int>", "Memcpy HtoD (Pinned -> Device)", "Memset (Device)")
    )
    zero = unix_of(analysis, 0)
    works = {
        device: [
            (zero + at * MS, 10 * MS, next(names)) for low, high in stretches for at in range(low, high, 10)
        ]
        for device, stretches in WORKS.items()
    }
    told = [(zero + at * MS, took * MS) for at, took in passes]
    return Kineto(host, host, zero - 5 * 10**15 - 123, works, told)


def test_each_device_has_its_gaps_and_the_pass_that_is_consistent_with_them(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    source, out = profiled(analysis).write(tmp_path / "t.json"), tmp_path / "out.json"
    merged = merge_into(analysis, source, out)
    first, second = merged.devices
    assert [(d.device, d.label) for d in merged.devices] == [("0", "GPU 0"), ("1", "GPU 1")]
    assert [(gap.length, bool(gap.passes)) for gap in first.gaps] == [(320 * MS, True)] * 3
    assert first.gaps[0].passes[0].startswith("EngineCore dp0 (pid 4711): gen 2, 300.0 ms")
    assert first.gaps[1].passes[0].endswith("reclaimed 1")
    # A pass lies at 3,000 to 3,300 ms; this gap closes before, and is nobody's.
    assert [(gap.length, gap.passes) for gap in second.gaps] == [(400 * MS, ())]
    assert merged.unrecorded == (5_000,)
    assert merged.start == unix_of(analysis, 0) - 30_000  # its first operator
    text = out.read_text()
    assert problems(text, pairs=False) == []
    shown = [e for e in json.loads(text, parse_float=Decimal)["traceEvents"] if e["tid"] == GAP_THREAD]
    assert [event["ph"] for event in shown] == ["M", "X", "X", "X", "M", "X"]
    one = shown[1]
    assert one["args"]["consistent with"] == first.gaps[0].passes[0]
    assert int(one["ts"] * 1000) + json.loads(text)["baseTimeNanoseconds"] == first.gaps[0].start


def test_torchs_own_passes_are_kept_not_doubled_and_name_a_process_without_a_recording(
    tmp_path: Path,
) -> None:
    analysis = session(tmp_path / "s")
    passes = ((1_001, 298), (2_001, 298))
    recorded = profiled(analysis, 4711, passes).write(tmp_path / "recorded.json")
    merged = merge_into(analysis, recorded, tmp_path / "a.json")
    assert (merged.passes, merged.already, merged.unrecorded) == (3, 2, ())
    text = (tmp_path / "a.json").read_text()
    assert problems(text, pairs=False) == []
    # Of a process that the trace has itself, ours stand in a thread beside torch's.
    assert {event["tid"] for event in passes_in(text)} == {1_000_000_077}
    unknown = profiled(analysis, 5_000, passes).write(tmp_path / "unknown.json")
    merged = merge_into(analysis, unknown, tmp_path / "b.json")
    assert (merged.passes, merged.already) == (5, 0)
    named = {one.name for one in merged.devices[0].found}
    assert named == {"EngineCore dp0 (pid 4711)", "pid 5000, as torch recorded it"}


def test_a_process_whose_pid_a_device_has_stands_apart(tmp_path: Path) -> None:
    """In a container the API server is pid 1, and so is the second GPU."""
    analysis = session(tmp_path / "s", pid=1)
    merge_into(analysis, profiled(analysis).write(tmp_path / "t.json"), tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text()
    assert {event["pid"] for event in passes_in(text)} == {1_000_000_001}
    names = [
        (event["pid"], event["args"]["name"])
        for event in json.loads(text)["traceEvents"]
        if event["name"] == "process_name"
    ]
    assert (1_000_000_001, "EngineCore dp0 (pid 1)") in names and (1, "python3.11") in names


def test_without_a_device_the_operators_of_the_profiled_process_have_the_gaps(tmp_path: Path) -> None:
    """Torch on the CPU: the worker's own operators are the work, and it may wait for another process."""
    analysis = session(tmp_path / "s")
    zero = unix_of(analysis, 0)
    host = {"cat": "cpu_op", "pid": 5_000, "tid": 5_000}
    works = [(at, 10, {"name": "aten::mm", **host}) for at in (*range(0, 990, 10), *range(1_310, 1_990, 10))]
    works.append((0, 2_000, {"cat": "user_annotation", "name": "execute", "pid": 5_000, "tid": 5_000}))
    source = tmp_path / "t.json"
    source.write_text(trace(analysis, [], tuple(works)))
    done = frostline(tmp_path, "export", str(tmp_path / "s"), "--into", str(source))
    assert done.returncode == 0, done.stderr
    told = "Between operators of pid 5000: 1 gap, 320 ms; consistent with passes: 1 gap, 320 ms, 100% of"
    assert f"{told} the time" in done.stdout.splitlines()
    merged = merge_into(analysis, source, tmp_path / "out.json")
    (gap,) = merged.devices[0].gaps
    assert gap.start == zero + 990 * MS and gap.passes[0].startswith("EngineCore dp0 (pid 4711): gen 2")
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert [event["pid"] for event in events if event.get("cat") == "frostline_gap"] == [5_000]
    # With a device in the trace the operators are no gaps of their own: they only launch.
    source.write_text(trace(analysis, [(0, 990), (1_310, 680)], tuple(works)))
    assert [one.operators for one in merge_into(analysis, source, tmp_path / "out.json").devices] == [False]


def test_what_the_command_says_of_the_gaps(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    source = profiled(analysis).write(tmp_path / "rank0.pt.trace.json.gz")
    done = frostline(tmp_path, "export", str(tmp_path / "s"), "--into", str(source))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("5 passes put into ")
    assert any("clocks aligned through the wall clock: to 0.5 us on our side" in line for line in lines)
    assert (
        "  pid 5000 was profiled, and this session has no recording of it: its passes are not known" in lines
    )
    told = "Device 0 (GPU 0): 3 gaps, 960 ms; consistent with passes: 3 gaps, 960 ms, 100% of the time"
    assert told in lines
    assert "Device 1 (GPU 1): 1 gap, 400 ms; consistent with passes: 0 gaps, 0 ms, 0% of the time" in lines
    assert any(
        "320 ms at 0.990 s: consistent with EngineCore dp0 (pid 4711): gen 2" in line for line in lines
    )
    assert any("no pass that was recorded lies in it" in line for line in lines)
    assert len(gzip.decompress((tmp_path / "rank0.pt.trace.frostline.json.gz").read_bytes())) > 10_000


# --- reading it piece by piece --------------------------------------------------------
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text() | FLOATS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TIMES = st.integers(0, 10**16).map(microseconds)
EVENTS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {
                "ph": st.sampled_from("XXXXMsi"),
                "cat": st.sampled_from(
                    ["kernel", "gpu_memcpy", "gpu_memset", "cpu_op", "gpu_user_annotation"]
                ),
                "name": st.sampled_from(
                    ["gemm", "Python GC", 'a "b" \\ \u2028 \U0001f525', "process_labels"]
                ),
                "pid": st.integers(0, 3) | st.sampled_from(["Spans", ""]),
                "args": VALUES,
            }
        ),
        TIMES,
        TIMES,
    ),
    max_size=12,
)


def naive(events: list[tuple[dict[str, Any], str, str]]) -> tuple[list[tuple[str, int, int]], int]:
    """What the devices did by the plain definition: (device, start, stop), and how many slices there are."""
    slices = [
        (e, int(Decimal(ts) * 1000), int(Decimal(dur) * 1000)) for e, ts, dur in events if e["ph"] == "X"
    ]
    works = [(str(e["pid"]), ts, ts + dur) for e, ts, dur in slices if e["cat"] in kineto.DEVICE]
    return sorted(works), len(slices)


@example([], {"": 0.0}, 1, False)  # a number is cut behind its point
@example([], {"": 1e300}, 1, False)
@given(EVENTS, st.dictionaries(st.text(), VALUES, max_size=3), st.integers(1, 60), st.booleans())
def test_a_trace_read_in_pieces_of_any_size_is_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[dict[str, Any], str, str]],
    head: dict[str, Any],
    chunk: int,
    loose: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces.json"
    texts = [
        json.dumps(event, ensure_ascii=chunk % 2 == 0)[:-1] + f', "ts": {ts}, "dur": {dur}}}'
        for event, ts, dur in events
    ]
    space = "\n  " if loose else ""
    head = {f"x{key}": value for key, value in head.items()}
    before = json.dumps({**head, "baseTimeNanoseconds": 17}, ensure_ascii=False)[:-1]
    before += f', {space}"traceEvents"{space}:{space}['
    between = f"{space},{space}".join(texts)
    path.write_text(f'{before}{space}{between}{space}]{space}, "z": {json.dumps(head)}}}', encoding="utf-8")
    works, slices = naive(events)
    before_chunk, kineto.CHUNK = kineto.CHUNK, chunk
    try:
        if not slices:
            with pytest.raises(FrostlineError, match="no slices"):
                kineto.scan(path)
            return
        found = kineto.scan(path)
    finally:
        kineto.CHUNK = before_chunk
    assert (found.base, found.slices, found.events, found.odd) == (17, slices, len(events), 0)
    assert path.read_bytes()[: found.place].decode() == before
    seen = [(d, *pair) for d, w in found.devices.items() for pair in zip(w.starts, w.stops, strict=True)]
    assert sorted(seen) == works


@given(st.integers(0, 10_000), st.booleans())
def test_a_trace_that_is_cut_or_damaged_is_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, at: int, cut: bool
) -> None:
    """Cut anywhere it is no trace; with a byte replaced it may be one, but nothing else is raised."""
    text = Kineto(7, 7, 10**18, {0: [(10**18 + 5 * MS, MS, "gemm"), (10**18 + 9 * MS, MS, "é")]}).text()
    raw = text.rstrip().encode()
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    at %= len(raw)
    path.write_bytes(raw[:at] if cut else raw[:at] + b"\xff" + raw[at + 1 :])
    with pytest.raises(FrostlineError) as caught:
        kineto.scan(path)
    assert caught.value.slug == "bad-trace"


def test_a_compressed_trace_that_is_cut_is_refused(tmp_path: Path) -> None:
    analysis = session(tmp_path / "s")
    whole = profiled(analysis).write(tmp_path / "t.json.gz").read_bytes()
    for at in (1, 2, 5, 11, len(whole) // 2, len(whole) - 5):
        (tmp_path / "cut.json.gz").write_bytes(whole[:at])
        with pytest.raises(FrostlineError) as caught:
            merge_into(analysis, tmp_path / "cut.json.gz", tmp_path / "out.json")
        assert caught.value.slug == "bad-trace"


def test_times_that_are_no_numbers_are_left_alone(tmp_path: Path) -> None:
    odd = ['"soon"', "null", "[]", "1e400", '"Infinity"', "{}", "9e30"]
    events = [f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":0,"ts":{ts},"dur":1}}' for ts in odd]
    events.append('{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":0,"ts":5,"dur":-1}')
    events.append('{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":0,"ts":5.0009,"dur":1}')
    (tmp_path / "t.json").write_text('{"traceEvents":[' + ",".join(events) + "]}")
    found = kineto.scan(tmp_path / "t.json")
    assert (found.slices, found.odd, found.base) == (1, 8, 0)
    assert list(found.devices["0"].starts) == [5_000] and list(found.devices["0"].stops) == [6_000]


@given(st.integers(-(10**17), 10**17))
def test_microseconds_are_read_as_they_are_written(ns: int) -> None:
    assert kineto.ns(microseconds(ns)) == ns
