"""What a freeze would gain, or a freeze that was made leaves over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.analysis.choice import (
    FOLLOW,
    FREEZE,
    RARE,
    THRESHOLDS,
    base,
    choose,
    rounded,
)
from frostline.analysis.commands import elsewhere, is_script, policy_text, run
from frostline.analysis.frozen import ASKED
from frostline.analysis.held import SHARE
from frostline.analysis.lasting import again, inherits, now, thawed
from frostline.analysis.model import Advice, FullPass, Options, ProcessReport
from frostline.analysis.passes import AUTOMATIC, FROSTLINE
from frostline.analysis.verdict import milliseconds, some

#: A longest pause under the first, and a sum under the second or under the third of the time
#: recorded, are nothing that a freeze could gain.
NEGLIGIBLE_PAUSE = 5_000_000
NEGLIGIBLE_TOTAL = 20_000_000
NEGLIGIBLE_SHARE = 0.005
#: A full pass that reclaims more than this share of what it walked does work that is needed.
LITTLE = 0.02
#: Where it is not known what was walked: fewer objects reclaimed than one for so many ns.
NS_PER_USEFUL_OBJECT = 5_000
#: A process that has this much of threshold 2 is tuned already.
TUNED = 100
#: Threshold 0 from which a young pass walks so much that it is a pause of its own.
MANY_YOUNG = 10_000
#: Young passes that take more than this share of the time, where it lasted a second, are too many.
YOUNG_SHARE = 0.05
SHORT = 1_000_000_000


def useless(one: FullPass) -> bool:
    """Whether a full pass walked much and reclaimed next to nothing."""
    if one.walked.value:
        return one.reclaimed <= LITTLE * one.walked.value
    return one.reclaimed * NS_PER_USEFUL_OBJECT < one.alone


def negligible(longest: int, total: int, wall: int) -> bool:
    return longest < NEGLIGIBLE_PAUSE and (total < NEGLIGIBLE_TOTAL or total < NEGLIGIBLE_SHARE * wall)


def serving_since(process: ProcessReport, processes: tuple[ProcessReport, ...]) -> int:
    """When start-up was over: as the process itself tells, else the first of the others; 0 if none does."""
    others = (p.serving for p in processes if p.serving and p.session == process.session)
    return process.serving or min(others, default=0)


@dataclass(frozen=True)
class _Gain:
    """Full passes that a freeze at the end of start-up would have spared or made cheap."""

    process: ProcessReport
    passes: tuple[FullPass, ...]

    @property
    def automatic(self) -> int:
        return sum(p.pause for p in self.passes if p.kind == AUTOMATIC)

    @property
    def explicit(self) -> int:
        """Of explicit ones, less what each took once the process had frozen its heap after all."""
        after = longest_since_freeze(self.process)
        return sum(max(0, p.pause - after) for p in self.passes if p.kind != AUTOMATIC)


def _gain(process: ProcessReport, processes: tuple[ProcessReport, ...]) -> _Gain | None:
    others = (p.serving for p in processes if p.session == process.session and p.start < process.stop)
    if process.stop < max(others, default=0) and not process.labels:
        return None  # a helper of the server's start-up: gone before the others' boundary
    since = serving_since(process, processes)
    passes = [p for p in process.full_passes if p.kind != FROSTLINE and p.start >= since]
    if process.frozen_since:
        # What came before the freeze: only where serving had begun, or the program asked for it.
        passes = [p for p in passes if p.start < process.frozen_since and (since or p.kind != AUTOMATIC)]
    total = sum(p.pause for p in passes)
    if negligible(max((p.pause for p in passes), default=0), total, process.wall):
        return None
    if len(passes) == 1 and passes[0].kind != AUTOMATIC:
        return None  # one call, once: nothing that goes on
    # By time: most of what full passes cost was for nothing.
    if 2 * sum(p.pause for p in passes if useless(p)) < total or not total:
        return None
    return _Gain(process, tuple(passes))


def freeze(
    processes: tuple[ProcessReport, ...], never: str = "", came: str = "", live: str = ""
) -> list[Advice]:
    """Freeze at the end of start-up: only what lies after it is counted, and explicit passes apart.

    ``never``: why a boundary that was asked for did not come. To ask for it again would not help.
    ``came``: the option by which READY was told. ``live``: the session for a shell, while it runs.
    """
    gains = [gain for p in processes if (gain := _gain(p, processes)) is not None]
    if not gains:
        return []
    gains.sort(key=lambda gain: -(gain.automatic + gain.explicit))
    passes = [p for gain in gains for p in gain.passes]
    automatic, explicit = sum(g.automatic for g in gains), sum(g.explicit for g in gains)
    asked = sum(p.kind != AUTOMATIC for p in passes)
    longest = max(p.pause for p in passes)
    reclaimed = sum(p.reclaimed for p in passes)
    which = f" ({asked:,} by explicit calls)" if asked else ""
    where = some([g.process.name for g in gains])
    text = (
        f"full passes walk a heap that stays: {len(passes):,}{which} in {where} "
        f"took {milliseconds(sum(p.pause for p in passes))}, the longest {milliseconds(longest)}"
        f"{walked_each(passes)}, and reclaimed {f'{reclaimed:,} objects' if reclaimed else '0'}. "
    )
    most = gains[0].process
    unfrozen = most.policy.split(",")[0] == "freeze" and not most.frozen_since
    choice = choose(most, list(gains[0].passes), serving_since(most, processes), is_frozen=False)
    if choice.why:
        text += f"{choice.why[:1].upper()}{choice.why[1:]}. "
    policy = policy_text(choice.kind, gains[0].passes[-1].thresholds)
    shared = inherits(most, processes, gains[0].passes)
    if shared and choice.kind != FOLLOW:
        policy = policy_text(choice.kind, gains[0].passes[-1].thresholds, keeps="prefork")
        never, unfrozen = "", False
    at_once = now(most, processes, live, policy)
    if at_once and not unfrozen:
        text += "Freeze it as it runs, which collects nothing before, so garbage of now is frozen too: "
    elif shared:
        text += (
            f"Workers are forked and walk what they inherit ({shared}): a pass copies those pages in each. "
            "Freeze before the fork, so that they stay shared: "
        )
    elif unfrozen and never and not never.startswith("--ready-after"):
        text += f"Policy freeze was in force and nothing was frozen: {never}. Put that right: "
    elif unfrozen:
        text += (
            f"Policy freeze was in force and no boundary came{f' ({never})' if never else ''}: nothing was "
            "frozen. "
            "Call frostline.startup_complete() when start-up is over, or have it told: "
        )
    elif all(g.process.frozen_since for g in gains):
        gone = ", and thawed again while it ran" if thawed(most) else ""
        text += f"It was frozen only after them{gone}. Freeze it at the end of start-up: "
    else:
        text += "Freeze it at the end of start-up: "
    if automatic:
        after = max(young_longest(g.process, serving_since(g.process, processes)) for g in gains)
        text += (
            f"expect up to {milliseconds(automatic)} less, and the longest pause to fall to about "
            f"{milliseconds(after)}"
        )
        if explicit:
            stay = "call stays, and gets" if asked == 1 else "calls stay, and get"
            text += f"; {asked:,} explicit {stay} cheaper"
    else:
        text += f"the calls stay, and get cheaper: expect up to {milliseconds(explicit)} less"
    if choice.kind != FREEZE:
        text += f". The price: {choice.price}"
    if at_once.startswith("frostline freeze") and choice.kind == THRESHOLDS:
        rare = policy.partition("=")[2].replace("/", ",")
        text += f". What grows afterwards is walked until this is done, too: frostline tune {rare} {live}"
    command = run(most, policy, came)
    if is_script(most) and " --ready-after " in command and not came and not unfrozen and not at_once:
        text += ". Best is frostline.startup_complete() in the program, where its start-up ends"
    # Asked of a live process it only splices; under these policies it walks the heap in an idle moment later.
    walks = most.policy.split(",")[0] in ("freeze", "follow", "idle", "prefork")
    spliced = at_once.startswith("frostline freeze") and not unfrozen and not walks
    how = (
        "the sum of those passes, and the longest young pass that remains; "
        "passes over what grows after the freeze stay, and the freeze itself costs "
        f"{'no pass' if spliced else 'one full pass'}"
    )
    if choice.kind == FREEZE:
        how += f"; {choice.price}"
    if unfrozen and never and not never.startswith("--ready-after"):
        command = ""
    if not at_once or unfrozen:
        more = elsewhere(most, (g.process for g in gains), policy, came) if command else []
        return [Advice(text, command, automatic or explicit, how), *more]
    return [Advice(text, at_once, automatic or explicit, how), Advice(again(most), command)]


def walked_each(passes: list[FullPass]) -> str:
    """``, each over at most 600,000 objects``: the largest bound, or the median of what is known exactly."""
    known = sorted(p.walked.value for p in passes if p.walked.value)
    if not known:
        return ""
    if any(p.walked.at_most for p in passes):
        return f", each over at most {rounded(known[-1])} objects"
    return f", each over about {rounded(known[len(known) // 2])} objects"


def longest_since_freeze(process: ProcessReport) -> int:
    return max((p.pause for p in process.while_frozen), default=0)


def young_longest(process: ProcessReport, since: int = 0) -> int:
    """The longest pass of generations 0 and 1 that began at ``since`` or later."""
    young = (process.series.passes["generation"] < 2) & (process.pauses.start >= since)
    return int(process.pauses.length[young].max()) if bool(np.any(young)) else 0


def kind_of(process: ProcessReport) -> str:
    """The policy's kind, without options: ``follow`` of ``follow,major=force``."""
    return process.policy.partition("@")[0].partition(",")[0].partition(":")[0]


