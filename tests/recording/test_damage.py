"""Damaged input: a clear account or a clear error, never a traceback, never memory without bound."""

from __future__ import annotations

import os
import random
import resource
import struct
import time
from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.analysis import analyse
from frostline.errors import FrostlineError
from frostline.recording import read_session
from frostline.report import plain, report, to_json
from tests.synthetic import MS, Process, write_helper, write_run

DAMAGES = 10_000


def sample(folder: Path) -> list[Path]:
    process = Process(text=[("argv", "python"), ("argv", "server.py")])
    process.add_identity("EngineCore", 0)
    process.add_state(0, (2, 0, 0))
    for i in range(150):
        process.add_pass(i * MS, MS // 2, i % 3, trigger_file=process.name("app.py"), trigger_line=i)
    for i in range(470):
        process.add_span("step", i * MS, MS)
    process.add_span("step", 0, 60 * MS)
    process.add_mark(fmt.MARK_COLLECT, 5 * MS, MS, file="app.py", a=2, b=1, c=1)
    process.add_state(400 * MS, (60, 60, 60), closing=True)
    return process.write(folder, per_segment=30)


def account(folder: Path, depth: int = 3) -> str:
    """Reads, analyses and prints, as deep as asked; a FrostlineError is an answer too."""
    try:
        session = read_session(folder)
    except FrostlineError as error:
        assert error.slug and error.remedy
        return error.slug
    if not depth:
        return "".join(loss.slug for loss in session.losses)
    analysis = analyse(session)
    if depth > 1:
        to_json(analysis)
    return "\n".join(plain(report(analysis)))


def _damaged(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    kind = rng.randrange(8)
    if kind == 0:
        return bytes(out[: rng.randrange(len(out))])
    if kind == 1:  # a bit anywhere
        for _ in range(rng.choice((1, 1, 3, 50))):
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    elif kind == 2:  # the header, where it hurts most
        out[rng.randrange(fmt.HEADER_SIZE)] = rng.randrange(256)
    elif kind == 3:  # the region table: huge and odd values
        at = fmt.REGION_TABLE + rng.randrange(4) * 24 + rng.choice((0, 4, 8, 16))
        struct.pack_into(
            "<Q", out, at, rng.choice((0, 1, 2**31, 2**40, 2**63, 2**64 - 1, rng.randrange(2**32)))
        )
    elif kind == 4:  # a stretch of noise
        at = rng.randrange(len(out))
        out[at : at + 300] = rng.randbytes(min(300, len(out) - at))
    elif kind == 5:  # a stretch of zeros: a hole
        at = rng.randrange(len(out))
        out[at : at + 4096] = bytes(min(4096, len(out) - at))
    elif kind == 6:
        out += rng.randbytes(rng.randrange(200))
    else:  # the live words
        at = fmt.WORDS + 8 * rng.randrange(len(fmt.WORD_FIELDS))
        struct.pack_into("<Q", out, at, rng.choice((1, 5, 2**40, 2**63, 2**64 - 1)))
    return bytes(out)


def test_ten_thousand_random_damages(tmp_path: Path) -> None:
    files = sample(tmp_path)
    whole = {path: path.read_bytes() for path in files}
    rng = random.Random(20260)
    answers: set[str] = set()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(DAMAGES):
        path = rng.choice(files)
        path.write_bytes(_damaged(whole[path], rng))
        # Reading is what damage meets first: always; the rest, often enough.
        depth = 2 if number % 40 == 0 else 1 if number % 5 == 0 else 0
        answers.add(account(tmp_path, depth)[:40])
        path.write_bytes(whole[path])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB
    assert len(answers) > 1


def test_one_damaged_file_costs_only_itself(tmp_path: Path) -> None:
    files = sample(tmp_path)
    files[-1].write_bytes(b"not ours")
    session = read_session(tmp_path)
    assert len(session.series[0].passes) == 150
    assert [(loss.slug, Path(loss.path).name) for loss in session.losses if "foreign" in loss.slug] == [
        ("segment-foreign", files[-1].name)
    ]


@pytest.mark.parametrize("damage", ["empty", "magic", "version", "short", "zero"])
def test_nothing_but_a_damaged_file_is_an_error_that_says_why(tmp_path: Path, damage: str) -> None:
    (path,) = Process().write(tmp_path)
    data = bytearray(path.read_bytes())
    if damage == "empty":
        data = bytearray()
    elif damage == "magic":
        data[:8] = b"GIF89a.."
    elif damage == "version":
        struct.pack_into("<I", data, 8, 99)
    elif damage == "short":
        data = data[:100]
    else:
        data = bytearray(len(data))
    path.write_bytes(data)
    with pytest.raises(FrostlineError) as caught:
        read_session(tmp_path)
    assert caught.value.slug == "session-damaged"
    if damage == "version":
        assert "version 99" in caught.value.message and f"version {fmt.VERSION}" in caught.value.message


def test_a_claimed_capacity_allocates_nothing(tmp_path: Path) -> None:
    (path,) = Process().write(tmp_path)
    data = bytearray(path.read_bytes())
    for i in range(4):
        struct.pack_into("<Q", data, fmt.REGION_TABLE + 24 * i + 16, 2**50)
    path.write_bytes(data)
    session = read_session(tmp_path)
    assert "region-short" in {loss.slug for loss in session.losses}


def test_a_sparse_giant_is_read_to_a_bound(tmp_path: Path) -> None:
    process = Process()
    process.add_span("step", 0, 5)
    (path,) = process.write(tmp_path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, fmt.REGION_TABLE + 24 * 3 + 16, 2**40 // 64)
    path.write_bytes(data)
    os.truncate(path, 2**40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(read_session(tmp_path).series[0].spans["start"]) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "dangling", "unreadable"])
def test_things_that_are_no_files(tmp_path: Path, kind: str) -> None:
    good = Process(pid=1)
    good.add_span("step", 0, 5)
    good.write(tmp_path)
    path = tmp_path / fmt.segment_name(2, 3, 0, 0)
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "dangling":
        path.symlink_to("/nonexistent")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x")
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("runs as root: everything is readable")
    session = read_session(tmp_path)
    assert len(session.series) == 1
    assert [loss.slug for loss in session.losses] == ["segment-unreadable"]


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    sample(tmp_path)
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "core").write_bytes(b"\0" * 100)
    (tmp_path / "x.flr").write_text("hello")
    session = read_session(tmp_path)
    assert {(loss.slug, Path(loss.path).name) for loss in session.losses} == {("segment-foreign", "x.flr")}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"command": 5, "pid": "x"}', "[" * 100_000, '{"processes": [1, {}, []]}', "\0"],
)
def test_damaged_notes(tmp_path: Path, text: str) -> None:
    sample(tmp_path)
    (tmp_path / "run-1-1.json").write_text(text)
    (tmp_path / "helper-1-1.json").write_text(text)
    assert "EngineCore dp0" in account(tmp_path)


