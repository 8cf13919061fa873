"""What counters leave open and what they settle: laws, stored samples, and the words."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from bisect import bisect_right
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.analysis import Analysis, LongStep, analyse
from frostline.analysis.hostcause import COLUMN, Causes, window_of
from frostline.analysis.hostmodel import KINDS
from frostline.format import host as layout
from frostline.reach.hostlog import Log
from frostline.recording import merge, read_session
from frostline.recording.host import HostLog, HostProcess, Track
from frostline.report import plain, report, to_json, write_csv
from frostline.report.html.figures import figures
from tests.synthetic import MS, Process

PID = 4711


def track(points: list[tuple[int, dict[str, int]]]) -> Track:
    values = np.zeros((len(points), len(layout.PROCESS_FIELDS)), np.int64)
    for i, (_, named) in enumerate(points):
        for name, value in named.items():
            values[i, COLUMN[name]] = value
    time = np.array([at for at, _ in points], np.int64)
    return Track(time, values, ~np.any(np.diff(values, axis=0), axis=1))


def step(start: int, duration: int, **values: Any) -> LongStep:
    fields: dict[str, Any] = {
        "process": "p", "pid": PID, "label": "step", "kind": 1, "baseline": 0, "overlap": 0,
        "explained": False, "nested": False, "pass_text": "", "passes": 0, "tid": PID,
    }  # fmt: skip
    return LongStep(start=start, duration=duration, **{**fields, **values})


def causes(of: Track, *steps: LongStep, cgroups: dict[int, tuple[str, Track]] | None = None) -> Causes:
    log = HostLog(cgroups=cgroups or {})
    return Causes(log, HostProcess(PID, 1, True, tuple(log.cgroups), of), steps)


#: A thread's life: (what it does, microseconds).
LIFE = st.lists(st.tuples(st.sampled_from(("cpu", "queue", "asleep")), st.integers(1, 50_000)), min_size=1)


@given(LIFE, st.lists(st.integers(0, 2_000_000), min_size=2, max_size=40), st.data())
def test_the_bounds_hold_whatever_the_thread_did_and_whenever_it_was_looked_at(
    life: list[tuple[str, int]], looks: list[int], data: st.DataObject
) -> None:
    edges, sums = [0], [{"cpu": 0, "queue": 0, "asleep": 0}]
    for what, took in life:
        edges.append(edges[-1] + took)
        sums.append({**sums[-1], what: sums[-1][what] + took})
    end = edges[-1]

    def at(when: int) -> dict[str, int]:
        i = min(bisect_right(edges, when) - 1, len(life) - 1)
        return {**sums[i], life[i][0]: sums[i][life[i][0]] + min(when, end) - edges[i]}

    times = sorted({0, end, *(look for look in looks if look < end)})
    first = data.draw(st.integers(0, end - 1))
    last = data.draw(st.integers(first + 1, end))
    points = [(1000 * t, {"main_cpu_us": at(t)["cpu"], "main_queue_us": at(t)["queue"]}) for t in times]
    # A step is in a thread that runs at both of its ends; what lies between is anything.
    found = causes(track(points)).parts(step(1000 * first, 1000 * (last - first)))
    assert found is not None
    window, *parts = found
    assert window.start <= 1000 * first and window.stop >= 1000 * last
    before, after = at(first), at(last)
    for name, part in zip(("cpu", "queue", "asleep"), parts, strict=True):
        true = 1000 * (after[name] - before[name])
        # Where nothing changed between two looks the thread slept all along: the window is cut there.
        assert part.low <= true <= part.high, (name, part, true)
        assert part.low <= part.guess <= part.high
    assert sum(part.low for part in parts) <= 1000 * (last - first)


def test_what_nothing_changed_in_is_as_good_as_a_look() -> None:
    of = track([(0, {}), (1000, {}), (2000, {"main_cpu_us": 1}), (3000, {"main_cpu_us": 1})])
    window = window_of(of, 600, 2400)
    assert window is not None and (window.start, window.stop) == (600, 2400)
    window = window_of(of, 1200, 1800)
    assert window is not None and (window.start, window.stop) == (1000, 2000)
    assert window_of(of, 2500, 3001) is None and window_of(of, -1, 2000) is None


def around(quiet: dict[str, int], inside: dict[str, int], length: int = 200) -> Track:
    """Looks every 50 ms for 4 s, then a step of ``length`` ms, then 1 s more; rates a 50 ms outside."""
    points, now = [], dict.fromkeys(layout_names(), 0)
    for i in range(80):
        points.append((i * 50 * MS, dict(now)))
        now = {name: value + quiet.get(name, 0) for name, value in now.items()}
    start = 80 * 50 * MS
    points.append((start, dict(now)))
    now = {name: value + inside.get(name, 0) for name, value in now.items()}
    for i in range(20):
        points.append((start + length * MS + i * 50 * MS, dict(now)))
        now = {name: value + quiet.get(name, 0) for name, value in now.items()}
    return track(points)


def layout_names() -> list[str]:
    return [name for name, _ in layout.PROCESS_FIELDS]


def kind_of(inside: dict[str, int], **values: Any) -> tuple[str, str]:
    quiet = {"main_cpu_us": 10_000, "voluntary": 5}
    one = step(4_000 * MS, 200 * MS, **values)
    cause = causes(around(quiet, inside), one).judge(one)
    assert cause.kind in KINDS and cause.text
    return cause.kind, cause.text


def test_each_kind_from_its_counters() -> None:
    assert kind_of({"main_queue_us": 180_000, "main_cpu_us": 20_000}) == (
        "run-queue",
        "waited 180 ms of its 200 ms for a CPU (run queue)",
    )
    assert kind_of({"main_cpu_us": 195_000, "user_ticks": 19})[0] == "on-cpu"
    kind, text = kind_of(
        {"main_cpu_us": 195_000, "user_ticks": 2, "system_ticks": 17, "minor_faults": 45_000}
    )
    assert kind == "kernel" and text.endswith("in the kernel, 45,000 page faults")
    kind, text = kind_of({"voluntary": 1})
    assert kind == "asleep" and text == (
        "slept 200 ms of its 200 ms: a lock, a timer, the network or another process "
        "(it gave its CPU up once)"
    )
    assert kind_of({"disk_ticks": 15})[0] == "disk"
    assert kind_of({"major_faults": 40})[0] == "major-faults"
    kind, text = kind_of({"others_cpu_us": 190_000, "user_ticks": 19, "voluntary": 40})
    assert kind == "busy-thread" and "woke 40 times" in text
    kind, text = kind_of({"others_cpu_us": 190_000, "user_ticks": 19, "voluntary": 2})
    assert kind == "busy-thread" and "consistent with" in text
    kind, text = kind_of({"main_cpu_us": 70_000, "main_queue_us": 65_000})
    assert kind == "unclear" and text.startswith("on a CPU 70 ms, in the run queue 65 ms, asleep 65 ms")


def test_another_tools_callback_needs_no_sample() -> None:
    one = step(0, 240 * MS, overlap=230 * MS, callbacks=200 * MS)
    cause = causes(track([]), one).judge(one)
    assert (cause.kind, cause.text) == ("callback", "another tool's gc callback took 200 ms of its 240 ms")


def test_a_quota_from_stored_samples() -> None:
    """Version 1's and version 2's counters are one thing here; where no cgroup can be made this stands in."""
    of = around({"main_cpu_us": 10_000}, {"main_queue_us": 180_000, "main_cpu_us": 20_000})
    kept = np.zeros((len(of), 3), np.int64)
    kept[81:] = (2, 2, 176_000)
    cgroup = Track(of.time, kept, ~np.any(np.diff(kept, axis=0), axis=1))
    one = step(4_000 * MS, 200 * MS)
    cause = causes(of, one, cgroups={0: ("/pods/one", cgroup)}).judge(one)
    assert (cause.kind, cause.throttled, cause.sure) == ("throttled", 2, True)
    assert cause.text == "waited 180 ms of its 200 ms for CPU quota: its cgroup was throttled 2 times"


def test_samples_that_lie_too_far_apart_say_so_unless_the_bounds_settle_it() -> None:
    busy = track([(i * 1000 * MS, {"main_cpu_us": i * 500_000}) for i in range(5)])
    one = step(1_400 * MS, 40 * MS)
    assert causes(busy, one).judge(one).kind == "too-coarse"
    # On a CPU all the time, so in the step as well.
    full = track([(i * 1000 * MS, {"main_cpu_us": i * 1_000_000}) for i in range(5)])
    cause = causes(full, one).judge(one)
    assert (cause.kind, cause.sure) == ("on-cpu", True)
    # Asleep all the time: every instant is a sample.
    assert causes(track([(0, {}), (9_000 * MS, {})]), one).judge(one).kind == "asleep"
    assert causes(busy, one).judge(step(8_000 * MS, 40 * MS)).kind == "unsampled"


def test_a_thread_that_is_not_the_main_one_is_said_to_be_one() -> None:
    of = around({}, {"others_queue_us": 190_000})
    one = step(4_000 * MS, 200 * MS, tid=PID + 1)
    cause = causes(of, one).judge(one)
    assert cause.kind == "run-queue" and cause.text.endswith(" (threads beside the main one together)")
    assert not cause.sure


# --- a whole session ----------------------------------------------------------------------
def session(tmp_path: Path, passed: bool = False) -> Analysis:
    """What `write` makes, analysed."""
    write(tmp_path, passed)
    return analyse(read_session(tmp_path))


def write(tmp_path: Path, passed: bool = False, opened: int = 10**12) -> None:
    """Twenty steps of 2 ms, then one of 200 ms that waited for a CPU; looked at every 50 ms."""
    process = Process(pid=PID, opened=opened, process_start=1)
    process.add_mark(1, 0)
    for i in range(20):
        process.add_span("step", i * 100 * MS, 2 * MS)
    process.add_span("step", 4_000 * MS, 200 * MS)
    if passed:
        process.add_pass(4_001 * MS, 198 * MS, tid=PID)
    process.write(tmp_path)
    log = Log(str(tmp_path), (2, opened))
    log.event("process 0", {"process": 0, "pid": PID, "start_ticks": 1, "fast": True, "cgroups": []})
    log.event("gpu 0", {"gpu": 0, "name": "Test GPU"})
    of = around({"main_cpu_us": 10_000, "voluntary": 5, "resident_kib": 100}, {"main_queue_us": 180_000})
    for at, values in zip(of.time.tolist(), of.values.tolist(), strict=True):
        host = [at // 2000, *[0] * 4, at // 10**7, 0, at // 10**7, 0, 0, 1500]
        gpu = [1980 if at < 3 * 10**9 else 1200, 2600, 500_000, 0 if at < 3 * 10**9 else 0x4, 70, 60]
        log.round(process.opened + at, True, [[(0, values)], [], [(0, host)], [(0, gpu)]])
    log.event("cost", {"cost": 10_000_000, "rounds": 101})
    log.close()


def test_the_report_names_what_the_host_shows(tmp_path: Path) -> None:
    analysis = session(tmp_path)
    assert analysis.verdict.kind == "not-the-collector"
    assert analysis.verdict.lines[-1] == (
        "of the slow step that no pass explains, by what the host shows: 1 waited for a CPU (run queue)"
    )
    text = "\n".join(plain(report(analysis)))
    assert (
        "not the collector: waited 180 ms of its 200 ms for a CPU (run queue); "
        "GPU 0 ran at 1,200 MHz of 1,980 around it (power cap)"
    ) in text
    assert "The host" in text and "somebody waited for a CPU 50%" in text and "sampling took 0.19%" in text
    assert "GPU 0 (Test GPU): 1,200 to 1,980 MHz" in text and "slowed down: power cap" in text
    (process,) = analysis.processes
    assert process.host is not None and process.host.slow == (("run-queue", 1, 198 * MS),)
    assert process.host.main_queue == 180 * MS and process.host.resident_most == 1024 * 100 * 99


def test_merged_sessions_keep_whose_samples_are_whose(tmp_path: Path) -> None:
    """Two hosts, one pid: the second's samples are moved onto the first's clock as its recording is."""
    folders = [tmp_path / name for name in "ab"]
    for i, folder in enumerate(folders):
        folder.mkdir()
        write(folder, opened=(1 + i) * 10**12)
    analysis = analyse(merge([read_session(folder) for folder in folders]))
    slow = [p.host.slow if p.host else None for p in analysis.processes]
    assert slow == [(("run-queue", 1, 198 * MS),)] * 2
    for process, log in zip(analysis.processes, analysis.host_logs, strict=True):
        (one,) = log.processes
        assert one.session == process.session and abs(int(one.track.time[0]) - process.start) < MS
    # The same session named twice is one.
    again = analyse(merge([read_session(folders[0]), read_session(folders[0])]))
    assert len(again.host_logs) == len(again.processes) == 1


@given(st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_damaged_samples_are_read_as_far_as_they_make_sense(random: Random) -> None:
    """Numbers and lines changed at random: a loss may be told, a report is made, nothing is raised."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        (sealed,) = folder.glob("host-*.gz")
        lines = gzip.decompress(sealed.read_bytes()).decode().splitlines()
        for _ in range(random.randint(1, 6)):
            i = random.randrange(len(lines))
            what = random.randrange(4)
            if what == 0:
                lines.insert(i, lines[random.randrange(len(lines))])
            elif what == 1:
                lines[i] = lines[i][: random.randrange(len(lines[i]) + 1)]
            else:
                value = random.choice((-1, 0, 10**9, -(10**15), 2**61, 2**62, 2**70, 0.5, None, "x", [], {}))
                found = list(re.finditer(r"-?\d+", lines[i]))
                if found:
                    at = random.choice(found)
                    lines[i] = lines[i][: at.start()] + json.dumps(value) + lines[i][at.end() :]
        sealed.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
        analysis = analyse(read_session(folder))
        assert all(loss.slug == "host-damaged" for loss in analysis.losses)
        json.dumps(to_json(analysis))
        assert "\n".join(plain(report(analysis)))
        write_csv(analysis, folder / "csv")
        figures(analysis)


