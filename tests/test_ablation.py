"""The arithmetic of ``benchmarks.ablation``: stalls seen by clients, shares removed, and the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import ablation
from benchmarks.ablation import ARMS, ROLES, Run

MS = 1_000_000


def runs(blocks: int, treated: dict[str, float], said: dict[str, float], noise: float = 0.0) -> list[Run]:
    """Stock runs of 10 s of stalls, and arms that leave what ``treated`` says."""
    found = []
    for block in range(blocks):
        for arm in ARMS:
            stall = treated.get(arm, 10.0) + noise * (-1) ** block
            found.append(Run(arm, block, stall, 50, 60.0, said if arm == "stock" else {}, {}))
    return found


def test_each_arm_comes_at_each_place() -> None:
    orders = [ablation.order(block) for block in range(10)]
    assert all(sorted(one) == sorted(ARMS) for one in orders)
    forwards, backwards = orders[::2], orders[1::2]
    for half in (forwards, backwards):
        for arm in ARMS:
            assert sorted(one.index(arm) for one in half) == list(range(5))


def test_stalls_are_times_in_which_nothing_came() -> None:
    at = [step * 8 * MS for step in range(100)]
    at = [*at, *(one + 1000 for one in at)]  # two streams
    late = [one + (200 * MS if one > 404 * MS else 0) for one in at]
    start, stop, median = ablation.stalls(np.array(late, np.int64))
    assert ((stop - start) // MS).tolist() == [207] and 7.9 * MS < median <= 8 * MS


def test_shares_that_agree_and_shares_that_do_not() -> None:
    treated = {"front end": 9.0, "engine core": 7.0, "workers": 4.5, "all": 0.5}
    near = {"front end": 1.2, "engine core": 3.4, "workers": 5.0}
    good = ablation.judge(runs(6, treated, near), 6)
    assert [r.passed for r in good] == [True, True, True, None, True]  # all together is only shown
    busy = [replace(run, others=2.0 if run.block == 3 else 0.1) for run in runs(6, treated, near)]
    assert {r.passed for r in ablation.judge(busy, 6)} == {None}
    far = {"front end": 4.0, "engine core": 3.4, "workers": 1.0}
    results = {r.what: r.passed for r in ablation.judge(runs(6, treated, far), 6)}
    assert [results[f"{name} against ablation"] for name in ROLES] == [False, True, False]
    assert results["ranking of the roles"] is False


@pytest.mark.parametrize(("blocks", "noise"), [(3, 0.0), (6, 5.0)])
def test_too_few_blocks_or_too_much_noise_is_no_answer(blocks: int, noise: float) -> None:
    treated = {"front end": 9.0, "engine core": 7.0, "workers": 4.5, "all": 0.5}
    noisy = [
        Run(r.arm, r.block, r.stall + (noise if r.arm == "workers" else 0), r.gaps, r.seconds,
            r.attributed, r.passes) if r.block % 2 else r
        for r in runs(blocks, treated, {"front end": 1.0, "engine core": 3.0, "workers": 5.0})
    ]  # fmt: skip
    results = {r.what: r.passed for r in ablation.judge(noisy, blocks)}
    assert results["workers against ablation"] is None and results["ranking of the roles"] is None
