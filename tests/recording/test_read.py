"""Reading sound recordings: what was written is what is read, wherever it lies and whoever still writes."""

from __future__ import annotations

import os
import shutil
import struct
import time
from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.recording import merge, read_session
from frostline.recording.segment import unescape
from tests.synthetic import MS, Process, pack, write_helper, write_run


def test_every_record_comes_back(tmp_path: Path) -> None:
    process = Process(text=[("argv", "python"), ("argv", "a\\tb"), ("policy", "freeze")])
    process.add_identity("EngineCore", 3)
    for i in range(300):
        process.add_pass(i * MS, 1000 + i, i % 3, collected=i, trigger_line=i)
    for i in range(1500):
        process.add_span("step" if i % 2 else "other", i * MS, 500 + i, thread=7 + i % 3)
    process.write(tmp_path, per_segment=100)

    session = read_session(tmp_path)

    assert session.losses == ()
    (series,) = session.series
    assert series.passes["collected"].tolist() == list(range(300))
    assert (series.passes["stop"] - series.passes["start"]).tolist() == [1000 + i for i in range(300)]
    assert (series.spans["stop"] - series.spans["start"]).tolist() == [500 + i for i in range(1500)]
    assert [series.name(int(i)) for i in series.spans["label"][:2]] == ["other", "step"]
    assert len(set(series.spans["thread"].tolist())) == 3
    assert series.text["argv"] == ("python", "a\tb")
    assert series.python == "3.11.7"


def test_a_young_pass_takes_its_thresholds_from_what_was_said_before_it(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (1, 0, 0))
    process.add_pass(1 * MS, 1000, 0, flags=0, threshold0=0, thread=9, candidates=0, duration=0.0)
    process.add_mark(fmt.MARK_THRESHOLD, 2 * MS, a=5000, b=20, c=30)
    process.add_mark(fmt.MARK_DISABLE, 2 * MS, thread=9, tid=77)
    process.add_pass(3 * MS, 1000, 0, flags=0, threshold0=0, thread=9)
    process.write(tmp_path)

    (series,) = read_session(tmp_path).series

    assert series.passes["threshold0"].tolist() == [700, 5000]
    assert [bool(f & fmt.PASS_DISABLED) for f in series.passes["flags"]] == [False, True]
    assert series.passes["tid"].tolist() == [77, 77]
    assert series.passes["candidates"].tolist() == [-1, -1]  # a young pass does not say it
    assert series.passes["duration"].tolist() == [-1.0, -1.0]


def test_without_any_word_on_thresholds_they_are_unknown(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(1 * MS, 1000, 0, flags=0, threshold0=0)
    process.write(tmp_path)
    (series,) = read_session(tmp_path).series
    assert series.passes["threshold0"].tolist() == [-1]


def test_a_slot_without_its_commit_word_is_no_record(tmp_path: Path) -> None:
    process = Process()
    for i in range(10):
        process.add_span("step", i * MS, 100 + i)
    (path,) = process.write(tmp_path)
    offset = span_offset()
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, offset + 3 * fmt.SPAN_SIZE + 56, 0)  # being written
    struct.pack_into("<Q", data, offset + 5 * fmt.SPAN_SIZE + 56, 99)  # not its own slot
    path.write_bytes(data)

    session = read_session(tmp_path)

    durations = (session.series[0].spans["stop"] - session.series[0].spans["start"]).tolist()
    assert durations == [100, 101, 102, 104, 106, 107, 108, 109]
    assert {(loss.slug, loss.count) for loss in session.losses} == {
        ("records-unfinished", 1),
        ("records-damaged", 1),
    }


def span_offset() -> int:
    offset = fmt.HEADER_SIZE
    for kind, size, capacity in fmt.FIRST_REGIONS:
        if kind == fmt.REGION_SPANS:
            return offset
        offset += size * capacity
    raise AssertionError


@pytest.mark.parametrize(
    "damage",
    [
        {"start": 10**18, "stop": 10**18 + 5},  # far in the future
        {"start": 5, "stop": 4},
        {"start": 0, "stop": 1},
        {"generation": 3},
        {"collected": -1},
        {"stop_after": 700 * 10**9},  # no pass takes that long
    ],
)
def test_an_implausible_pass_is_left_out_and_counted(tmp_path: Path, damage: dict[str, int]) -> None:
    process = Process()
    process.add_pass(1 * MS, 1000)
    process.add_pass(2 * MS, 1000)
    after = damage.pop("stop_after", None)
    if after:
        damage = {"stop": process.passes[0]["start"] + after}
    process.passes[0].update(damage)
    process.write(tmp_path)

    session = read_session(tmp_path)

    assert len(session.series[0].passes) == 1
    assert [(loss.slug, loss.count) for loss in session.losses] == [("records-damaged", 1)]


def test_a_live_session_is_read_in_place_and_sealed_files_win(tmp_path: Path) -> None:
    session_folder, active = tmp_path / "session", tmp_path / "shm"
    session_folder.mkdir()
    active.mkdir()
    (session_folder / "active").symlink_to(active)
    process = Process()
    for i in range(600):
        process.add_span("step", i * MS, 100)
    written = process.write(active, per_segment=100)
    assert len(written) == 3
    # One is sealed; its original is punched already.
    (session_folder / written[1].name).write_bytes(written[1].read_bytes())
    written[1].write_bytes(b"")

    session = read_session(session_folder)

    assert len(session.series[0].spans["start"]) == 600
    assert session.series[0].live
    assert session.losses == ()


