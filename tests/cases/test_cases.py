"""Known cases of other people's servers, run as real processes: does the report give the answer?

Our own small inputs; cases 02, 07, 47, 51 and 53 in their first form are in ``tests/report/test_real.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline.report import plain, report
from tests.interpreters import Interpreter, every_interpreter, found
from tests.report.test_real import folder, run

__all__ = ["folder"]

#: Where nothing depends on the interpreter.
LATEST = found()[-1]


def incremental(interpreter: Interpreter) -> bool:
    return (3, 14) <= interpreter.version < (3, 14, 5)


@every_interpreter
def test_case_02_passes_before_the_freeze_and_cheap_ones_after(
    folder: Path, interpreter: Interpreter
) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        heap = [{"id": i, "next": [i]} for i in range(300_000)]
        for _ in range(4):
            gc.collect()
        gc.freeze()
        for _ in range(3):
            gc.collect()
        """,
    )
    (process,) = analysis.processes
    explicit = [p for p in process.full_passes if p.kind == "explicit"]
    before, after = explicit[:4], explicit[4:]
    assert [p.reclaimed for p in before[1:]] == [0] * 3
    if not incremental(interpreter):
        assert all(p.walked.value and 600_000 <= p.walked.value <= 620_000 for p in before)
    assert len(after) == 3 and max(p.pause for p in after) < min(p.pause for p in before) / 5
    texts = [advice.text for advice in analysis.advice]
    assert any("case.py:5 calls gc.collect() 4 times" in text and "Call it less" in text for text in texts)
    freeze = next(advice for advice in analysis.advice if "Freeze it" in advice.text)
    assert "It was frozen only after them" in freeze.text and "expect up to" in freeze.text
    cost, rest = sum(p.pause for p in before), max(p.pause for p in after)
    assert freeze.saving is not None and cost - 5 * rest <= freeze.saving <= cost
    assert not any("still had" in text for text in texts)


@every_interpreter
def test_case_03_our_spans_keep_no_finished_ticket_alive(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc, weakref
        import frostline

        class Ticket:
            def collect(self):
                return 42

        def step():
            ticket = Ticket()
            frostline.wrap(ticket, "collect", label="collect")
            assert ticket.collect() == 42
            return weakref.ref(ticket)

        step()
        gc.collect()
        gc.disable()
        alive = [step() for _ in range(200)]
        assert not any(ref() for ref in alive)
        assert gc.collect() == 0
        """,
    )
    (process,) = analysis.processes
    (label,) = process.labels
    assert (label.label, label.count) == ("collect", 201)
    assert [site.reclaimed for site in process.call_sites if site.line == 20] == [0]


@every_interpreter
def test_case_16_many_sites_that_call_collect(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        heap = [[i] for i in range(200_000)]

        def first():
            x = []; x.append(x); del x
            gc.collect()

        def second():
            gc.collect()

        gc.collect()
        for _ in range(20):
            first()
            second()
        """,
    )
    (process,) = analysis.processes
    sites = {site.line: site for site in process.call_sites}
    assert {line: site.count for line, site in sites.items()} == {7: 20, 10: 20, 12: 1}
    assert sites[7].reclaimed >= 20 and sites[10].reclaimed == 0
    first = analysis.advice[0]
    assert "calls gc.collect() 20 times" in first.text and "Call it less often there" in first.text
    assert first.saving == max(site.total for site in sites.values())


@every_interpreter
def test_case_30_a_child_whose_collector_is_dead(folder: Path, interpreter: Interpreter) -> None:
    """Forked while another thread is inside a pass: a frame that nothing can repair."""
    analysis = run(
        folder,
        interpreter,
        """
        import gc, os, threading, warnings
        warnings.simplefilter("ignore")
        inside, forked = threading.Event(), threading.Event()

        def hold(phase, info):
            if phase == "start" and threading.current_thread() is not threading.main_thread():
                inside.set()
                forked.wait()

        gc.callbacks.append(hold)
        thread = threading.Thread(target=gc.collect)
        thread.start()
        inside.wait()
        pid = os.fork()
        if pid == 0:
            gc.callbacks.remove(hold)
            keep = [[] for _ in range(50_000)]
            assert gc.isenabled()
            os._exit(0)
        os.waitpid(pid, 0)
        forked.set()
        thread.join()
        """,
    )
    dead = [p for p in analysis.processes if any(event.kind == "dead collector" for event in p.events)]
    assert [p.series.first_text("parent_series") != "" for p in dead] == [True], [
        (p.name, p.events) for p in analysis.processes
    ]
    assert analysis.doubts[0].slug == "dead-collector"
    assert analysis.advice[0].text.startswith(f"the collector of {dead[0].name} is dead")
    assert "ITS COLLECTOR IS DEAD" in "\n".join(plain(report(analysis)))


