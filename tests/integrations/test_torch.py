"""A DataLoader's workers are frozen before their first index, and keep what they inherited (C1, C9)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

LOADER = """
    import gc, os, sys
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __init__(self): self.rows = [[i] for i in range(60_000)]
        def __len__(self): return 4
        def __getitem__(self, index):
            moments = sys.modules["frostline.policy.moments"]
            return os.getpid(), gc.get_freeze_count(), moments.in_flight(), len(gc.get_objects())

    def initialize(worker):
        initialize.heap = [[i] for i in range(30_000)]

    if __name__ == "__main__":
        loader = DataLoader(
            Rows(), batch_size=None, num_workers=2, worker_init_fn=initialize,
            persistent_workers=True, multiprocessing_context=sys.argv[1],
        )
        first, second = [list(loader) for epoch in range(2)]
        assert {pid for pid, *_ in first} == {pid for pid, *_ in second}
        for pid, frozen, in_flight, tracked in first + second:
            assert pid != os.getpid() and frozen >= 90_000 and in_flight == 1 and tracked < 10_000, first
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_is_frozen_before_its_first_index(tmp_path: Path, method: str) -> None:
    program = tmp_path / "loader.py"
    program.write_text(textwrap.dedent(LOADER))
    done = subprocess.run(
        [sys.executable, str(program), method],
        env={**os.environ, "FROSTLINE_POLICY": "freeze"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
