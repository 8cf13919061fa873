"""What the runs show: of each metric and arm an effect, of each arm whether the collector explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from frostline.experiment.ablation.doing import Done
from frostline.experiment.ablation.plan import Arm, Plan
from frostline.experiment.ablation.running import SCREEN, Run
from frostline.experiment.statistics import (
    IMPROVED,
    INCONCLUSIVE,
    LEVEL,
    REGRESSED,
    Effect,
    block_effect,
    effect,
    holm,
    interval,
    least_blocks,
)
from frostline.format.naming import means

#: What a sum of nothing counts as in a ratio, so that it has a logarithm: far below one full pass.
FLOOR = 1e-4
#: Pause seconds have fallen if their ratio is under this.
FELL = 0.9


@dataclass(frozen=True)
class Judged:
    """One metric of one arm against the control.

    Attributes:
        a, b: medians of the runs.
        effect: with ``p`` for this comparison alone.
        p_holm: over the arms that are compared.
        verdict: of all that; a significance that Holm takes away is INCONCLUSIVE.
        needed: blocks in all, where that can be said.
        worst: the farthest that two runs of the control in one block were from each other, as a ratio; None
            where a block has one.
    """

    metric: str
    arm: str
    higher_is_better: bool
    a: float
    b: float
    effect: Effect
    p_holm: float
    verdict: str
    needed: int | None
    worst: float | None


@dataclass(frozen=True)
class Mechanism:
    """Whether the treated processes really paused less.

    Attributes:
        roles: processes that the arm treats, as the recordings name them.
        a, b: median pause seconds of theirs in a window. full_a, full_b: full passes, medians.
        longest_a, longest_b: of all windows, ms. walked_a, walked_b: by full passes, medians; None where
            it is not known.
        memory_a, memory_b: MiB of the whole server at the end of the load, medians; 0 where not known.
        ratio: of the pause seconds, by block.
        fell: it is under FELL, and its interval under 1; never with too few blocks for one.
        explained: an effect is there and they fell; None where there is no effect to explain.
    """

    arm: str
    roles: tuple[str, ...]
    a: float
    b: float
    full_a: float
    full_b: float
    longest_a: float
    longest_b: float
    walked_a: float | None
    walked_b: float | None
    memory_a: float
    memory_b: float
    ratio: float
    fell: bool
    explained: bool | None


@dataclass(frozen=True)
class Interaction:
    """All roles together against the sum of each alone, of the first metric.

    Attributes:
        alone: role -> ratio of it alone.
        last: role -> what treating it adds when all others are treated: all over all but it.
        together: ratio of all. product: of each alone.
        factor: together over product; low, high its 95 % interval by inverting the sign flip over blocks.
    """

    metric: str
    alone: dict[str, float]
    last: dict[str, float]
    together: float
    product: float
    factor: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Outcome:
    """All that an experiment shows. ``blocks`` are whole ones, in which every arm has its runs."""

    plan: Plan
    done: Done
    blocks: int
    least: int
    judged: tuple[Judged, ...]
    mechanisms: tuple[Mechanism, ...]
    interaction: Interaction | None
    no_interaction: str

    @property
    def untreated(self) -> tuple[str, ...]:
        """Processes that paused and that no arm is about, where the arms are made of roles."""
        if not self.plan.roles:
            return ()
        paused = {
            name for run in self.done.runs for name, role in run.roles.items() if role["pause_s"] > FLOOR
        }
        return tuple(
            name for name in sorted(paused) if not any(means(role, name) for role in self.plan.roles)
        )

    @property
    def unseen(self) -> tuple[str, ...]:
        """Roles of the plan that no recording has: a name that is wrong."""
        seen = {name for run in self.done.runs for name in run.roles}
        return tuple(role for role in self.plan.roles if not any(means(role, name) for name in seen))

    @property
    def main(self) -> tuple[Judged, ...]:
        """What the experiment is about: the first metric, an entry an arm."""
        return tuple(one for one in self.judged if one.metric == self.plan.load.metrics[0][0])


def judge(plan: Plan, done: Done) -> Outcome:
    """Judges what there is; with no whole block ``judged`` is empty."""
    arms = done.confirmed
    blocks = _blocks(done, arms, plan.each)
    least = least_blocks(LEVEL, max(1, len(arms) - 1))
    judged: list[Judged] = []
    mechanisms: list[Mechanism] = []
    if blocks and len(arms) > 1:
        for name, higher in plan.load.metrics:
            judged += _metric(plan, blocks, arms, name, higher)
        main = {one.arm: one for one in judged if one.metric == plan.load.metrics[0][0]}
        mechanisms = [_mechanism(blocks, arms[0], arm, main.get(arm.name)) for arm in arms[1:]]
    found, why = _interaction(plan, blocks, arms)
    return Outcome(plan, done, len(blocks), least, tuple(judged), tuple(mechanisms), found, why)


Block = dict[str, list[Run]]


def _blocks(done: Done, arms: Sequence[Arm], each: int) -> list[Block]:
    """The whole ones: arm -> its valid runs."""
    found: dict[int, Block] = {}
    for run in done.runs:
        if run.block != SCREEN and run.valid:
            found.setdefault(run.block, {}).setdefault(run.arm, []).append(run)
    whole = []
    for number in sorted(found):
        if all(len(found[number].get(arm.name, ())) == each for arm in arms):
            whole.append(found[number])
    return whole


def median(values: Sequence[float]) -> float:
    """Of at least one value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _metric(plan: Plan, blocks: list[Block], arms: Sequence[Arm], name: str, higher: bool) -> list[Judged]:
    if not all(name in run.metrics for block in blocks for runs in block.values() for run in runs):
        return []
    control = arms[0].name
    of = [{arm: [run.metrics[name] for run in runs] for arm, runs in block.items()} for block in blocks]
    worst = None if plan.pairs else max(max(two[control]) / min(two[control]) for two in of)
    others = arms[1:]
    effects = [effect([(two[control], two[arm.name]) for two in of], higher, plan.margin) for arm in others]
    judged = []
    for arm, one, p in zip(others, effects, holm([one.p for one in effects]), strict=True):
        verdict, needed = one.verdict, one.needed
        fewest = least_blocks(LEVEL, len(others))
        if one.blocks < fewest:
            verdict, needed = INCONCLUSIVE, max(fewest, needed or 0)
        elif verdict in (IMPROVED, REGRESSED) and p > LEVEL:
            verdict, needed = INCONCLUSIVE, max(fewest, one.blocks + 1)
        elif verdict == INCONCLUSIVE and needed is not None:
            needed = max(needed, fewest)
        a, b = (median([value for two in of for value in two[which]]) for which in (control, arm.name))
        judged.append(Judged(name, arm.name, higher, a, b, one, p, verdict, needed, worst))
    return judged


