"""From what was done to labels: the one rule for real and simulated sessions.

Of one fault one stall is labelled, of a victim drawn by chance among those that it can hold up. It is left
out, whatever a recording says, where by the program's own steps the victim was not held up, and where nobody
can say which fault it was: where two of processes that the victim depends on ran at once or fell into one
step, and where the fault is less than half of the step (a busy machine, or a queue).
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.labelled.truth import Stall

MS = 1_000_000
#: A step counts as held up from so many ms and so many medians on. The bounds of the analysis are 20 ms
#: and 3 medians: what is near them is not asked for.
SLOW_MS, SLOW_MEDIANS = 40, 4.0
#: Two faults at once: from this share of the shorter one, or of the step that both fell into, on.
BOTH = 0.1

OWN, CALLER, FED = "", ", who calls it waits", ", who is fed by it idles"
BEFORE, LAST = ", two before it waits", ", two after it idles"


@dataclass(frozen=True)
class Victim:
    """A process and the label of its step ("": a gap between steps of ``beside``), and how it hangs together.

    A label "ask" stands for that of the route, a role "asker" for the process that the fault's line names.
    """

    role: str
    label: str
    how: str = OWN
    beside: str = ""


def label(
    lines: Sequence[Mapping[str, Any]],
    told: Iterable[Mapping[str, Any]],
    victims: Mapping[str, Sequence[Victim]],
    others: Callable[[Victim, str], set[str]],
    chance: random.Random,
) -> tuple[list[Stall], dict[str, int]]:
    """(stalls, faults left out by reason).

    Args:
        lines: faults; of role "sidecar", and those marked minor, only stand beside others.
        told: each process's pid, role and steps (label, begin, end).
        victims: whom the faults of a role can hold up.
        others: roles that a victim does not depend on.
    """
    told = list(told)
    pids = {one["role"]: one["pid"] for one in told}
    steps: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for one in told:
        for name, begin, end in one["steps"]:
            steps.setdefault((one["pid"], name), []).append((begin, end))
    main = [line for line in lines if line["role"] != "sidecar" and not line.get("minor")]
    left = {"two at once": 0, "not held up": 0, "something else too": 0}
    stalls = []
    for line in main:
        victim = chance.choice(victims[line["role"]])
        if victim.role == "asker":
            victim = replace(victim, role=line["asker"])
        name = f"ask {line['route']}" if victim.label == "ask" else victim.label
        aside = others(victim, name)
        own = sorted(steps[pids[victim.role], name or victim.beside])
        times = own if name else [(own[i][1], own[i + 1][0]) for i in range(len(own) - 1)]
        held = _held_up(line, times)
        if not held:
            left["not held up"] += 1
            continue
        rest = [other for other in main if other is not line and other["role"] not in aside]
        if any(_at_once(line, other) for other in rest) or any(
            _inside(other, step) > BOTH * (step[1] - step[0]) for other in rest for step in held
        ):
            left["two at once"] += 1
            continue
        if any(_inside(line, step) < (step[1] - step[0]) / 2 for step in held):
            left["something else too"] += 1
            continue
        beside = {
            other["pid"]
            for other in lines
            if other["collector"] and other["pid"] != line["pid"] and _at_once(line, other)
        }
        stalls.append(
            Stall(
                cause=line["cause"] + (" in another thread" if line.get("thread") else "") + victim.how,
                victim=pids[victim.role],
                label=name,
                begin=line["begin"],
                end=line["end"],
                culprit=line["pid"] if line["collector"] else 0,
                coincides=tuple(sorted(beside)),
            )
        )
    return stalls, left


def _at_once(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    both = min(one["end"], other["end"]) - max(one["begin"], other["begin"])
    shorter = min(one["end"] - one["begin"], other["end"] - other["begin"])
    return bool(both > BOTH * shorter)


def _inside(line: Mapping[str, Any], step: tuple[int, int]) -> int:
    return max(0, min(line["end"], step[1]) - max(line["begin"], step[0]))


def _held_up(line: Mapping[str, Any], times: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The slow ones of a victim's steps, or gaps, that hold half the fault or more."""
    if not times or line["end"] - line["begin"] < SLOW_MS * MS:
        return []
    least = max(SLOW_MS * MS, SLOW_MEDIANS * statistics.median(end - begin for begin, end in times))
    half = (line["end"] - line["begin"]) / 2
    return [step for step in times if step[1] - step[0] >= least and _inside(line, step) >= half]
