"""What happens to a host when the ground under its recording gives way: nothing."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path

import pytest

from frostline import format as layout
from tests.hostile.conftest import Stage, needs_mount, needs_root, sized

SMALL_DISK = Path(__file__).parent / "on_small_disk.sh"


def on_small_disk(stage: Stage, size: str, session: Path | None = None) -> tuple[Stage, tuple[str, ...]]:
    """The stage with its live folder (and its session, unless given) on a tmpfs of ``size``."""
    base, out = stage.folder / "disk", stage.folder / "out"
    base.mkdir()
    moved = dataclasses.replace(stage, session=session or base / "rec", live=out)
    return moved, ("unshare", "-m", "sh", str(SMALL_DISK), str(base), size, str(out))


def test_all_is_recorded_where_nothing_happens(stage: Stage) -> None:
    outcome = stage.both("busy", "nothing", "", "1000", "1000")
    assert len(outcome.root.passes) >= 2000
    assert outcome.root.words["state"] == layout.STATE_CLOSED
    assert outcome.root.segments >= 3


@needs_mount
def test_a_full_disk(stage: Stage) -> None:
    moved, wrapper = on_small_disk(stage, "320k")
    outcome = moved.both("busy", "nothing", "", "1000", "4000", wrapper=wrapper)
    words = outcome.root.words
    assert words["off_reason"] == layout.OFF_SPACE
    assert words["off_errno"] == errno.ENOSPC
    assert len(outcome.root.passes) >= 128 + 991
    assert 5000 <= len(outcome.root.passes) + words["lost_passes"] <= 5200
    assert outcome.root.damaged == outcome.root.holes == 0


@needs_mount
def test_a_full_disk_at_the_start(stage: Stage) -> None:
    moved, wrapper = on_small_disk(stage, "32k")
    outcome = moved.both("busy", "nothing", "", "1000", "1000", wrapper=wrapper)
    assert outcome.series == []


@needs_mount
def test_a_small_tmpfs_spills_into_the_session_folder(stage: Stage) -> None:
    """A container's /dev/shm is 64 MiB by default; what does not fit goes to the session's disk."""
    (stage.session / "active").unlink()
    (stage.session / "active").symlink_to(stage.folder / "disk" / "live")
    moved, wrapper = on_small_disk(stage, "320k", session=stage.session)
    outcome = moved.both("busy", "nothing", "", "1000", "9000", wrapper=wrapper)
    assert len(outcome.root.passes) >= 10_000
    assert outcome.root.words["lost_passes"] == 0
    assert list(stage.session.glob("*" + layout.SUFFIX))


@needs_mount
def test_the_64_mib_of_a_container(stage: Stage) -> None:
    """A pass by ``gc.collect`` costs 224 bytes, its mark included."""
    megabytes = sized(4, 64)
    moved, wrapper = on_small_disk(stage, f"{megabytes}m")
    passes = megabytes * 7000
    outcome = moved.both("busy", "nothing", "", "1000", str(passes), wrapper=wrapper)
    words = outcome.root.words
    assert words["off_reason"] == layout.OFF_SPACE
    assert len(outcome.root.passes) > megabytes * 3000
    assert 1000 + passes <= len(outcome.root.passes) + words["lost_passes"] <= passes + 2000


def test_the_folder_is_removed(stage: Stage) -> None:
    stage.both("busy", "remove", f"{stage.live}:{stage.session}", "500", "2000")
    # Nobody builds again what the user has removed.
    assert not stage.session.exists()
    assert not stage.live.exists()


@needs_root
def test_the_user_changes(stage: Stage) -> None:
    outcome = stage.both("busy", "drop", "", "500", "2000")
    (root,) = outcome.series
    assert root.words["off_reason"] == layout.OFF_PERMISSION
    assert root.words["lost_passes"] > 1000
    assert len(root.passes) >= 500


@needs_root
def test_the_root_changes(stage: Stage) -> None:
    outcome = stage.both("busy", "jail", "", "500", "2000")
    (root,) = outcome.series
    assert root.words["off_reason"] == layout.OFF_FOLDER
    assert len(root.passes) >= 500
    assert list((stage.folder / "recorded" / "jail").iterdir()) == []


def test_no_descriptor_is_left(stage: Stage) -> None:
    outcome = stage.both("busy", "few_files", "", "128", "3000")
    root = outcome.root
    assert root.words["off_errno"] == errno.EMFILE
    assert root.words["lost_passes"] > 0
    assert 3628 <= len(root.passes) + root.words["lost_passes"] <= 3700
    assert len(root.passes) >= 128 + 500, "it goes on once there is room"


def test_files_may_not_grow(stage: Stage) -> None:
    outcome = stage.both("busy", "small_files", "", "128", "3000")
    assert outcome.root.words["off_reason"] == layout.OFF_SPACE
    assert outcome.root.words["off_errno"] == errno.EFBIG
    assert outcome.root.words["lost_passes"] > 0


@needs_mount
def test_a_site_packages_that_cannot_be_written(stage: Stage) -> None:
    code = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    wrapper = ("unshare", "-m", "sh", "-c", code, str(stage.target.folder))
    outcome = stage.both("busy", "nothing", "", "100", "100", wrapper=wrapper)
    assert len(outcome.root.passes) >= 200


@pytest.mark.parametrize("and_then", ["exit", "fork"])
def test_the_host_closes_our_descriptors(stage: Stage, and_then: str) -> None:
    """Files that the host opens under the numbers of ours are its own, to the last byte."""
    outcome = stage.both("closerange", "20000", and_then)
    assert len(outcome.root.passes) >= 20_000
    for run in ("plain", "recorded"):
        texts = [(stage.folder / run / f"file-{number}").read_text() for number in range(60)]
        assert texts == [f"first {number}\nsecond {number}\n" for number in range(60)]