def thresholds(
    processes: tuple[ProcessReport, ...],
    options: Options,
    came: str = "",
    innocent: bool = False,
    live: str = "",
) -> list[Advice]:
    """For processes that are frozen and still have full passes that matter, and for tuned ones.

    A policy in force is not to be changed for little: where no such pass is over the floor of a slow
    step and they take little of the time, or the collector is not what is slow (``innocent``).
    """
    found: list[Advice] = []
    still: list[tuple[int, ProcessReport, list[FullPass]]] = []
    for process in processes:
        if process.policy.startswith(("follow", "periodic")):
            continue  # judged as a whole in ``inforce``
        since = serving_since(process, processes)
        passes = [p for p in process.while_frozen if p.start >= since]
        total = sum(p.pause for p in passes)
        worst = max((p.pause for p in passes), default=0)
        little = worst <= options.long_floor and total <= SHARE * process.wall
        if little and kind_of(process) in ("freeze", "prefork"):
            continue
        if not negligible(worst, total, process.wall):
            still.append((total, process, passes))
    if still:
        total, process, passes = max(still, key=lambda one: one[0])
        told = _still(process, passes, total, serving_since(process, processes), options, came, live)
        if innocent and kind_of(process) in ("freeze", "prefork"):
            keep = f"They are not what is slow here: keep policy {process.policy}"
            told = [Advice(f"{one.text}. {keep}") for one in told]
        found += told
    found += _young(processes, options, came)
    found += _many_young(processes, came)
    return found


