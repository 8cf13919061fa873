"""Token storage that the collector need not walk (A12): what a full pass does as the prefix cache fills.

The block pool of the report (94,763 blocks in a heap of 819,923 objects), filled by the reference server's
own scheduler, in three fresh processes: a list of ids for each block, as the report's server had it; an array
for each, as it has now; one array for all, as the reference server has it, in the same heap but for those.
What is walked and followed is counted. The pauses are shown, in processor time, the least of a few: less
cannot be somebody else's doing.

What the counts add to the report: an array for each block is walked as a list is (CPython 3.10 and later
track arrays). What it saves are the ids, which a pass need not look at.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.common import run_target
from benchmarks.paper.doing import options
from benchmarks.paper.table import Finding, finish, others_of
from frostline.demo.blocks import BLOCK_TOKENS
from frostline.demo.engine import BLOCKS
from frostline.demo.heap import TRACKED
from frostline.experiment.ablation.machine import Busy

#: How blocks keep their tokens -> how the table says it.
KINDS = {"lists": "a list for each block", "arrays": "an array for each", "one": "one array for all"}
#: The cache is full where so much of the pool is named: the end of a prompt is no full block.
FULL = 0.97
#: Index of the point at which the cache is full; the one behind it is past some evictions.
LAST = -2


def main(arguments: list[str]) -> int:
    given = options("a12", arguments)
    size, tracked, repeats = BLOCKS, TRACKED["EngineCore"], 7
    if given.quick:
        size, tracked, repeats = size // 20, tracked // 20, 2
    runs: dict[str, dict[str, Any]] = {}
    for number, kind in enumerate(KINDS):
        left = 0 if given.quick else 30 * (len(KINDS) - number)
        print(f"a12: {number + 1} of {len(KINDS)}, {kind}; about {left} s left", file=sys.stderr, flush=True)
        busy = Busy()
        sizes = map(str, (size, tracked, repeats))
        runs[kind] = run_target(sys.executable, "token_storage", kind, *sizes)
        runs[kind]["others"] = busy.others()
    title = "token storage that the collector need not walk"
    others = others_of(list(runs.values()))
    return finish("a12", title, given.folder, judge(runs, size, repeats), others, given.quick, {"runs": runs})


def judge(runs: dict[str, dict[str, Any]], size: int, repeats: int) -> list[Finding]:
    """The figures of the runs."""
    shares = ", ".join(f"{share:.0%}" for share in runs["one"]["shares"])
    counted = f"len(gc.get_objects()) after a collection, at {shares} of the pool computed"
    findings = []
    for kind, name in KINDS.items():
        walked, named = runs[kind]["walked"], runs[kind]["named"]
        same = max(walked) == min(walked)
        bound = "the same from an empty cache to a full one"
        findings.append(
            Finding(
                f"objects walked, {name}",
                "" if kind == "lists" else "stops growing as the cache fills",
                bound if kind == "one" else "",
                f"{walked[0]:,} empty, {walked[LAST]:,} full ({named:,} blocks named), "
                f"{walked[-1]:,} past evictions",
                counted,
                same and named >= FULL * size if kind == "one" else None,
                clock=False,
            )
        )
    for kind, name in KINDS.items():
        references, named = runs[kind]["references"], runs[kind]["named"]
        grown = (references[-1] - references[0]) / named
        # What the prefix cache itself needs is the same for each way: a key and a block.
        ids = grown - (runs["one"]["references"][-1] - runs["one"]["references"][0]) / runs["one"]["named"]
        bound = f"{BLOCK_TOKENS} ids a block, else the rows show nothing" if kind == "lists" else "no ids"
        findings.append(
            Finding(
                f"references followed, {name}",
                "",
                bound,
                f"{references[0]:,} empty, {references[LAST]:,} full: {grown:.2f} a block, "
                f"{ids:.2f} of them ids",
                "len(gc.get_referents()) of all of them; ids: what is more than with one array",
                abs(ids - (BLOCK_TOKENS if kind == "lists" else 0)) < 0.2,
                clock=False,
            )
        )
    timed = (
        f"thread_time, the least of {repeats} gc.collect() at each of these shares; ids of 1,000 to 127,999"
    )
    for kind, reported in (("lists", "288.6 ms"), ("arrays", "242.8 ms"), ("one", "")):
        text = ", ".join(f"{pause / 1e6:.1f}" for pause in runs[kind]["pause"])
        findings.append(Finding(f"pause, {KINDS[kind]}", reported, "", f"{text} ms", timed, None))
    full = {kind: run["pause"][LAST] for kind, run in runs.items()}
    text = f"{full['lists'] / full['arrays']:.2f}; over one array {full['lists'] / full['one']:.2f}"
    findings.append(Finding("pause with lists over that with arrays, full", "1.19", "", text, timed, None))
    return findings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