@every_interpreter
def test_case_37_dead_clients_are_seen_as_reclaimed(folder: Path, interpreter: Interpreter) -> None:
    """The passes that free them are needed: no freeze is advised for what they do."""
    analysis = run(
        folder,
        interpreter,
        """
        class Client:
            def __init__(self):
                self.pool = {"client": self}
                self.buffer = bytearray(100)

        for _ in range(20_000):
            Client()
        """,
    )
    (process,) = analysis.processes
    assert sum(g.reclaimed for g in process.generations) >= 30_000
    assert not any("Freeze" in advice.text for advice in analysis.advice)


@every_interpreter
def test_case_38_passes_while_a_heap_is_built(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        gc.collect()
        heap = [(i, [i]) for i in range(200_000)]
        """,
    )
    (process,) = analysis.processes
    assert process.lost_passes == 0
    assert sum(g.automatic for g in process.generations) > 20
    assert all(g.reclaimed < 1000 for g in process.generations)


@every_interpreter
def test_case_39_counts_are_those_of_the_interpreter(folder: Path, interpreter: Interpreter) -> None:
    """``gc.get_count()`` goes up and down; collections, as recorded and as counted, never go down."""
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        gc.collect()
        keep = [[[k] for k in range(300)] for _ in range(60)]
        """,
    )
    (process,) = analysis.processes
    attach, close = process.at_attach, process.at_close
    assert attach is not None and close is not None
    for generation, (before, after) in enumerate(zip(attach.stats, close.stats, strict=True)):
        assert before is not None and after is not None
        recorded = sum(g.count for g in process.generations if g.generation == generation)
        assert after[0] >= before[0]
        # A pass may be under way at either reading.
        assert abs(after[0] - before[0] - recorded) <= 1, (generation, before, after, recorded)
    assert process.lost_passes == 0


@every_interpreter
def test_case_40_our_recorder_feeds_no_pass_and_keeps_nothing(folder: Path, interpreter: Interpreter) -> None:
    """Beside one that keeps a number a step, and one that keeps a dict and so makes its own passes."""
    run(
        folder,
        interpreter,
        """
        import array, gc
        import frostline

        class Server:
            def plain(self, i):
                return [i]
            def timed(self, i):
                return [i]

        server = Server()
        frostline.wrap(server, "timed", label="timed")
        rows, numbers = [], array.array("d")

        def number(i):
            server.plain(i)
            numbers.append(i)

        def ours(i):
            server.timed(i)
            with frostline.span("block", i):
                pass

        def row(i):
            server.plain(i)
            rows.append({"step": i, "tags": ["decode"], "t": (i, i)})

        def take(step):
            gc.collect()
            before = [one["collections"] for one in gc.get_stats()]
            tracked = len(gc.get_objects())
            for i in range(20_000):
                step(i)
            made = sum(one["collections"] - n for one, n in zip(gc.get_stats(), before))
            gc.collect()  # a tuple of numbers is tracked up to the first pass that sees it
            return made, len(gc.get_objects()) - tracked

        for step in (number, ours):
            take(step)  # names, and the first segments
        array_row, our_row, dict_row = take(number), take(ours), take(row)
        assert our_row[0] <= array_row[0] and our_row[1] <= array_row[1], (array_row, our_row)
        assert dict_row[0] > array_row[0] and dict_row[1] > 20_000, (array_row, dict_row)
        """,
    )


def test_case_45_the_innocent_callback_that_a_pass_hit(folder: Path) -> None:
    """asyncio names the callback; the report names the pass, and acquits the neighbour that slept."""
    analysis = run(
        folder,
        LATEST,
        """
        import gc, threading, time
        import frostline
        gc.disable()
        heap = [[i] for i in range(1_500_000)]
        never = threading.Event()

        class Loop:
            def innocent(self):
                if full:
                    gc.collect()

            def sleeper(self):
                never.wait(0.3)

        loop = Loop()
        frostline.wrap(loop, "innocent", label="innocent")
        frostline.wrap(loop, "sleeper", label="sleeper")
        full = False
        for _ in range(20):
            loop.innocent()
        full = True
        loop.innocent()
        loop.sleeper()
        """,
    )
    (process,) = analysis.processes
    steps = {step.label: step for step in process.long_steps}
    assert steps["sleeper"].overlap == 0 and not steps["sleeper"].explained
    if steps.get("innocent") is None:
        pytest.skip("this machine walks 1,500,000 objects in under 20 ms")
    assert steps["innocent"].explained


def test_case_49_where_a_freeze_gains_nothing_it_is_said(folder: Path) -> None:
    analysis = run(folder, found()[0], "heap = [[i] for i in range(2_000)]\n")
    assert analysis.advice[0].text.startswith("a freeze gains nothing here")
