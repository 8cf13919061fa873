"""What an experiment shows, for people: lines and tables. ``ablate`` and ``try`` print the same."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.experiment.ablation.doing import estimate
from frostline.experiment.ablation.judging import Judged, Mechanism, Outcome
from frostline.experiment.ablation.plan import Plan
from frostline.experiment.ablation.running import SCREEN, Run
from frostline.experiment.statistics import (
    IMPROVED,
    INCONCLUSIVE,
    LEVEL,
    NO_EFFECT,
    REGRESSED,
)
from frostline.report import Block, Line, Table

_STYLES = {IMPROVED: "good", REGRESSED: "bad", NO_EFFECT: "headline", INCONCLUSIVE: "bad"}


def minutes(seconds: float) -> str:
    """A time to wait, roughly."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def many(number: int, word: str, words: str = "") -> str:
    """A number and what it is of."""
    return f"{number} {word if number == 1 else words or word + 's'}"


def before(plan: Plan) -> Iterator[Block]:
    """What it will take, said before it starts."""
    runs, seconds = estimate(plan)
    screened = f", after a screening of {len(plan.arms)} arms, one run each" if plan.screened else ""
    time = "as long as the load takes each" if plan.load.command else minutes(seconds)
    often = "once" if plan.pairs else "twice"
    yield Line(
        f"{many(plan.blocks, 'block')} of {plan.compared + 1} arms, {often} each{screened}: {runs} runs, "
        f"{time}, and {runs} starts of the server"
    )
    need = "needs" if plan.compared == 1 else "need"
    comparisons = f"{many(plan.compared, 'comparison')} {need}"
    if plan.blocks < plan.least:
        yield Line(
            f"{many(plan.blocks, 'block')} cannot conclude anything: {comparisons} {plan.least} "
            f"(2 / 2^n <= {LEVEL:g} / {plan.compared})",
            "bad",
        )
    else:
        yield Line(
            f"{comparisons} {plan.least} blocks at least (2 / 2^n <= {LEVEL:g} / {plan.compared})",
            "quiet",
        )


def after(outcome: Outcome) -> Iterator[Block]:
    """The result."""
    yield from _head(outcome)
    yield from _effects(outcome)
    yield from _mechanisms(outcome)
    yield from _interaction(outcome)
    yield from _screening(outcome)
    yield from _runs(outcome)


def sentence(one: Judged, mechanism: Mechanism | None, plan: Plan) -> str:
    """One arm's result on one metric."""
    effect = one.effect
    way = "higher" if one.higher_is_better else "lower"
    between = f"95 % {effect.low:.3f} to {effect.high:.3f}" if effect.low is not None else "no interval yet"
    words = f"{one.arm}: {one.verdict}. {one.metric} ({way} is better) x {effect.ratio:.3f} ({between}"
    words += f", {many(effect.blocks, 'block')}, p {one.p_holm:.3f})"
    if one.verdict == INCONCLUSIVE:
        if one.needed is not None:
            words += f". About {one.needed} blocks in all would decide it"
        else:
            words += ". With this noise no number of blocks that anybody makes would decide it"
    if one.verdict == NO_EFFECT:
        words += f": the 90 % interval lies within {plan.margin:.0%} of 1"
    if mechanism is None or mechanism.explained is None:
        return words
    if not mechanism.explained:
        return f"{words}. The effect is not explained by the collector: pause seconds did not fall"
    if one.verdict == REGRESSED:
        return f"{words}. The pauses did fall: the arm costs more than they did"
    return f"{words}. Pause seconds of what it treats fell with it"


def _head(outcome: Outcome) -> Iterator[Block]:
    plan = outcome.plan
    if not outcome.blocks:
        yield Line("Nothing is concluded: no block is complete.", "bad")
        return
    if outcome.blocks < outcome.least:
        yield Line(
            f"Nothing is concluded: {many(outcome.blocks, 'block')}, and {outcome.least} are the fewest "
            "that can",
            "bad",
        )
    of = {one.arm: one for one in outcome.mechanisms}
    for one in outcome.main:
        yield Line(f"{sentence(one, of.get(one.arm), plan)}.", _STYLES[one.verdict])
    if len(plan.load.metrics) > 1:
        yield Line(
            f"The experiment is about {plan.load.metrics[0][0]}. The other metrics are shown and not "
            "corrected for.",
            "quiet",
        )


def _effects(outcome: Outcome) -> Iterator[Block]:
    rows = []
    for one in outcome.judged:
        e = one.effect
        rows.append(
            (
                one.arm,
                one.metric,
                _short(one.a),
                _short(one.b),
                f"{e.ratio:.4f}",
                f"{e.low:.4f} to {e.high:.4f}" if e.low is not None else "open",
                f"{e.blocks}",
                f"{one.p_holm:.4f}",
                f"{e.noise:.3f}" if e.noise is not None else "-",
                f"{one.worst:.3f}" if one.worst is not None else "-",
                one.verdict,
                "" if one.needed is None else f"{one.needed}",
            )
        )
    if rows:
        yield Table(
            f"Against {outcome.done.confirmed[0].name}: medians of runs, ratio over blocks",
            ("arm", "metric", "control", "arm's", "ratio", "95 %", "n", "p (Holm)", "noise", "A/A worst",
             "verdict", "blocks needed"),
            tuple(rows),
            frozenset((2, 3, 4, 5, 6, 7, 8, 9, 11)),
            ("blocks needed", "A/A worst"),
        )  # fmt: skip
        yield Line(
            "noise: what two equal arms would differ by, 95 % of the time, in as many blocks, from pairs of "
            "runs of one arm in one block; A/A worst: the farthest apart that two runs of the control in "
            "one block were.",
            "quiet",
        )