def _still(
    process: ProcessReport,
    passes: list[FullPass],
    total: int,
    since: int,
    options: Options,
    came: str,
    live: str,
) -> list[Advice]:
    worst = max(passes, key=lambda p: p.pause)
    what = f"{len(passes):,} full passes" if len(passes) > 1 else "a full pass"
    how_far = "at most" if worst.walked.at_most else "about"
    grew = f" by {how_far} {rounded(worst.walked.value)} objects" if worst.walked.value else ""
    text = (
        f"frozen, {process.name} still had {what}: {milliseconds(total)}, up to {milliseconds(worst.pause)}; "
        f"its heap grew{grew} after the freeze"
    )
    early = _froze_early(process, since, worst)
    if early:
        again = run(process, "freeze", came)
        return [Advice(f"{text}, and did so before start-up was over. Freeze it when it is over", again)]
    asked = [p for p in passes if p.kind != AUTOMATIC]
    if 2 * sum(p.pause for p in asked) > total:
        return [Advice(f"{text}. Most of that are explicit calls, which no threshold governs")]
    if worst.thresholds[2] >= TUNED:
        return [Advice(f"{text}. Its thresholds make full passes rare already: find what it keeps")]
    choice = choose(process, passes, max(since, process.frozen_since), is_frozen=True)
    text += f". {choice.why[:1].upper()}{choice.why[1:]}"
    if choice.kind == FREEZE:
        return [Advice(text)]
    text += f". The price: each young pass may walk more, and {choice.price}"
    young = young_longest(process, max(since, process.frozen_since))
    if young > options.long_floor:
        text += f" (young passes of up to {milliseconds(young)} are there already)"
    if not since and not (process.frozen.first and process.frozen.first.why == ASKED):
        text += ". If that was start-up, freeze later instead, when it is over"
    first, second, _ = base(worst.thresholds)
    ours = process.policy.split(",")[0] == "freeze" or any(
        m.kind == fmt.MARK_FREEZE and m.flags & fmt.MARK_FLAG_OURS for m in process.series.marks
    )
    policy = policy_text(
        choice.kind, worst.thresholds, "prefork" if kind_of(process) == "prefork" else "freeze"
    )
    if not ours and choice.kind != FOLLOW:
        policy = f"tune:{first},{second},{RARE}"
    again = run(process, policy, came)
    if not live or choice.kind != THRESHOLDS or thawed(process):
        return [Advice(text, again)]
    rare = f"frostline tune {first},{second},{RARE} {live}"
    return [Advice(text, rare), Advice("then make it last: thresholds end with a process, too", again)]


