"""The policy ``follow`` on seven loads at full size: invariants and walks by counts, and its own cost."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from benchmarks.common import LIMIT, ROOT, Interpreter, Result, environment

LOADS = ROOT / "tests" / "policy" / "loads.py"
SESSIONS = 30_000
HEAPS = (400_000, 800_000)
GROWN = 450_000
#: Milliseconds of the callback's own CPU time at a full pass, on average at most.
OWN_MS = 2.0
#: The same of a count of the oldest generation between them.
LOOK_MS = 4.0


def counted(interpreter: Interpreter, load: str, rule: str, heap: int) -> Any:
    command = [interpreter.python, str(LOADS), load, rule, str(heap), str(SESSIONS)]
    done = subprocess.run(
        command, env=environment(), check=True, capture_output=True, text=True, timeout=LIMIT
    )
    return json.loads(done.stdout)


def measure(interpreter: Interpreter) -> list[Result]:
    if (3, 14, 0) <= interpreter.version < (3, 14, 5):
        how = "refused there: the incremental collector starts no full pass"
        return [Result("follow", "", "", None, how)]
    results = []
    own = judged = looks = looked = longest_look = 0
    worst, left, longest_own = 0.0, 0, 0
    found: dict[tuple[str, str, int], Any] = {}
    for heap in HEAPS:
        for load in ("grow", "short", "long", "lru", "swap", "stream", "untold"):
            for rule in ("follow", "follow,major=force"):
                one = found[load, rule, heap] = counted(interpreter, load, rule, heap)
                worst = max(worst, one["i1"])
                left += one["after"]["garbage"] + one["after"]["frozen"] + one["line"]["broken"]
                own += one["line"]["spent_ns"]
                judged += one["line"]["judged"]
                longest_own = max(longest_own, one["line"]["longest_ns"])
                looks += one["line"]["all_looks"]
                looked += one["line"]["look_ns"]
                longest_look = max(longest_look, one["line"]["longest_look_ns"])
    how = f"seven loads, heaps of {' and '.join(f'{heap:,}' for heap in HEAPS)}, major=idle and major=force"
    results.append(Result("I1: frozen / ((1 + alpha) H + B), at worst", f"{worst:.3f}", "1", worst <= 1, how))
    results.append(Result("I3: garbage after a walk of the whole heap", str(left), "0", left == 0, how))
    grow = found["grow", "follow", HEAPS[1]]
    once = counted(interpreter, "grow", "once", HEAPS[1])
    bound = grow["line"]["budget"] + grow["line"]["period"]
    how = f"a heap of {HEAPS[1]:,} that grows by {GROWN:,}; freeze once: {once['longest']:,}"
    results.append(
        Result("longest full pass", f"{grow['longest']:,}", f"{bound:,}", grow["longest"] <= bound, how)
    )
    how = f"freeze once: {once['walked']:,}"
    walked = grow["walked"]
    results.append(
        Result("walked by all full passes", f"{walked:,}", f"{2 * GROWN:,}", walked <= 2 * GROWN, how)
    )
    forced = found["long", "follow,major=force", HEAPS[0]]
    limit = forced["line"]["budget"] + forced["line"]["period"]
    how = f"cyclic sessions, never idle, {forced['line']['wholes']} walks of the whole heap"
    results.append(
        Result(
            "longest full pass, forced",
            f"{forced['longest']:,}",
            f"{limit:,}",
            forced["longest"] <= limit,
            how,
        )
    )
    results += short_lived(interpreter, found)
    mean = looked / max(looks, 1) / 1e6
    how = f"{looks} of them, at the end of a gen-1 pass, longest {longest_look / 1e6:.2f} ms of CPU time"
    results.append(
        Result("a count of the oldest generation", f"{mean:.3f} ms", f"{LOOK_MS} ms", mean <= LOOK_MS, how)
    )
    mean = own / max(judged, 1) / 1e6
    how = f"CPU time of the callback over {judged} full passes, longest {longest_own / 1e6:.2f} ms"
    results.append(
        Result("own time at a full pass, mean", f"{mean:.3f} ms", f"{OWN_MS} ms", mean <= OWN_MS, how)
    )
    return results


def short_lived(interpreter: Interpreter, found: dict[tuple[str, str, int], Any]) -> list[Result]:
    """Objects that live for seconds and die by reference count: walked against freeze once."""
    results = []
    once = counted(interpreter, "stream", "once", HEAPS[0])
    for load in ("stream", "untold"):
        one = found[load, "follow", HEAPS[0]]
        bound = once["walked"] // 5
        how = f"{one['passes']} passes, longest {one['longest']:,}; freeze once: {once['passes']}, "
        how += f"{once['walked']:,}, longest {once['longest']:,}; {one['line']['all_looks']} counts between"
        what = f"walked by full passes, {load}"
        results.append(Result(what, f"{one['walked']:,}", f"{bound:,}", one["walked"] <= bound, how))
    return results
