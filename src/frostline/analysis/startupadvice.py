"""What to do about a start-up: only where this run measured a cost, and with what it measured (B12)."""

from __future__ import annotations

from frostline.analysis.commands import run
from frostline.analysis.freezing import NEGLIGIBLE_PAUSE, NEGLIGIBLE_TOTAL, useless
from frostline.analysis.model import Advice, FullPass
from frostline.analysis.passes import AUTOMATIC, EXPLICIT, FROSTLINE
from frostline.analysis.startup import StartUp
from frostline.analysis.triggers import QUARTER, THRESHOLD
from frostline.analysis.verdict import milliseconds as ms

#: Automatic passes inside imports are worth a word from so many ns, and from this share of the time there.
LEAST_PAUSE, LEAST_SHARE = 100_000_000, 0.05
#: Packages that are named, and the share of those passes from which one is.
_NAMED, _PART = 3, 0.1
_WHY = {
    QUARTER: "by then a quarter as much was new as the full pass before had left",
    THRESHOLD: "so many gen-1 passes had run (threshold 2), and a quarter as much was new as the full pass "
    "before had left",
}


def advise(one: StartUp, came: str = "") -> tuple[Advice, ...]:
    """Of one process, in the order of its start-up.

    Args:
        came: the option by which READY was told, as in ``analysis.commands``.
    """
    by_start = {full.start: full for full in one.process.full_passes}
    starts = one.process.series.passes["start"]
    full = [(by_start[int(starts[i])], where) for i, where in one.full if int(starts[i]) in by_start]
    found = [_imports(one), *_asked(one, full), _warm_up(one, full), _freeze(one, full, came)]
    return tuple(advice for advice in found if advice is not None)


def _imports(one: StartUp) -> Advice | None:
    """Automatic passes inside imports."""
    time, _, passes = one.importing()
    if passes.automatic < max(LEAST_PAUSE, LEAST_SHARE * time):
        return None
    packages: dict[str, int] = {}
    for module in one.walk():
        name = module.module.partition(".")[0]
        packages[name] = packages.get(name, 0) + module.passes.automatic
    most = sorted(packages.items(), key=lambda item: -item[1])[:_NAMED]
    named = [f"{name} {ms(pause)}" for name, pause in most if pause >= _PART * passes.automatic]
    which = f" ({', '.join(named)})" if named else ""
    return Advice(
        f"Automatic passes took {ms(passes.automatic)} of the {time / 1e9:,.1f} s inside imports{which} and "
        f"reclaimed {passes.reclaimed:,} objects. Without them (gc.disable() before the imports, gc.enable() "
        "after) start-up is shorter by that at most (<=). The price: what they reclaimed stays until a later "
        "pass, and the next one walks all that the imports made at once",
        saving=passes.automatic,
        how="the pauses of those passes: an upper bound",
    )


def _asked(one: StartUp, full: list[tuple[FullPass, str]]) -> list[Advice]:
    """Lines that call ``gc.collect()``, unless they belong to a freeze."""
    if any(one.start <= freeze.time <= one.stop for freeze in one.process.frozen.freezes):
        return []
    lines: dict[tuple[str, int], list[tuple[FullPass, str]]] = {}
    for found, where in full:
        if found.kind == EXPLICIT:
            lines.setdefault((found.file, found.line), []).append((found, where))
    advice = []
    for (file, line), calls in lines.items():
        total = sum(found.pause for found, _ in calls)
        if total < NEGLIGIBLE_TOTAL:
            continue
        times = "once" if len(calls) == 1 else f"{len(calls):,} times"
        places = list(dict.fromkeys(where for _, where in calls))
        freed = sum(found.reclaimed for found, _ in calls)
        needless = all(useless(found) for found, _ in calls)
        todo = "It can be left out there" if needless else "`frostline cycles -- COMMAND` names what it frees"
        advice.append(
            Advice(
                f"{file}:{line} calls gc.collect() {times} in {', '.join(places[:_NAMED])}: "
                f"{ms(total)}, which reclaimed {freed:,} objects. {todo}",
                saving=total if needless else None,
                how="the time inside those calls" if needless else "",
            )
        )
    return advice


def _warm_up(one: StartUp, full: list[tuple[FullPass, str]]) -> Advice | None:
    """The pause that a warm-up shows: automatic full passes outside of imports that walk what was built."""
    found = [
        full_pass
        for full_pass, where in full
        if full_pass.kind == AUTOMATIC and not where.startswith("import of ") and useless(full_pass)
    ]
    total = sum(full_pass.pause for full_pass in found)
    if total < NEGLIGIBLE_TOTAL:
        return None
    longest = max(found, key=lambda full_pass: full_pass.pause)
    times = "an automatic full pass" if len(found) == 1 else f"{len(found):,} automatic full passes"
    because = f" It came because {_WHY[longest.why]}." if longest.why in _WHY else ""
    return Advice(
        f"Outside of imports {times} took {ms(total)}, the longest {ms(longest.pause)} at "
        f"{(longest.start - one.start) / 1e9:,.2f} s{_walked(longest)}.{because} It walked what start-up had "
        "built so far. frostline.startup_complete() after the imports, and once more after warm-up, leaves "
        "such passes what is new alone",
        saving=total,
        how="the pauses of those passes: an upper bound",
    )


def _freeze(one: StartUp, full: list[tuple[FullPass, str]], came: str) -> Advice | None:
    """The last full pass of start-up shows what each later one will cost."""
    process = one.process
    if process.frozen.freezes:
        return None
    last = [found for found, _ in full if found.kind != FROSTLINE][-1:]
    if not last or last[0].pause < NEGLIGIBLE_PAUSE or not useless(last[0]):
        return None
    return Advice(
        f"The last full pass of start-up took {ms(last[0].pause)}{_walked(last[0])}. Each later one walks "
        "that again, unless it is frozen at the boundary",
        run(process, "freeze", came),
    )


def _walked(full: FullPass) -> str:
    """``, walked <=800,000 objects and reclaimed 12``."""
    if full.walked.value is None:
        return f", and reclaimed {full.reclaimed:,} objects"
    sign = "" if full.walked.exact else "<="
    return f", walked {sign}{full.walked.value:,} objects and reclaimed {full.reclaimed:,}"
