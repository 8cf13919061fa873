"""Moving segments, keeping the limit, reading headers: on files made by hand and on live ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as layout
from frostline.format import request
from frostline.reach import proc, retention, sealing, segments
from frostline.reach.segments import SegmentName
from tests.reach.segment_files import write_passes, write_spans
from tests.reach.under_run import running, wait_for, wait_for_helper

OTHERS_PID = 4_000_000  # above pid_max's default


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session with its active folder on tmpfs where there is one."""
    folder = tmp_path / "session"
    folder.mkdir()
    shared = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path
    active = shared / f"frostline-test-{os.getpid()}-{tmp_path.name}"
    active.mkdir()
    (folder / "active").symlink_to(active)
    yield folder  # type: ignore[misc]
    for path in active.glob("*") if active.exists() else []:
        path.unlink()
    if active.exists():
        active.rmdir()


def _name(segment: int, pid: int = OTHERS_PID) -> str:
    return layout.segment_name(pid, 77, 0, segment)


def test_all_of_a_dead_process_is_moved_whole(session: Path) -> None:
    active = session / "active"
    write_spans(active / _name(0), 10, 64, pid=OTHERS_PID, process_start=5)
    write_spans(active / _name(1), 3, 5000, pid=OTHERS_PID, process_start=5)
    (active / "not-ours").write_text("stays")
    before = {path.name: path.read_bytes() for path in active.glob("*.flr")}
    mapped = (active / _name(1)).open("rb")  # what a target that still maps it holds on to
    assert sealing.Sealer(str(session)).round(sealing.writer_lives) == 2
    after = {path.name: path.read_bytes() for path in session.glob("*.flr")}
    assert after == before
    assert [path.name for path in active.iterdir()] == ["not-ours"]
    if os.stat(active).st_dev != os.stat(session).st_dev:
        assert os.fstat(mapped.fileno()).st_blocks == 0, "the memory is given back although it is held open"
    mapped.close()
    (active / "not-ours").unlink()
    assert sealing.remove_active(str(session))
    assert not (session / "active").is_symlink()


def test_an_answer_that_nobody_took_does_not_keep_the_folder(session: Path) -> None:
    """Who asked for a census was killed: of a process that has ended it goes, of one that lives it stays."""
    active = session / "active"
    write_spans(active / _name(0), 10, 64, pid=OTHERS_PID, process_start=5)
    answer = active / (_name(0) + request.LOOK_SUFFIX)
    answer.write_text("{}")
    assert not sealing.remove_active(str(session)) and answer.exists()
    assert sealing.Sealer(str(session)).round(sealing.writer_lives) == 1
    assert sealing.remove_active(str(session))
    assert not (session / "active").is_symlink() and not answer.exists()


def test_of_a_living_process_only_full_segments_with_a_successor_move(session: Path) -> None:
    active = session / "active"
    mine = {"pid": os.getpid(), "process_start": _own_start()}
    write_spans(active / _name(0), 8, **mine)
    write_spans(active / _name(1), 8, **mine)  # full, and has a successor
    write_spans(active / _name(2), 7, 8, **mine)  # a slot is being written
    write_spans(active / _name(3), 8, **mine)  # full, but the last
    write_passes(active / _name(4), [(1, 2, 0, 0)], **mine)  # the only one of its region
    sealer = sealing.Sealer(str(session))
    assert sealer.round(sealing.writer_lives) == 0, "seen full twice before it moves"
    assert sealer.round(sealing.writer_lives) == 1
    assert [path.name for path in session.glob("*.flr")] == [_name(1)]
    write_spans(active / _name(2), 8, **mine)
    assert sealer.round(sealing.writer_lives) + sealer.round(sealing.writer_lives) == 1
    assert sorted(path.name for path in session.glob("*.flr")) == [_name(1), _name(2)]


def _own_start() -> int:
    found = proc.stat(os.getpid())
    assert found is not None
    return found.start_ticks


def test_a_pid_that_is_used_again_is_not_the_writer(session: Path) -> None:
    active = session / "active"
    write_spans(active / _name(0), 8, pid=os.getpid(), process_start=1)
    assert sealing.Sealer(str(session)).round(sealing.writer_lives) == 1


def test_two_sealers_do_not_meet(session: Path) -> None:
    write_spans(session / "active" / _name(0), 8, pid=OTHERS_PID, process_start=5)
    with sealing.sealers_lock(str(session)) as ours:
        assert ours
        assert sealing.Sealer(str(session)).round(sealing.writer_lives) == 0
    assert sealing.Sealer(str(session)).round(sealing.writer_lives) == 1


def test_a_folder_without_room_keeps_the_original(session: Path) -> None:
    path = session / "active" / _name(0)
    write_spans(path, 8, pid=OTHERS_PID, process_start=5)
    gone = session / "nowhere"
    assert not sealing.move(str(path), str(gone))
    assert path.exists()


def test_a_live_target_keeps_writing_while_its_segments_move(tmp_path: Path) -> None:
    """End to end: many passes, several segments, none lost."""
    code = (
        "import gc, sys\n"
        "for _ in range(6000): gc.collect(0)\n"
        "print('half', flush=True); sys.stdin.readline()\n"
        "for _ in range(6000): gc.collect(0)\n"
    )
    with running(tmp_path, sys.executable, "-c", code) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "half\n"
        wait_for(lambda: list((tmp_path / "rec").glob("*.flr")), "a segment moves while its writer lives")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(timeout=60) == 0
    wait_for_helper(tmp_path / "rec")
    from frostline.recording import read_session

    (series,) = read_session(tmp_path / "rec").series
    assert len(series.passes) >= 12_000


