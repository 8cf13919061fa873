"""What an A/B experiment in blocks shows, and what it does not (docs/ablate.md, "What it says").

A block is A B B A: four runs, of fresh processes each. Its effect is ``d = (ln B1 + ln B2 - ln A1 - ln A2)
/ 2``,
so that a drift over the block falls out of it. All else rests on the blocks' effects: requests within a
run are no
repetitions (Kalibera and Jones, 2013). The test is the exact sign flip: were A and B the same, each
block's effect could as
well have come with the other sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.05
#: Within this share of 1 an effect counts as none, unless set.
MARGIN = 0.02
#: Blocks up to which all sign flips are tried; above, that many are drawn.
EXACT = 16
DRAWN = 50_000

IMPROVED, REGRESSED, NO_EFFECT, INCONCLUSIVE = "improved", "regressed", "no measurable effect", "inconclusive"


@dataclass(frozen=True)
class Effect:
    """What the blocks say of one metric.

    Attributes:
        ratio: B over A, ``exp`` of the mean of the blocks' effects.
        low, high: 95 % interval of the ratio, by inverting the test; None where there are too few blocks
        for one.
        p: two-sided, exact up to ``EXACT`` blocks.
        blocks: how many.
        noise: what A against A, or B against B, differs by in such an experiment, as a ratio: the 95 %
        bound of its
            mean over as many blocks, from the runs of one arm within a block.
        verdict: IMPROVED, REGRESSED, NO_EFFECT or INCONCLUSIVE.
        needed: blocks in all with which the same data would decide, None where that cannot be said, or
        need not.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float
    blocks: int
    noise: float | None
    verdict: str
    needed: int | None


def block_effect(a: Sequence[float], b: Sequence[float]) -> float:
    """``d`` of one block: mean of the logarithms of B less that of A.

    Raises:
        ValueError: a value that is not positive, which has no logarithm.
    """
    if min(*a, *b) <= 0:
        raise ValueError("a metric in ratios must be positive")
    return sum(map(math.log, b)) / len(b) - sum(map(math.log, a)) / len(a)


def least_blocks(level: float = LEVEL, arms: int = 1) -> int:
    """The fewest blocks with which any of ``arms`` comparisons could be significant: ``2 / 2**n <= level /
    arms``."""
    return math.ceil(math.log2(2 * arms / level))


def sign_flip(effects: Sequence[float], shift: float = 0.0, seed: int = 0) -> float:
    """Two-sided p of the mean of ``effects`` against ``shift``."""
    moved: Floats = np.asarray(effects, np.float64) - shift
    seen = abs(float(moved.sum()))
    sums = np.abs(_signs(len(moved), seed) @ moved)
    # The flips that give the very sum seen must count, whatever the last bit says.
    as_far = int(np.count_nonzero(sums >= seen - 1e-12 * max(1.0, float(np.abs(moved).sum()))))
    if len(moved) <= EXACT:
        return as_far / len(sums)
    return (as_far + 1) / (len(sums) + 1)


def _signs(count: int, seed: int) -> Floats:
    if count <= EXACT:
        bits = (np.arange(2**count)[:, None] >> np.arange(count)[None, :]) & 1
        return (2.0 * bits - 1.0).astype(np.float64)
    return np.random.default_rng(seed).choice((-1.0, 1.0), size=(DRAWN, count))


def interval(effects: Sequence[float], level: float = LEVEL, seed: int = 0) -> tuple[float, float] | None:
    """The shifts (of the mean, in logarithms) that the test does not refuse at ``level``.

    None where there are too few blocks for it to refuse any. The means of all subsets of the effects part
    the line into stretches that are equally likely to hold the true value (Hartigan, 1969: typical values),
    so the interval runs from the k-th smallest to the k-th largest of them.
    """
    count = len(effects)
    if count < least_blocks(level):
        return None
    values: Floats = np.asarray(effects, np.float64)
    chosen = (_signs(count, seed) + 1) / 2
    chosen = chosen[chosen.any(axis=1)]
    means = np.sort(chosen @ values / chosen.sum(axis=1))
    k = int(level * (len(means) + 1) / 2)
    return float(means[k - 1]), float(means[-k])


def noise_of(pairs: Sequence[tuple[float, float]], blocks: int) -> float | None:
    """What two equal arms would differ by, as a ratio: 1.96 standard deviations of the mean of ``blocks``
    blocks.

    Args:
        pairs: two runs of one arm in one block; their logarithms differ by noise (and drift) alone.
    """
    if not pairs or not blocks:
        return None
    # Var(ln x - ln y) = 2 s**2, and a block's effect of two runs an arm has variance s**2.
    squares = [math.log(one / other) ** 2 / 2 for one, other in pairs]
    return math.exp(1.96 * math.sqrt(sum(squares) / len(squares) / blocks))


def effect(
    blocks: Sequence[tuple[Sequence[float], Sequence[float]]],
    higher_is_better: bool,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> Effect:
    """Judges one metric.

    Args:
        blocks: (values of A, values of B) of each block, all positive.
        higher_is_better: throughput, say; else a time.
        margin: within it an effect counts as none.
        level: of the test; over several arms, Holm's (``holm``).
    """
    effects = [block_effect(a, b) for a, b in blocks]
    count = len(effects)
    mean = sum(effects) / count
    ends = interval(effects, level)
    p = sign_flip(effects)
    pairs = [(arm[0], arm[1]) for block in blocks for arm in block if len(arm) == 2]
    noise = noise_of(pairs, count)
    verdict = _verdict(effects, ends, noise, higher_is_better, margin)
    needed = _needed(mean, ends, count, margin, level) if verdict == INCONCLUSIVE else None
    low, high = (math.exp(ends[0]), math.exp(ends[1])) if ends else (None, None)
    return Effect(math.exp(mean), low, high, p, count, noise, verdict, needed)


def _verdict(
    effects: Sequence[float],
    ends: tuple[float, float] | None,
    noise: float | None,
    higher_is_better: bool,
    margin: float,
) -> str:
    mean = sum(effects) / len(effects)
    if ends is not None and (ends[0] > 0 or ends[1] < 0) and (noise is None or abs(mean) > math.log(noise)):
        return IMPROVED if (mean > 0) == higher_is_better else REGRESSED
    narrow = interval(effects, 0.10)
    bound = math.log1p(margin)
    if narrow is not None and -bound <= narrow[0] and narrow[1] <= bound:
        return NO_EFFECT
    return INCONCLUSIVE


def _needed(
    mean: float, ends: tuple[float, float] | None, count: int, margin: float, level: float
) -> int | None:
    """Blocks with which an interval that narrows as 1/sqrt(n) round the same mean would decide."""
    least = least_blocks(level)
    if ends is None:
        return least
    half = max(ends[1] - mean, mean - ends[0])
    bound = math.log1p(margin)
    room = abs(mean) if abs(mean) > bound else bound - abs(mean)
    if room < half / 30:
        return None  # a thousand times as many: nobody will
    return max(least, count + 1, math.ceil(count * (half / room) ** 2))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p of several comparisons (1979), in the order given."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted = [0.0] * len(ps)
    least = 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = least
    return adjusted


def order(arms: int, block: int, seed: int = 0) -> list[int]:
    """The order of runs in one block: each arm once, then mirrored, so that a drift falls out.

    Arm 0 is the control. Of two arms blocks are A B B A and B A A B in turn; of more, shuffled anew for
    each block.
    """
    forward = list(range(arms))
    if arms == 2:
        if block % 2:
            forward.reverse()
    else:
        np.random.default_rng((seed, block)).shuffle(forward)
    return forward + forward[::-1]