def treated(arm: Arm, roles: Sequence[str]) -> tuple[str, ...]:
    """Of the roles that recordings name, those that the arm's policy is for."""
    if not arm.roles:
        return tuple(roles)
    return tuple(r for r in roles if any(means(wanted, r) for wanted in arm.roles) != arm.others)


def _sum(run: Run, roles: Sequence[str], what: str) -> float:
    return float(sum(run.roles[role][what] for role in roles if role in run.roles))


def _mechanism(blocks: list[Block], control: Arm, arm: Arm, judged: Judged | None) -> Mechanism:
    a, b = ([run for block in blocks for run in block[which.name]] for which in (control, arm))
    named = sorted({role for run in (*a, *b) for role in run.roles})
    roles = treated(arm, named)
    by_block = [
        block_effect(
            [max(FLOOR, _sum(run, roles, "pause_s")) for run in block[control.name]],
            [max(FLOOR, _sum(run, roles, "pause_s")) for run in block[arm.name]],
        )
        for block in blocks
    ]
    ratio = math.exp(sum(by_block) / len(by_block))
    ends = interval(by_block)
    fell = ratio < FELL and ends is not None and ends[1] < 0
    there = judged is not None and judged.verdict in (IMPROVED, REGRESSED)
    pause, full = (
        [median([_sum(run, roles, what) for run in runs]) for runs in (a, b)] for what in ("pause_s", "full")
    )
    return Mechanism(
        arm=arm.name,
        roles=roles,
        a=pause[0],
        b=pause[1],
        full_a=full[0],
        full_b=full[1],
        longest_a=max(_longest(run, roles) for run in a),
        longest_b=max(_longest(run, roles) for run in b),
        walked_a=_walked(a, roles),
        walked_b=_walked(b, roles),
        memory_a=median([run.memory_mib for run in a]),
        memory_b=median([run.memory_mib for run in b]),
        ratio=ratio,
        fell=fell and bool(roles),
        explained=(fell and bool(roles)) if there else None,
    )


def _longest(run: Run, roles: Sequence[str]) -> float:
    return max((float(run.roles[role]["longest_ms"]) for role in roles if role in run.roles), default=0.0)


def _walked(runs: Sequence[Run], roles: Sequence[str]) -> float | None:
    if any(_sum(run, roles, "unknown") for run in runs):
        return None
    return median([_sum(run, roles, "walked") for run in runs])


def _interaction(plan: Plan, blocks: list[Block], arms: Sequence[Arm]) -> tuple[Interaction | None, str]:
    if len(plan.roles) < 2:
        return None, ""
    name = plan.load.metrics[0][0]
    there = {arm.name for arm in arms}
    alone = {role: f"{role} alone" for role in plan.roles}
    if not {*alone.values(), "all"} <= there:
        return None, "not by the clock: not every role alone was confirmed; the screening shows the counts"
    if not blocks:
        return None, "no block is complete"
    control = arms[0].name

    def of(which: str) -> list[float]:
        return [
            block_effect(
                [run.metrics[name] for run in block[control]], [run.metrics[name] for run in block[which]]
            )
            for block in blocks
        ]

    each = {role: of(arm) for role, arm in alone.items()}
    together = of("all")
    beyond = [together[i] - sum(effects[i] for effects in each.values()) for i in range(len(blocks))]
    ends = interval(beyond)

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    last: dict[str, float] = {}
    for role in plan.roles:
        without = f"all but {role}"
        if len(plan.roles) == 2:  # all but this one is the other one alone
            without = next(alone[other] for other in plan.roles if other != role)
        if without in there:
            last[role] = math.exp(mean(together) - mean(of(without)))
    return Interaction(
        name,
        {role: math.exp(mean(effects)) for role, effects in each.items()},
        last,
        math.exp(mean(together)),
        math.exp(mean(together) - mean(beyond)),
        math.exp(mean(beyond)),
        *((math.exp(ends[0]), math.exp(ends[1])) if ends else (None, None)),
    ), ""
