"""Files of a session that somebody has damaged, or put there: read as far as they are sound, in time."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline import format as layout
from frostline.reach import files, overview, segments
from tests.interpreters import found
from tests.reach.under_run import environment, run

PYTHON = found()[0].executable
ENTRY = [sys.executable, "-c", "from frostline.commands.main import main; main()"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real session: a parent and its child, sealed."""
    base = tmp_path_factory.mktemp("real")
    code = (
        "import gc, subprocess, sys; gc.collect(); gc.freeze()\n"
        "subprocess.run([sys.executable, '-c', 'import gc; gc.collect()'])"
    )
    return run(base, PYTHON, "-c", code, options=("--retention", "0")).folder


@pytest.fixture
def session(recorded: Path, tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "session"
    shutil.copytree(recorded, copy)
    yield copy


def status(session: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: one that hangs is killed."""
    return subprocess.run(
        [*ENTRY, "status", str(session)],
        env=environment(session.parent),
        capture_output=True,
        text=True,
        timeout=20,
    )


#: Whatever of ``reach`` reads a segment, of each session named.
EVERYTHING = """
import sys
from frostline.reach import facts, overview, retention, sealing, segments
for session in sys.argv[1:]:
    overview.read(session)
    for name, path in segments.listing(session).items():
        facts.read([path])
        segments.is_full(path)
        retention.longest_pass(path)
        sealing.writer_lives(path, name)
    retention.Retention(session, 1).apply({})
"""


def in_time(*sessions: Path, seconds: float = 20.0) -> None:
    """Everything, in a process that is killed when it hangs."""
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING, *map(str, sessions)],
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", [1, 3])
def test_flipped_bits_in_the_headers(session: Path, seed: int) -> None:
    chance = random.Random(seed)
    for path in sorted(session.glob("*.flr")):
        data = bytearray(path.read_bytes())
        for _ in range(40):
            data[chance.randrange(layout.HEADER_SIZE)] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    done = status(session)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    in_time(session)


def test_a_region_table_that_promises_anything(recorded: Path, tmp_path: Path) -> None:
    copies = []
    for at, size in ((0, 4), (4, 4), (8, 8), (16, 8)):
        for value in (0, 1, 7, 8, 2**31, 2**64 - 1):
            copies.append(tmp_path / f"{at}-{value}")
            shutil.copytree(recorded, copies[-1])
            for path in copies[-1].glob("*.flr"):
                data = bytearray(path.read_bytes())
                for region in range(layout.MAX_REGIONS):
                    place = layout.REGION_TABLE + region * segments._REGION.size + at
                    data[place : place + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
                path.write_bytes(data)
    in_time(*copies)


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "socket", "huge"])
def test_what_is_no_file_of_ours_is_left_alone(
    session: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = next(session.glob("*-0.0000.flr")).read_bytes()[: layout.HEADER_SIZE]
    for name in ("7-8-0.0000.flr", "helper-7-8.json", "run-7-8.json"):
        path = session / name
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "link":
            os.mkfifo(tmp_path / name)
            path.symlink_to(tmp_path / name)
        elif kind == "socket":
            monkeypatch.chdir(session)  # its path would be too long
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(name)
        else:
            with path.open("wb") as file:
                file.write(header)
                file.truncate(1 << 40)
    done = status(session)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert f"{2 + (kind == 'huge')} recorded" in done.stdout and "damaged" in done.stdout
    assert "helper ended" in done.stdout
    in_time(session)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_notes_of_any_types(recorded: Path, data: st.DataObject) -> None:
    """One field of what the helper wrote, at any depth, replaced by anything."""
    (path,) = recorded.glob("helper-*.json")
    whole = json.loads(path.read_text())
    folder = recorded.parent / "mutated"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    here: Any = whole
    for _ in range(data.draw(st.integers(1, 3))):
        keys = sorted(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        if not keys:
            break
        key = data.draw(st.sampled_from(list(keys)))
        parent, here = here, here[key]
        last = key
    parent[last] = data.draw(ANY)
    (folder / path.name).write_text(json.dumps(whole))
    for run_note in recorded.glob("run-*.json"):
        changed = json.loads(run_note.read_text())
        changed[data.draw(st.sampled_from(sorted(changed)))] = data.draw(ANY)
        (folder / run_note.name).write_text(json.dumps(changed))
    overview.read(str(folder))


@pytest.mark.parametrize(
    "text", ["[]", "7", '"x"', "{", "", "[" * 100_000, '{"processes": 7, "boundary": [7]}']
)
def test_notes_that_are_none(session: Path, text: str) -> None:
    for path in session.glob("helper-*.json"):
        path.write_text(text)
    found = overview.read(str(session))
    assert sum(row.recorded for row in found.rows) == 2


def test_a_segment_is_read_to_its_end_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert files.read(str(path)) == b"abc" and files.read(str(path), 2) == b"ab"
    for bad in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError):
            files.read(str(bad))
