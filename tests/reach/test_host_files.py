"""What the host sampler reads, from texts as kernels write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frostline.reach import hostfiles

V1 = "33 31 0:29 / {folder} rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V1_FROM_BELOW = "33 31 0:29 /docker/abc {folder} rw - cgroup cgroup rw,cpu\n"
V2 = "41 31 0:38 / {folder} rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
OTHER = "36 31 0:33 / /elsewhere rw - cgroup cgroup rw,memory\n40 31 0:37 / / rw - ext4 /dev/vda rw\n"


def tree(folder: Path, *paths: str) -> str:
    for path in ("", *paths):
        (folder / path).mkdir(parents=True, exist_ok=True)
        (folder / path / "cpu.stat").write_text("nr_periods 0\n")
    return str(folder)


def test_a_process_in_a_cgroup_of_version_1_and_those_above_it(tmp_path: Path) -> None:
    root = tree(tmp_path, "pods", "pods/one")
    (found,) = hostfiles.hierarchies(OTHER + V1.format(folder=root))
    text = "9:name=systemd:/\n4:memory:/elsewhere\n1:cpu,cpuacct:/pods/one\n0::/\n"
    assert found.version == 1
    assert found.folders(text) == [f"{root}/pods/one", f"{root}/pods", root]


def test_a_container_that_sees_its_own_cgroup_only(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (found,) = hostfiles.hierarchies(V1_FROM_BELOW.format(folder=root))
    assert found.folders("1:cpu:/docker/abc\n") == [root]
    (found,) = hostfiles.hierarchies(V2.format(folder=root))
    assert (found.version, found.folders("0::/\n")) == (2, [root])
    # Moved out of what is mounted here: only what is seen counts.
    assert found.folders("0::/../sibling\n") == [root]


def test_no_hierarchy_with_a_quota(tmp_path: Path) -> None:
    assert hostfiles.hierarchies(OTHER) == []
    (found,) = hostfiles.hierarchies(V1.format(folder=tmp_path))
    assert found.folders("4:memory:/\n") == []


@pytest.mark.parametrize(
    ("name", "text", "limited"),
    [
        ("cpu.max", "max 100000\n", False),
        ("cpu.max", "20000 100000\n", True),
        ("cpu.cfs_quota_us", "-1\n", False),
        ("cpu.cfs_quota_us", "20000\n", True),
    ],
)
def test_which_cgroup_can_throttle(tmp_path: Path, name: str, text: str, limited: bool) -> None:
    assert not hostfiles.has_quota(str(tmp_path))
    (tmp_path / name).write_text(text)
    assert hostfiles.has_quota(str(tmp_path)) is limited


def test_both_forms_of_cpu_stat() -> None:
    one = b"nr_periods 12\nnr_throttled 3\nthrottled_time 250000000\nnr_bursts 0\n"
    two = b"usage_usec 9\nuser_usec 5\nnr_periods 12\nnr_throttled 3\nthrottled_usec 250000\n"
    assert hostfiles.throttling(one) == hostfiles.throttling(two) == [12, 3, 250_000]
    assert hostfiles.throttling(b"") == [0, 0, 0]


def test_a_name_with_parentheses_and_spaces() -> None:
    rest = " ".join(str(i) for i in range(4, 53))
    stat = hostfiles.Stat(f"77 (a) (b c)) S {rest}\n".encode())
    assert chr(stat.state) == "S"
    assert (stat.minor, stat.major, stat.user, stat.system) == (10, 12, 14, 15)
    assert (stat.threads, stat.start, stat.processor, stat.disk) == (20, 22, 39, 42)
    with pytest.raises(ValueError):
        hostfiles.Stat(b"")


def test_our_own_process_reads_as_it_is() -> None:
    pid = os.getpid()
    file = hostfiles.File(f"/proc/{pid}/task/{pid}/schedstat")
    first, second = hostfiles.schedstat(file.read()), hostfiles.schedstat(file.read())
    file.close()
    assert first is not None and second is not None
    assert all(a <= b for a, b in zip(first, second, strict=True)) and first[0] > 0
    assert file.read() == b"" and hostfiles.File("/proc/none").read() == b""
    assert hostfiles.schedstat(b"0 0") is None