def _mechanisms(outcome: Outcome) -> Iterator[Block]:
    rows = [
        (
            one.arm,
            ", ".join(one.roles) or "nobody that was recorded",
            f"{one.a:.3f}",
            f"{one.b:.3f}",
            f"{one.full_a:g}",
            f"{one.full_b:g}",
            f"{one.longest_a:.1f}",
            f"{one.longest_b:.1f}",
            _walked(one.walked_a),
            _walked(one.walked_b),
            f"{one.memory_a:,.0f}" if one.memory_a else "-",
            f"{one.memory_b:,.0f}" if one.memory_b else "-",
            ("fell" if one.fell else "did not fall") if outcome.blocks >= 6 else "too few blocks",
        )
        for one in outcome.mechanisms
    ]
    if rows:
        yield Table(
            "Mechanism: pauses of the processes that the arm treats, in the window, control against arm",
            ("arm", "treats", "pause s", "arm's", "full passes", "arm's ", "longest ms", "arm's  ",
             "~walked", "arm's   ", "MiB of all", "arm's    ", "pause seconds"),
            tuple(rows),
            frozenset(range(2, 12)),
            ("~walked", "arm's   ", "MiB of all", "arm's    "),
        )  # fmt: skip


def _interaction(outcome: Outcome) -> Iterator[Block]:
    if outcome.untreated:
        words = ", ".join(outcome.untreated)
        yield Line(f"Not named as a role, so as they are in every arm, with pauses: {words}.", "quiet")
    if outcome.unseen and outcome.done.runs:
        words = ", ".join(outcome.unseen)
        yield Line(f"No process of any run is called {words}: is that the report's name for it?", "bad")
    found = outcome.interaction
    if found is None:
        if outcome.no_interaction:
            yield Line(f"Interaction: {outcome.no_interaction}.", "quiet")
        return
    rows = [
        (role, f"{ratio:.4f}", f"{found.last[role]:.4f}" if role in found.last else "-")
        for role, ratio in found.alone.items()
    ]
    rows.append(("each alone, multiplied", f"{found.product:.4f}", ""))
    rows.append(("all together", f"{found.together:.4f}", ""))
    yield Table(
        f"Interaction, {found.metric}: ratio to the control",
        ("role", "treated alone", "added when all others are"),
        tuple(rows),
        frozenset((1, 2)),
    )
    if found.low is None or found.high is None:
        yield Line(f"All / product x {found.factor:.3f}; too few blocks for an interval.", "quiet")
    else:
        sure = "the roles interact" if found.low > 1 or found.high < 1 else "no interaction is seen"
        yield Line(
            f"All / product x {found.factor:.3f} (95 % {found.low:.3f} to {found.high:.3f}): {sure}.", "quiet"
        )


def _screening(outcome: Outcome) -> Iterator[Block]:
    runs = [run for run in outcome.done.runs if run.block == SCREEN and run.valid]
    if not runs:
        return
    confirmed = {arm.name for arm in outcome.done.confirmed}
    name = outcome.plan.load.metrics[0][0]
    rows = [
        (
            run.arm,
            f"{_total(run, 'full'):.0f}",
            "-" if _total(run, "unknown") else f"{_total(run, 'walked'):,.0f}",
            f"{_total(run, 'pause_s'):.3f}",
            f"{max((role['longest_ms'] for role in run.roles.values()), default=0.0):.1f}",
            _short(run.metrics[name]),
            "yes" if run.arm in confirmed else "",
        )
        for run in runs
    ]
    yield Table(
        f"Screening, {outcome.done.why}",
        ("arm", "full passes", "~walked", "pause s", "longest ms", name, "by the clock too"),
        tuple(rows),
        frozenset(range(1, 6)),
    )


def _runs(outcome: Outcome) -> Iterator[Block]:
    runs = outcome.done.runs
    bad = [run for run in runs if not run.valid]
    loads = [run.load1 for run in runs]
    others = [run.others for run in runs if run.others is not None]
    if not runs:
        return
    words = f"{many(len(runs) - len(bad), 'valid run')}, {len(bad)} made again because they do not count"
    failed = max((run.failures / run.requests for run in runs if run.requests), default=0.0)
    words += f"; at most {failed:.1%} of a run's requests failed" if failed else ""
    words += f"; load average before a run {min(loads):.1f} to {max(loads):.1f}"
    if others:
        words += f"; other programs used {min(others):.1f} to {max(others):.1f} cores"
    yield Line(f"{words}.", "quiet")
    for run in bad:
        where = "screening" if run.block == SCREEN else f"block {run.block + 1}"
        yield Line(f"{where}, {run.arm}, try {run.attempt + 1}: {run.why}", "bad", indent=2)
    missed = max((run.missed for run in runs), default=0)
    if missed:
        yield Line(
            f"Up to {many(missed, 'Python process', 'Python processes')} of a run went unrecorded: "
            "their pauses are not in the mechanism.",
            "bad",
        )
    facts = outcome.done.machine
    theirs = {role.get("python", "") for run in runs for role in run.roles.values()} - {""}
    python = ", ".join(sorted(theirs)) or "not told"
    yield Line(
        f"{facts.get('usable_cores')} of {facts.get('cores')} cores, governor {facts.get('governor')}, "
        f"kernel {facts.get('kernel')}, CPython {python}, Frostline {facts.get('frostline')}.",
        "quiet",
    )


def _total(run: Run, what: str) -> float:
    return float(sum(role[what] for role in run.roles.values()))


def _walked(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _short(value: float) -> str:
    return f"{value:,.1f}" if value >= 100 else f"{value:.4g}"
