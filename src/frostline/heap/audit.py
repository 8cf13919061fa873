"""The self-audit: does the recorder keep, or tie into cycles, anything of the process that it records (D10)?

Runs in an interpreter of its own, as a recorded target, and prints what it counted as JSON; whoever
started it judges. Each proof has a control beside it, a hook that does what the proof says ours does not:
where the control is not caught, the proof is worth nothing.
"""

import gc
import sys
from _weakref import ref

import frostline
from frostline import probe
from frostline.heap.cycles import cycles_of
from frostline.heap.plain import dumps
from frostline.heap.saved import let_go, saved_pass
from frostline.policy import acts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Passes of the young generation and of all, and rounds of spans (four each), between two counts.
YOUNG, FULL, ROUNDS = 20_000, 50, 5_000
#: Objects that pass through a timed method; spans within one segment.
TICKETS, FEW = 200, 60


class Ticket:
    """What a server hands through its step: its method is timed, and it is to die with its last user."""

    def collect(self, other: object = None) -> "object":
        return other


class _Engine:
    def step(self, batch: object) -> "object":
        return batch


def _spans(engine: _Engine, many: int) -> None:
    """Every way in which a span is written."""
    for number in range(many):
        engine.step(number)
        with frostline.span("audit block", batch=number & 7):
            pass
        frostline.end(frostline.begin("audit split"))
        ticket = Ticket()
        frostline.wrap(ticket, "collect", "audit ticket")
        ticket.collect(ticket)


def _passes(young: int, full: int) -> None:
    collect = acts.real("collect")
    for _ in range(young):
        collect(0)
    for _ in range(full):
        collect(2)


def _tracked() -> "dict[str, int]":
    acts.real("collect")()
    found: dict[str, int] = {}
    for one in gc.get_objects():
        name = type(one).__qualname__
        found[name] = found.get(name, 0) + 1
    return found


def _more(work: "Callable[[], object]") -> "dict[str, int]":
    """Tracked objects by type that there are more of after some work."""
    before: dict[str, int] = {}  # stands in for the result: from 3.14 on a dictionary is tracked
    before = _tracked()
    work()
    after = _tracked()
    return {name: many - before.get(name, 0) for name, many in after.items() if many > before.get(name, 0)}


def _alive(hook: "Callable[[Ticket], object]") -> int:
    """Of TICKETS that pass through a hook and are let go, how many live on, with the collector off."""
    watched = []
    for _ in range(TICKETS):
        ticket = Ticket()
        hook(ticket)
        ticket.collect(ticket)
        watched.append(ref(ticket))
        del ticket
    return sum(one() is not None for one in watched)


def _ours(ticket: Ticket) -> None:
    frostline.wrap(ticket, "collect", "audit ticket")


def _control(ticket: Ticket) -> None:
    """The hook that caused what it measured (row B5): a closure on the object whose method it holds."""
    original = ticket.collect

    def timed(other: object = None) -> "object":
        return original(other)

    ticket.collect = timed  # type: ignore[method-assign]


def _cycles(work: "Callable[[], object]") -> "dict[str, Any]":
    """What a saved pass finds after some work, with the collector off."""
    acts.real("collect")()
    work()
    saved = saved_pass()
    told = cycles_of(saved)
    let_go(saved)
    return {"found": told.found, "kinds": [[kind.count, kind.path] for kind in told.kinds[:5]]}


def audit() -> "dict[str, Any]":
    """All counts. ``recording`` is False, and nothing else is there, where no recorder runs."""
    recorder = probe.recorder_of_this_process()
    if recorder is None or not recorder.recording:
        return {"recording": False}
    engine = _Engine()
    frostline.wrap(engine, "step", "audit step")

    def everything() -> None:
        _passes(YOUNG, FULL)
        _spans(engine, ROUNDS)

    # The first segments, both kinds of name and the caches of this code come before the count.
    everything()
    _tracked()
    more = _more(everything)
    kept: list[list[int]] = []
    retained = _more(lambda: kept.extend([number] for number in range(TICKETS)))
    gc.disable()
    alive, alive_control = _alive(_ours), 0

    def spans() -> None:
        _spans(engine, FEW)
        _alive(_ours)

    cycles = _cycles(spans)

    def control() -> None:
        nonlocal alive_control
        alive_control = _alive(_control)

    cycles_control = _cycles(control)
    acts.real("collect")()
    # What dies while the count is 0 is not counted, so it moves off 0 first.
    _spans(engine, FEW)
    first = gc.get_count()[0]
    _spans(engine, FEW)
    drift = gc.get_count()[0] - first
    return {
        "recording": recorder.recording,
        "python": sys.version.split()[0],
        "young": YOUNG,
        "full": FULL,
        "spans": 4 * ROUNDS,
        "more": more,
        "more_control": sum(retained.values()),
        "tickets": TICKETS,
        "alive": alive,
        "alive_control": alive_control,
        "cycles": cycles,
        "cycles_control": cycles_control,
        "few": 4 * FEW,
        "drift": drift,
    }


def main() -> None:
    """Prints the counts, as the last line."""
    print(dumps(audit()))