def test_missing_first_segment_still_gives_the_passes(tmp_path: Path) -> None:
    files = sample(tmp_path)
    files[0].unlink()
    session = read_session(tmp_path)
    assert len(session.series[0].passes) > 0
    assert any(loss.slug == "segment-missing" for loss in session.losses)
    assert "pid 4711" in account(tmp_path)


def cut_short(folder: Path, closed: int = 0, per_segment: int = 1500) -> Process:
    """A session whose last segment of passes did not arrive."""
    process = Process(words={"closed": closed})
    for i in range(4000):
        process.add_pass(i * MS, MS // 10, 0)
    for i in range(100):
        process.add_span("step", i * MS, MS // 2)
    process.add_span("step", 3000 * MS, 90 * MS)
    process.write(folder, per_segment)[-1].unlink()
    return process


@pytest.mark.parametrize("closed", [0, 1])
def test_a_missing_last_segment_is_named(tmp_path: Path, closed: int) -> None:
    """The one before it is full, so another was begun (U24)."""
    process = cut_short(tmp_path, closed and time.monotonic_ns())
    session = read_session(tmp_path)
    assert [loss.slug for loss in session.losses] == ["segment-missing"]
    analysis = analyse(session)
    name = f"python (pid {process.pid})"
    assert analysis.verdict.sentence == (
        f"cannot tell, because passes were lost in {name}, which has slow steps"
    )
    (doubt,) = [doubt for doubt in analysis.doubts if doubt.slug == "segment-missing"]
    assert name in doubt.text


def test_a_last_segment_that_is_not_full_is_the_last(tmp_path: Path) -> None:
    process = Process()
    for i in range(4000):
        process.add_pass(i * MS, MS // 2, 0)
    process.write(tmp_path, 1500)
    assert read_session(tmp_path).losses == ()


def test_all_files_of_recorded_processes_are_gone(tmp_path: Path) -> None:
    write_run(tmp_path, ["serve"])
    write_helper(tmp_path, [{"pid": 7, "python": True, "recorded": True, "argv": ["python", "w.py"]}])
    analysis = analyse(read_session(tmp_path))
    assert analysis.verdict.sentence == ("cannot tell, because no process was recorded; missed: w.py (pid 7)")
    assert [one.reason for one in analysis.missed] == ["segment-missing"]


def test_a_missing_middle_segment_is_named_unless_retention_took_it(tmp_path: Path) -> None:
    files = sample(tmp_path)
    files[1].unlink()
    assert any(loss.slug == "segment-missing" for loss in read_session(tmp_path).losses)
    data = bytearray(files[0].read_bytes())
    struct.pack_into("<Q", data, 8 * fmt.WORD["dropped_spans"], 12)
    files[0].write_bytes(data)
    losses = {loss.slug: loss.count for loss in read_session(tmp_path).losses}
    assert losses == {"spans-dropped": 12}


def test_an_active_link_to_elsewhere_is_harmless(tmp_path: Path) -> None:
    sample(tmp_path)
    for target in ("/nonexistent", "relative", str(tmp_path), "/etc/passwd"):
        link = tmp_path / "active"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert "EngineCore dp0" in account(tmp_path)


def test_no_session_at_all(tmp_path: Path) -> None:
    for path, slug in ((tmp_path / "none", "session-not-found"), (tmp_path, "session-empty")):
        with pytest.raises(FrostlineError) as caught:
            read_session(path)
        assert caught.value.slug == slug


def test_a_session_with_nothing_recorded_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, ["true"])
    write_helper(tmp_path, [{"pid": 7, "python": True, "argv": ["python", "-S"], "missed": "no-site"}])
    text = account(tmp_path)
    assert text.startswith("Cannot tell, because no process was recorded; missed: ")
