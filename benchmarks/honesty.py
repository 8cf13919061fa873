"""How often an experiment claims what is not there, and finds what is: the judge of ``frostline ablate``.

2,000 simulated A-against-A experiments with the noise of real runs (log-normal, with a drift and with busy
spells that last over several runs), each judged as ``ablate`` judges: with one arm and six blocks, and with
three arms and seven. False claims may be at most 5 % by an exact binomial test, over the arms together.
The same with a fixed order A A B B and a t-test is shown beside it.

The noise is that of a pool of real runs of one server without a difference between its arms: made here with
``ablate`` itself (24 runs, some two minutes), or FROSTLINE_HONESTY_POOL, the results.jsonl of an experiment,
whose control's runs are taken (both arms', of one made here). Splits of the pool at random into two arms are
described and not tested: they share their runs.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common import Interpreter, Result
from frostline.experiment.ablation import doing
from frostline.experiment.ablation.plan import of
from frostline.experiment.statistics import (
    IMPROVED,
    INCONCLUSIVE,
    LEVEL,
    NO_EFFECT,
    REGRESSED,
    effect,
    holm,
    order,
)

Floats = npt.NDArray[np.float64]

EXPERIMENTS = 2_000
POOL = 24
TRUE = 0.97
SERVER = Path(__file__).resolve().parent.parent / "tests" / "experiment" / "paused.py"
CLAIMS = (IMPROVED, REGRESSED)


def measure(interpreter: Interpreter) -> list[Result]:
    values, how = pool()
    # Neighbours in time: their differences are the noise without the drift.
    spread = float(np.sqrt(np.mean(np.diff(np.log(values)) ** 2) / 2))
    seen = f"{len(values)} real runs ({how}); a run's noise {spread:.1%}"
    results = []
    for arms, blocks in ((1, 6), (3, 7)):
        verdicts = [simulated(arms, blocks, spread, 1.0, seed) for seed in range(EXPERIMENTS)]
        false = sum(any(one in CLAIMS for one in each) for each in verdicts)
        chance = at_least(false, EXPERIMENTS, LEVEL)
        text = f"{false} of {EXPERIMENTS:,} ({false / EXPERIMENTS:.1%})"
        results.append(
            Result(
                f"false claims, arms: {arms}, blocks: {blocks}", text,
                "at most 5 %, exact binomial", chance > LEVEL,
                f"chance of so many at 5 %: {chance:.3f}; noise of {seen}",
            )
        )  # fmt: skip
    naive = sum(fixed_order(spread, seed) for seed in range(EXPERIMENTS))
    text = f"{naive} of {EXPERIMENTS:,} ({naive / EXPERIMENTS:.0%})"
    how = "the same drift; twelve runs of A, then twelve of B, as most before-and-after figures"
    results.append(Result("false claims of A..A B..B and a t-test", text, "shown", None, how))
    for blocks in (6, 12, 24):
        told = [simulated(1, blocks, spread, TRUE, seed)[0] for seed in range(EXPERIMENTS // 4)]
        share = {one: told.count(one) / len(told) for one in (IMPROVED, REGRESSED, NO_EFFECT, INCONCLUSIVE)}
        text = ", ".join(f"{one} {part:.0%}" for one, part in share.items())
        results.append(
            Result(
                f"power for a true 3 %, {blocks} blocks", text, "shown", None, f"{4 * blocks} runs; {seen}"
            )
        )
    results.append(splits(values))
    return results


def pool() -> tuple[Floats, str]:
    """The first metric of valid runs without a difference, in the order in which they were made."""
    given = os.environ.get("FROSTLINE_HONESTY_POOL")
    if given:
        head, *lines = (json.loads(line) for line in Path(given).read_text().splitlines())
        runs = [line["run"] for line in lines if not line["run"]["why"]]
        same = {arm["name"] for arm in head["arms"] if not arm["policy"]}
        values = [next(iter(run["metrics"].values())) for run in runs if run["arm"] in same]
        return np.array(values), f"{len(values)} of {given}"
    port = 20_000 + os.getpid() % 10_000
    with tempfile.TemporaryDirectory(prefix="frostline-honesty-") as folder:
        url = f"http://127.0.0.1:{port}/"
        plan = of(
            {
                "server": {
                    "command": [sys.executable, str(SERVER), str(port), f"{folder}/starts"],
                    "ready-url": f"{url}health",
                    "options": ["--no-host", "--no-counters"],
                },
                "load": {"url": url, "rate": 20, "metrics": {"p50": "lower"}},
                "run": {"blocks": POOL // 4, "warmup": 0.5, "window": 2.0, "drain": 0, "tries": 20},
                "arm": [{"name": "A"}, {"name": "also A"}],
            }
        )

        def shown(name: str, what: str, left: float | None) -> None:
            if what == "load":
                print(f"{'':12s} honesty: {name}", file=sys.stderr, flush=True)

        done = doing.perform(plan, Path(folder) / "runs", shown)
    values = [run.metrics["p50"] for run in done.runs if run.valid]
    return np.array(values), "p50 of the tests' two-process server, both arms stock"


def noise(runs: int, spread: float, rng: np.random.Generator) -> Floats:
    """Logarithms of a metric over the runs of an experiment: drift, busy spells, and a run's own noise."""
    drift = np.linspace(0, rng.normal(0, 4 * spread), runs)
    spells = np.repeat(rng.normal(0, spread, runs // 3 + 1), 3)[:runs]
    found: Floats = drift + spells + rng.normal(0, spread, runs)
    return found


def simulated(arms: int, blocks: int, spread: float, ratio: float, seed: int) -> list[str]:
    """The verdicts, one an arm, as ``judging`` makes them."""
    rng = np.random.default_rng((11, arms, blocks, seed))
    each = 2 * (arms + 1)
    logs = noise(blocks * each, spread, rng)
    rows: list[list[list[float]]] = []
    for block in range(blocks):
        of_arm: list[list[float]] = [[] for _ in range(arms + 1)]
        for place, arm in enumerate(order(arms + 1, block, seed)):
            of_arm[arm].append(math.exp(logs[block * each + place]) * (ratio if arm else 1.0))
        rows.append(of_arm)
    effects = [effect([(row[0], row[arm]) for row in rows], False) for arm in range(1, arms + 1)]
    adjusted = holm([one.p for one in effects])
    return [
        INCONCLUSIVE if one.verdict in CLAIMS and p > LEVEL else one.verdict
        for one, p in zip(effects, adjusted, strict=True)
    ]


def fixed_order(spread: float, seed: int) -> bool:
    """Whether Welch's t-test finds an effect at 5 % between the first twelve runs and the next."""
    logs = noise(24, spread, np.random.default_rng((13, seed)))
    a, b = logs[:12], logs[12:]
    error = math.sqrt(float(a.var(ddof=1) + b.var(ddof=1)) / 12)
    return abs(float(b.mean() - a.mean())) > 2.074 * error  # t(22), 97.5 %


def at_least(count: int, of_all: int, share: float) -> float:
    """P(X >= count) of a binomial distribution."""
    logs = [
        math.lgamma(of_all + 1) - math.lgamma(k + 1) - math.lgamma(of_all - k + 1)
        + k * math.log(share) + (of_all - k) * math.log1p(-share)
        for k in range(count, of_all + 1)
    ]  # fmt: skip
    return math.fsum(map(math.exp, logs))


def splits(values: Floats) -> Result:
    """Random splits of the pool into six blocks of two and two."""
    what = "random splits of the real runs into two arms"
    if len(values) < POOL:
        return Result(what, f"{len(values)} runs", f"at least {POOL}", None, "too few to describe")
    told = []
    for seed in range(500):
        drawn = np.random.default_rng((17, seed)).permutation(values)[:POOL].reshape(-1, 4).tolist()
        told.append(effect([(row[:2], row[2:]) for row in drawn], False).verdict)
    text = ", ".join(f"{one} {told.count(one) / len(told):.1%}" for one in sorted(set(told)))
    return Result(what, text, "shown", None, "500 splits; described, not tested: they share their runs")
