"""Recordings of earlier versions of the format, kept as they were written: each must stay readable.

A change of the layout adds a folder here and leaves the others alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.recording import read_session

GOLDEN = Path(__file__).parent / "golden"
#: Folder -> version it was recorded on, and whether the interpreter counts what a pass walks.
WRITTEN_BY = {"v1-cpython312": ((3, 12, 1), False), "v1-cpython315": ((3, 15, 2), True)}


def test_every_version_of_the_format_has_a_recording() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(WRITTEN_BY)
    assert {int(name[1 : name.index("-")]) for name in WRITTEN_BY} == set(range(1, layout.VERSION + 1))


@pytest.mark.parametrize("name", sorted(WRITTEN_BY))
def test_it_reads_as_it_did(name: str, tmp_path: Path) -> None:
    version, counts_walked = WRITTEN_BY[name]
    shutil.copytree(GOLDEN / name, tmp_path / name)
    session = read_session(tmp_path / name)
    assert [loss.slug for loss in session.losses] == []
    child, parent = sorted(session.series, key=lambda series: len(series.passes))
    assert parent.version == version and child.parent == parent.pid

    labels = sorted(mark.label for mark in parent.marks if mark.label != "state")
    expected = (
        "attach policy identity collect collect callback threshold collect boundary freeze thaw disable "
        "enable fork close"
    )
    assert labels == sorted(expected.split(" "))
    (identity,) = (mark for mark in parent.marks if mark.kind == layout.MARK_IDENTITY)
    assert (parent.name(identity.values[0]), identity.values[1]) == ("EngineCore", 1)
    (freeze,) = (mark for mark in parent.marks if mark.kind == layout.MARK_FREEZE)
    assert freeze.values[0] > 30_000 and freeze.flags == layout.MARK_FLAG_OURS

    explicit = parent.passes[(parent.passes["flags"] & layout.PASS_EXPLICIT) != 0]
    assert explicit["generation"].tolist() == [2, 2, 1, 2, 2]
    assert explicit["collected"][0] >= 1
    assert explicit["others"].tolist() == [0, 1, 0, 0, 0]
    full = explicit[explicit["generation"] == 2]
    assert bool((full["candidates"] > 30_000).any()) == counts_walked
    assert parent.name(int(full["trigger_file"][0])) == "/tmp/gold.py"
    assert sorted(parent.name(int(label)) for label in parent.spans["label"]) == ["split", "step"]
    assert [mark.label for mark in child.marks if mark.label != "state"] == ["forked"]