def test_a_pass_that_had_no_cpu_is_told_as_one(tmp_path: Path) -> None:
    """The collector it stays; that the machine made it long is said beside it, and counted nowhere else."""
    analysis = session(tmp_path, passed=True)
    assert analysis.verdict.kind == "collector"
    assert not any("by what the host shows" in line for line in analysis.verdict.lines)
    text = "\n".join(plain(report(analysis)))
    assert "the collector; but it waited 180 ms of its 200 ms for a CPU (run queue)" in text
    (process,) = analysis.processes
    assert process.host is not None and process.host.slow == ()


def test_json_and_tables(tmp_path: Path) -> None:
    analysis = session(tmp_path)
    data = to_json(analysis)
    (process,) = data["processes"]
    (slow,) = process["slow_steps"]
    assert slow["host"]["kind"] == "run-queue" and slow["verdict"].startswith(
        "not the collector: waited 180 ms"
    )
    assert data["host"]["gpus"][0]["throttle"][0][0] == "power cap"
    written = {path.name: path for path in write_csv(analysis, tmp_path / "csv")}
    lines = written["host.csv"].read_text().splitlines()
    assert lines[0].startswith("run,pid,at_s,main_cpu_us,main_queue_us") and len(lines) == 1 + 101
    readme = written["README.md"].read_text()
    assert all(f"`{name}`" in readme for name, _ in layout.PROCESS_FIELDS)


def test_the_page_draws_it(tmp_path: Path) -> None:
    drawn = [figure for figure in figures(session(tmp_path)) if figure["kind"] == "host"]
    assert [figure["title"] for figure in drawn] == ["CPU, and the wait for one", "Resident memory"]


def test_every_field_and_kind_is_documented() -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "json.md").read_text()
    assert all(f"`{kind}`" in text for kind in KINDS)
    text = (docs / "host.md").read_text()
    assert all(f"| `{name}` | {about} |" in text for _, fields in layout.GROUPS for name, about in fields)
