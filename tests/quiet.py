"""A cgroup of our own, so that what else runs on a machine is no neighbour; where one can be made."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from frostline.reach import hostfiles


@contextlib.contextmanager
def cgroup() -> Iterator[str]:
    """The folder of a cgroup with most of the CPU's weight and a quota that does not bind; or nothing."""
    folder = _make()
    try:
        yield folder
    finally:
        if folder:
            with contextlib.suppress(OSError):  # a process of it still ends
                Path(folder).rmdir()


def inside(folder: str, *command: str) -> list[str]:
    """The command as it begins in that cgroup; as it is without one."""
    if not folder:
        return [*command]
    return ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh", *command]


def _make() -> str:
    for hierarchy in hostfiles.hierarchies():
        with contextlib.suppress(OSError):
            for folder in hierarchy.folders(Path("/proc/self/cgroup").read_text())[-1:]:
                mine = Path(folder) / f"frostline-test-{os.getpid()}"
                mine.mkdir()
                two = hierarchy.version == 2
                name, text = ("cpu.max", "400000 100000") if two else ("cpu.cfs_quota_us", "400000")
                if (mine / name).exists():
                    (mine / name).write_text(text)
                    (mine / ("cpu.weight" if two else "cpu.shares")).write_text("10000" if two else "200000")
                    return str(mine)
                mine.rmdir()
    return ""