def _froze_early(process: ProcessReport, since: int, worst: FullPass) -> bool:
    """Whether half of what is walked after the freeze was there when serving began."""
    if not since or process.frozen_since >= since or not worst.walked.value:
        return False
    at = process.pauses.heap.at(since)
    return at is not None and 2 * at[0] >= worst.walked.value


#: Threshold 0 that makes young passes rarer, and keeps each one short: 11 times as much is a gen-1 pass.
_RARER = 5_000


def _many_young(processes: tuple[ProcessReport, ...], came: str) -> list[Advice]:
    """Young passes alone take much of the time: of a program that builds much at once."""
    worst: tuple[float, ProcessReport, int] | None = None
    for process in processes:
        since = serving_since(process, processes) or process.start
        young = (process.series.passes["generation"] < 2) & (process.pauses.start >= since)
        share = int(process.pauses.length[young].sum()) / max(1, process.stop - since)
        lasted = process.stop - since >= SHORT
        low = _threshold0(process) < MANY_YOUNG
        if lasted and low and share > max(YOUNG_SHARE, worst[0] if worst else 0.0):
            worst = (share, process, int(np.count_nonzero(young)))
    if worst is None:
        return []
    share, process, count = worst
    longest = milliseconds(young_longest(process, serving_since(process, processes)))
    text = (
        f"{count:,} young passes take {100 * share:.1f} % of the time of {process.name}, up to {longest}: "
        "it makes many objects at once. Make them rarer, or put what makes them under frostline.defer(). "
        f"The price: dead cycles hold up to {rounded(_RARER * 11)} objects until a pass of generation 1, "
        f"which may walk as many; one of generation 0 walks up to {rounded(_RARER)}"
    )
    third = _threshold2(process)
    return [Advice(text, _tuned(process, (_RARER, 10, third), came))]


def _tuned(process: ProcessReport, new: tuple[int, int, int], came: str) -> str:
    """The command that sets thresholds, and keeps the policy that is in force with its other options."""
    first, *given = process.policy.split(",")
    if kind_of(process) not in ("freeze", "follow", "prefork", "idle", "sync", "periodic"):
        return run(process, f"tune:{','.join(map(str, new))}", came)
    kept = [option for option in given if not option.strip().startswith("thresholds")]
    return run(process, ",".join([first, *kept, f"thresholds={'/'.join(map(str, new))}"]), came)


def _threshold2(process: ProcessReport) -> int:
    """As it was at attach: a policy that holds full passes back sets its own."""
    state = process.at_attach
    return state.thresholds[2] if state and state.thresholds else 10


def _threshold0(process: ProcessReport) -> int:
    set_to = [m.values[0] for m in process.series.marks if m.kind == fmt.MARK_THRESHOLD]
    state = process.at_attach
    return set_to[-1] if set_to else state.thresholds[0] if state and state.thresholds else 0


def _young(processes: tuple[ProcessReport, ...], options: Options, came: str) -> list[Advice]:
    """A threshold 0 so high that young passes became the long ones."""
    worst: tuple[int, ProcessReport, int] | None = None
    for process in processes:
        first = _threshold0(process)
        longest = young_longest(process, serving_since(process, processes))
        if first >= MANY_YOUNG and longest > 5 * options.long_floor and (worst is None or longest > worst[0]):
            worst = (longest, process, first)
    if worst is None:
        return []
    longest, process, first = worst
    text = (
        f"with threshold 0 at {first:,}, young passes of {process.name} take up to "
        f"{milliseconds(longest)}: each walks that many new objects. "
        "Lower threshold 0 and keep threshold 2 high. The price: young passes come more often, and cycles "
        "that outlive two of them are held until a full pass"
    )
    return [Advice(text, _tuned(process, (700, 10, RARE), came))]