def test_spans_go_first_then_young_passes_and_full_ones_never(tmp_path: Path) -> None:
    full = [(i, i + 1, 2, layout.PASS_FULL) for i in range(1, 100)]
    young = [(i, i + 1, 0, 0) for i in range(1, 900)]
    explicit = [(5, 6, 0, layout.PASS_EXPLICIT), (7, 8, 0, layout.PASS_FROSTLINE)]
    write_passes(tmp_path / _name(0), [(1, 2, 0, 0)])
    write_spans(tmp_path / _name(1), 1000)
    write_passes(tmp_path / _name(2), [*young, *explicit, *full])
    write_spans(tmp_path / _name(3), 1000)
    sizes = {n: (tmp_path / _name(n)).stat().st_size for n in range(4)}

    enough = retention.Retention(str(tmp_path), sum(sizes.values()) - 1)
    assert enough.apply({})
    assert not (tmp_path / _name(1)).exists() and (tmp_path / _name(3)).exists()
    assert enough.dropped == {f"{OTHERS_PID}-77": {"spans": 1000, "young_passes": 0}}
    assert not enough.apply({})

    tight = retention.Retention(str(tmp_path), 1)
    assert tight.apply({})
    assert not (tmp_path / _name(3)).exists()
    assert tight.dropped == {f"{OTHERS_PID}-77": {"spans": 1000, "young_passes": len(young) + 1}}
    kept = (tmp_path / _name(2)).read_bytes()
    header = segments.parse_header(kept[: layout.HEADER_SIZE])
    assert header is not None and header.regions[0].capacity == 100
    assert segments.committed(kept, header.regions[0]) == 100
    assert (tmp_path / _name(0)).stat().st_size == sizes[0]
    tight.apply({})
    assert (tmp_path / _name(2)).read_bytes() == kept


def test_a_compacted_segment_is_read_by_the_reader(tmp_path: Path) -> None:
    from frostline.recording import read_session
    from tests.reach.under_run import run

    code = "import gc\nfor i in range(4000): gc.collect(0)\ngc.collect()\ngc.collect()\n"
    ended = run(tmp_path, sys.executable, "-c", code, options=("--retention", "0"))
    (series,) = read_session(ended.folder).series
    full = int((series.passes["generation"] == 2).sum())
    limit = retention.Retention(str(ended.folder), 1)
    limit.apply({})
    session = read_session(ended.folder)
    (series,) = session.series
    assert int((series.passes["generation"] == 2).sum()) == full
    assert not series.damaged and not series.unfinished


def test_no_limit_drops_nothing(tmp_path: Path) -> None:
    write_spans(tmp_path / _name(1), 1000)
    assert not retention.Retention(str(tmp_path), 0).apply({})
    assert (tmp_path / _name(1)).exists()


def test_the_longest_pass(tmp_path: Path) -> None:
    write_passes(tmp_path / _name(0), [(10, 20, 0, 0), (30, 99, 2, 0), (100, 101, 0, 0)], 10)
    assert retention.longest_pass(str(tmp_path / _name(0))) == 69
    assert retention.longest_pass(str(tmp_path / "none")) == 0


@given(st.binary(max_size=8192))
def test_a_damaged_header_is_none_or_a_header_but_no_exception(data: bytes) -> None:
    segments.parse_header(layout.MAGIC + data)


@given(st.integers(0, 2**32), st.integers(0, 2**64 - 1), st.integers(0, 99), st.integers(0, 99999))
def test_a_segments_name_is_read_back(pid: int, series: int, interpreter: int, segment: int) -> None:
    name = layout.segment_name(pid, series, interpreter, segment)
    assert segments.parse_name(name) == SegmentName(pid, series, interpreter, segment)


@pytest.mark.parametrize(
    "name", ["", "x.flr", "1-2-3.flr", "1-2-3.0000.flr.tmp", ".1-2-3.0000.flr.9", "active"]
)
def test_other_files_are_no_segments(name: str) -> None:
    assert segments.parse_name(name) is None


def test_a_process_with_an_odd_name_is_read(tmp_path: Path) -> None:
    """A command's name may hold what separates the fields of its stat file."""
    odd = tmp_path / ") R 1 (x"
    odd.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(odd), "30"])
    try:
        found = proc.stat(process.pid)
        assert found is not None and found.parent == os.getpid() and found.alive
    finally:
        process.kill()
        wait_for(lambda: (now := proc.stat(process.pid)) is None or not now.alive, "it is a zombie")
        process.wait()
    assert proc.stat(process.pid) is None


def test_a_living_recorder_is_told_that_what_was_moved_no_longer_counts(tmp_path: Path) -> None:
    """Or it would stop at its own limit although there is room."""
    code = (
        "import gc, sys\n"
        "for _ in range(6000): gc.collect(0)\n"
        "print('half', flush=True); sys.stdin.readline()\n"
    )
    limit = 8 << 20
    options = ("--retention", "8M")
    with running(tmp_path, sys.executable, "-c", code, options=options) as process:
        assert process.stdout is not None and process.stdout.readline() == "half\n"
        (path,) = (tmp_path / "rec" / "active").glob("*.0000.flr")

        def raised() -> bool:
            words = segments.read_words(str(path))
            moved = sum(p.stat().st_size for p in (tmp_path / "rec").glob("*.flr"))
            return words is not None and moved > 0 and words["retention"] == limit + moved

        wait_for(raised, "the limit is raised by what was moved")
        process.communicate("\n", timeout=30)
