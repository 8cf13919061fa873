"""When a long walk is made: ``idle``, ``sync``, ``periodic``, ``major=`` of ``follow`` (C8, case 43)."""

from __future__ import annotations

from pathlib import Path

from frostline import format as layout
from tests.interpreters import Interpreter, every_interpreter
from tests.probe.target import run
from tests.probe.test_recorder import marks, only

NEVER = 2**31 - 1


def lines(ran: object, what: int) -> list[object]:
    series = only(ran.session.series)  # type: ignore[attr-defined]
    return [mark for mark in marks(series, layout.MARK_LINE) if mark.values[0] == what]


@every_interpreter
def test_idle_makes_full_passes_only_when_it_is_said_to_be_idle(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        full = []
        def watch(phase, info):
            if phase == "stop" and info["generation"] == 2: full.append(info["collected"])
        assert frostline.startup_complete() is None               # it freezes nothing
        gc.callbacks.append(watch)
        keep = [[i] for i in range(20_000)]
        class Cycle:
            def __init__(self): self.me = self
        kept = [Cycle() for _ in range(3000)]
        keep += [[i] for i in range(20_000)]
        del kept[:]
        with frostline.request():
            assert not frostline.idle()
        assert full == [], full
        assert frostline.idle()
        assert len(full) == 1 and full[0] >= 3000, full
        assert not frostline.idle() and len(full) == 1            # none is due
        frostline.shutdown()
        assert gc.get_threshold() == (200, 5, 5)
        keep += [[i] for i in range(60_000)]
        assert len(full) > 1                                      # as before
        """,
        FROSTLINE_POLICY="idle,thresholds=200/5/5",
    )
    assert (ran.code, ran.errors) == (0, "")
    assert not lines(ran, layout.LINE_DEADLINE)


@every_interpreter
def test_idle_past_its_deadline_lets_the_collector_do_its_own(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, time
        full = []
        def watch(phase, info):
            if phase == "stop" and info["generation"] == 2: full.append(gc.get_threshold())
        frostline.startup_complete()
        gc.callbacks.insert(0, watch)
        keep = []
        ends = time.monotonic() + 60
        while not full and time.monotonic() < ends:
            keep += [[i] for i in range(1000)]
        assert full == [(200, 5, 5)], full
        assert gc.get_threshold() == (200, 5, 2**31 - 1)          # and then it is held back again
        """,
        FROSTLINE_POLICY="idle,thresholds=200/5/5,deadline=1ms",
    )
    assert (ran.code, ran.errors) == (0, "")
    assert len(lines(ran, layout.LINE_DEADLINE)) == 1


SERVER = """
import asyncio, frostline, gc
from frostline.policy import engine, moments
heap = [[i] for i in range(30_000)]
frostline.startup_complete()

async def request():
    with frostline.request():
        await asyncio.sleep(0)
        keep.extend([i] for i in range(8000))

async def until(what):
    while not what():
        await asyncio.sleep(0.005)

keep = []
"""


@every_interpreter
def test_follow_restores_its_credit_when_an_event_loop_is_quiet(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        SERVER
        + """
line = engine.keeper().line
async def main():
    held = asyncio.Event()
    async def slow():
        with frostline.request():
            await held.wait()
    task = asyncio.ensure_future(slow())
    await asyncio.sleep(0)
    while not line.exhausted:
        await request()
    assert line.wholes == 1
    asyncio.get_running_loop().call_later(0.3, held.set)  # never idle until then
    while not held.is_set():
        await asyncio.sleep(0.01)
        assert line.wholes == 1
    await task
    # One that comes in before it was quiet for long enough, and stays, is in flight as well.
    held.clear()
    task = asyncio.ensure_future(slow())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.3, held.set)
    while not held.is_set():
        await asyncio.sleep(0.01)
        assert line.wholes == 1
    await asyncio.wait_for(until(lambda: line.wholes == 2), 60)
    assert not line.exhausted and line.frozen == 0 and line.kept > 30_000
    await task
asyncio.run(main())
""",
        FROSTLINE_POLICY="follow,thresholds=200/10/10,budget=6000",
    )
    assert (ran.code, ran.errors) == (0, "")
    assert len(lines(ran, layout.LINE_WHOLE_HEAP)) == 2
    assert len(lines(ran, layout.LINE_EXHAUSTED)) == 1