def test_forked_child_uses_its_parents_names(tmp_path: Path) -> None:
    parent = Process(pid=10)
    parent.add_span("step", 0, 5)
    child = Process(pid=11, text=[("parent_series", str(parent.opened))])
    child.add_span("x", 0, 5)
    child.names.clear()
    parent.write(tmp_path)
    child.write(tmp_path)

    session = read_session(tmp_path)

    (found,) = [s for s in session.series if s.pid == 11]
    assert found.name(1) == "step"
    assert found.name(999) == "name 999 (lost)"


def test_what_run_and_the_helper_wrote_is_read(tmp_path: Path) -> None:
    Process().write(tmp_path)
    write_run(tmp_path, ["uvicorn", "app:app"], policy="freeze")
    write_helper(
        tmp_path,
        [
            {
                "pid": 5,
                "python": True,
                "recorded": False,
                "missed": "no-site",
                "argv": ["python", "-S"],
                "exit": None,
            }
        ],
        ready={"kind": "url", "at_ns": 17, "detail": "x"},
        ended=False,
        warnings=["no tmpfs"],
    )
    session = read_session(tmp_path)
    assert session.runs[0].command == ("uvicorn", "app:app")
    assert session.processes[0].missed == "no-site"
    assert session.ready == ("url", 17, "x")
    assert [loss.slug for loss in session.losses] == ["helper-warning"]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("helper", [False, True])
def test_running_is_what_lives_and_not_what_the_helper_says(
    tmp_path: Path, closed: bool, lives: bool, helper: bool
) -> None:
    """The helper takes up to a second to end after the last process (U7)."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    ticks = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    process = Process(
        pid=os.getpid(),
        process_start=ticks + (not lives),
        pid_namespace=namespace,
        words={"closed": time.monotonic_ns()} if closed else {},
    )
    process.write(tmp_path)
    if helper:
        me = {"pid": os.getpid(), "start_ticks": ticks, "pid_namespace": namespace}
        write_helper(tmp_path, [{"pid": process.pid, "start_ticks": ticks + 1}], ended=False, **me)
    assert read_session(tmp_path).running is (lives and not closed)


def test_between_two_processes_of_a_script_it_is_running(tmp_path: Path) -> None:
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    ticks = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    Process(words={"closed": time.monotonic_ns()}).write(tmp_path)
    me = {"pid": os.getpid(), "start_ticks": ticks}
    write_helper(tmp_path, [me], ended=False, pid_namespace=namespace, **me)
    assert read_session(tmp_path).running


def test_a_session_and_its_copy_are_one(tmp_path: Path) -> None:
    """`report A A` counts nothing twice; of two copies the fuller one is kept (U25)."""
    early, late = tmp_path / "a", tmp_path / "b"
    late.mkdir()
    process = Process()
    for i in range(3000):
        process.add_span("step", i * MS, MS // 2)
    newest = process.write(late)[-1]
    write_run(late, ["serve"])
    write_helper(late, [{"pid": 9, "python": True, "missed": "no-site", "first_seen_ns": 5}])
    shutil.copytree(late, early)
    (early / newest.name).unlink()
    merged = merge([read_session(early), read_session(late)])
    assert [len(series.spans["start"]) for series in merged.series] == [3000]
    assert (len(merged.runs), len(merged.processes)) == (1, 1)
    assert merged.losses[-1].slug == "recorded-twice"


def test_sessions_of_one_boot_are_merged_without_a_shift(tmp_path: Path) -> None:
    sessions = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        process = Process(pid=10)
        process.add_pass(5 * MS, 100)
        process.write(folder)
        write_run(folder, ["x"], boot_id="same")
        sessions.append(read_session(folder))
    before = [int(s.series[0].passes["start"][0]) for s in sessions]
    merged = merge(sessions)
    assert [int(s.passes["start"][0]) for s in merged.series] == before
    assert merged.clock_error == 0
    assert [s.session for s in merged.series] == [0, 1]


def test_sessions_of_two_hosts_are_laid_over_each_other_by_wall_time(tmp_path: Path) -> None:
    sessions = []
    for name, boot in (("a", "one"), ("b", "two")):
        folder = tmp_path / name
        folder.mkdir()
        process = Process(pid=10)
        process.add_pass(5 * MS, 100)
        process.add_span("step", 5 * MS, 100)
        process.add_mark(fmt.MARK_ATTACH, 5 * MS)
        process.write(folder)
        write_run(folder, ["x"], boot_id=boot)
        sessions.append(read_session(folder))
    away = 7 * 10**12
    first, second = sessions[0].series[0], sessions[1].series[0]
    # The second host booted earlier: its monotonic clock is ahead.
    monotonic, realtime, error = second.anchor
    second.anchor = (monotonic + away, realtime, error)
    for name in ("start", "stop"):
        second.passes[name] += away
        second.spans[name] += away
    wall = [int(s.passes["start"][0]) + s.anchor[1] - s.anchor[0] for s in (first, second)]

    merged = merge(sessions)

    here = first.anchor[1] - first.anchor[0]
    assert [int(s.passes["start"][0]) + here for s in merged.series] == wall
    assert [int(s.spans["start"][0]) + here for s in merged.series] == wall
    assert merged.clock_error > 0


@pytest.mark.parametrize("text", ["", "plain", "a\tb\nc\\d", "\\n", "\\"])
def test_escapes_are_undone(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
    assert unescape(escaped) == text


def test_the_synthetic_records_have_the_formats_sizes() -> None:
    for kind, size, _ in fmt.RECORDS:
        assert len(pack(kind, 0, {})) == size