@every_interpreter
def test_a_loop_that_ended_before_it_was_quiet_leaves_the_next_one_its_idle_moments(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """asyncio.run() again and again; a fork into a child with a loop of its own is the same."""
    ran = run(
        interpreter,
        tmp_path,
        SERVER
        + """
import time
line = engine.keeper().line
async def short():
    while not line.exhausted:
        await request()
async def long():
    ends = time.monotonic() + 60
    while line.wholes == 1 and time.monotonic() < ends:
        await asyncio.sleep(0.2)
        with frostline.request(): pass
asyncio.run(short())
assert line.wholes == 1
asyncio.run(long())
assert line.wholes == 2
""",
        FROSTLINE_POLICY="follow,thresholds=200/10/10,budget=6000", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_a_walk_is_not_begun_inside_another_one_nor_left_half_done(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Finalizers ask for one, other threads do, and an error in one is not the host's."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, threading
        from frostline.policy import engine
        asked = []
        class Asks:
            def __init__(self): self.me = self
            def __del__(self): asked.append((engine.whole_heap(), frostline.startup_complete()))
        heap = [[i] for i in range(30_000)]
        Asks()
        frostline.startup_complete()
        assert asked == [(None, None)], asked
        line = engine.keeper().line
        assert line.wholes == 1 and not line.busy
        results = []
        threads = [threading.Thread(target=lambda: results.append(engine.whole_heap())) for _ in range(8)]
        [t.start() for t in threads]; [t.join(60) for t in threads]
        assert len(results) == 8 and any(results) and not line.busy
        assert line.frozen == 0 and line.kept >= 30_000
        engine.keeper().after_whole_heap = None          # a state that cannot be
        keep = []
        while not line.exhausted: keep += [[i] for i in range(8000)]
        assert not frostline.idle()
        assert not line.busy
        """,
        FROSTLINE_POLICY="follow,thresholds=200/10/10,budget=6000",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_major_never_leaves_the_heap_alone(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline
        from frostline.policy import engine
        frostline.startup_complete()
        line = engine.keeper().line
        keep = []
        while not line.exhausted: keep += [[i] for i in range(8000)]
        assert not frostline.idle() and line.wholes == 1
        """,
        FROSTLINE_POLICY="follow,thresholds=200/10/10,budget=6000,major=never",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_asyncio_is_not_imported_for_it(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import sys
        before = set(sys.modules)
        import frostline
        frostline.startup_complete()
        with frostline.request(): pass
        frostline.idle(); frostline.step()
        with frostline.defer(): pass
        added = {name for name in set(sys.modules) - before if not name.startswith("frostline.")}
        assert not added, added
        assert "frostline.probe.spans" not in sys.modules
        """,
        FROSTLINE_POLICY="follow", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_forced_walks_are_at_a_safe_point_with_other_callbacks_around(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Another tool's callback behind ours would run the handler inside the pass: it is tried again."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, signal, threading
        mine = []
        signal.signal(signal.SIGRTMAX - 2, lambda *_: mine.append(1))
        frostline.startup_complete()
        from frostline.policy import engine
        line = engine.keeper().line
        def other(phase, info):
            for _ in range(3): len("x")
        gc.callbacks.append(other)
        keep = []
        def grow():
            for _ in range(400): keep.extend([i] for i in range(200))
        grow()
        assert line.wholes >= 2, line.wholes                      # the boundary's is one
        thread = threading.Thread(target=grow); thread.start(); thread.join(60)
        gc.callbacks.remove(other)
        grow()
        assert mine                                               # the host's own handler is called too
        assert not line.broken and not line.busy
        """,
        FROSTLINE_POLICY="follow,thresholds=200/10/10,budget=6000,major=force",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_ranks_collect_at_the_same_steps_and_at_no_other(interpreter: Interpreter, tmp_path: Path) -> None:
    """Case 43: ranks with unequal heaps, spawned."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os, frostline
        reads = []
        for rank in range(3):
            r, w = os.pipe()
            if os.fork() == 0:
                heap = [[i] for i in range(10_000 + 7_000 * rank)]
                gc.collect()
                hit, step = [], 0
                def watch(phase, info):
                    if phase == "start" and info["generation"] == 2: hit.append(step)
                gc.callbacks.append(watch)
                keep = []
                for step in range(1, 301):
                    keep.extend([i] for i in range(300 + 20 * rank))
                    assert frostline.step() == (step % 75 == 0)
                os.write(w, repr(hit).encode()); os._exit(0)
            os.close(w); reads.append(r)
        hits = [os.read(r, 1000).decode() for r in reads]
        assert hits == ["[75, 150, 225, 300]"] * 3, hits
        # Numbered by the caller: a rank that joins later is in step.
        assert not frostline.step(74) and frostline.step() and frostline.step(150)
        frostline.shutdown()
        assert gc.get_threshold() == (500, 3, 3)
        """,
        FROSTLINE_POLICY="sync:75,thresholds=500/3/3", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_periodic_collects_and_freezes_every_so_often(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, time
        first = frostline.startup_complete()
        assert first > 0
        at_start = gc.get_freeze_count() - first
        keep = []
        ends = time.monotonic() + 60
        for _ in range(3):
            frozen = gc.get_freeze_count()
            keep.extend([i] for i in range(20_000))
            while gc.get_freeze_count() < frozen + 15_000 and time.monotonic() < ends:
                trash = [[i] for i in range(5000)]
        assert time.monotonic() < ends and gc.get_freeze_count() >= at_start + first + 45_000
        frostline.shutdown()
        assert gc.get_freeze_count() <= at_start
        """,
        FROSTLINE_POLICY="periodic:20ms",
    )
    assert (ran.code, ran.errors) == (0, "")
    series = only(ran.session.series)
    freezes = marks(series, layout.MARK_FREEZE)
    assert len(freezes) >= 4 and all(not m.flags & layout.MARK_FLAG_SPLICE for m in freezes)


@every_interpreter
def test_a_lull_is_one_when_it_has_lasted_as_long_as_the_walk_will(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline
        from frostline.policy import moments
        assert moments.quiet() == moments.QUIET
        heap = [[i] for i in range(1_500_000)]
        import time
        begun = time.monotonic()
        frostline.startup_complete()
        took = time.monotonic() - begun
        assert moments.QUIET < moments.quiet() <= min(took, 2.0), (moments.quiet(), took)
        moments.walked(0.001)
        assert moments.quiet() == moments.QUIET
        moments.walked(60)
        assert moments.quiet() == 2.0
        """,
        FROSTLINE_POLICY="freeze",
    )
    assert (ran.code, ran.errors) == (0, "")
