"""Cases of freezes, run as real programs: what was frozen, when, by whom, and what it holds for good."""

from __future__ import annotations

from pathlib import Path

from frostline.report import plain, report
from tests.cases.test_cases import LATEST
from tests.interpreters import Interpreter, every_interpreter
from tests.report.test_real import folder, run

__all__ = ["folder"]


@every_interpreter
def test_case_09_a_freeze_without_a_collect_is_named(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc, weakref

        class Node: pass

        def garbage():
            refs = []
            for _ in range(1_000):
                x = Node(); x.me = x; refs.append(weakref.ref(x))
            return refs

        gc.collect()
        gc.disable()
        refs = garbage()
        gc.freeze()
        gc.collect()
        assert sum(r() is not None for r in refs) == 1_000
        gc.unfreeze()
        gc.collect()
        assert not any(r() for r in refs)
        """,
    )
    (freeze,) = analysis.processes[0].frozen.freezes
    assert freeze.why == "program" and freeze.where.endswith("case.py:15")
    assert freeze.garbage.endswith("containers made since the last full pass")
    (doubt,) = [d.text for d in analysis.doubts if d.slug == "frozen-garbage"]
    assert "case.py:15 froze without a collect before" in doubt
    assert "it is among the " in doubt and "that the full pass after the thaw reclaimed" in doubt


@every_interpreter
def test_case_09_without_a_thaw_it_cannot_be_counted(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        keep = [[i] for i in range(50)]
        gc.freeze()
        """,
    )
    (doubt,) = [d.text for d in analysis.doubts if d.slug == "frozen-garbage"]
    assert "how much cannot be counted without a thaw and a full pass" in doubt
    assert "Call gc.collect() just before gc.freeze()" in doubt


@every_interpreter
def test_case_09_who_collects_first_is_not_blamed(folder: Path, interpreter: Interpreter) -> None:
    """Neither the program that does it right, with the collector on or off, nor our boundary."""
    for switch in ("enable", "disable"):
        analysis = run(
            folder / switch if (folder / switch).mkdir() is None else folder,
            interpreter,
            f"""
            import gc
            import frostline
            frostline.install(policy="freeze")
            gc.{switch}()
            keep = [[i] for i in range(5_000)]
            gc.collect()
            gc.freeze()
            assert frostline.startup_complete() >= 5_000
            """,
        )
        freezes = analysis.processes[0].frozen.freezes
        assert [(f.why, f.garbage) for f in freezes] == [("program", ""), ("boundary", "")]
        assert not [d for d in analysis.doubts if d.slug == "frozen-garbage"]


ENGINES = """
import gc, weakref
import frostline
frostline.install(policy="freeze")

class Weights(bytearray):
    pass

class Engine:
    def __init__(self):
        self.weights = Weights(10_000)
        self.heap = [[i] for i in range(10_000)]
        self.scheduler = {"engine": self}

refs = []
for _ in range(3):
    engine = Engine()
    refs.append(weakref.ref(engine.weights))
    assert frostline.startup_complete() > 0
    if SHUTDOWN:
        frostline.shutdown()
    del engine
    gc.collect()
resident = sum(ref() is not None for ref in refs)
assert resident == (0 if SHUTDOWN else 3), resident
"""


@every_interpreter
def test_case_10_shutdown_leaves_no_engine_resident(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(folder, interpreter, "SHUTDOWN = True\n" + ENGINES)
    (process,) = analysis.processes
    assert len(process.frozen.thaws) == 3 and len(process.frozen.spans) == 3
    assert not any("never thawed" in line for line in plain(report(analysis)))


@every_interpreter
def test_case_10_without_it_the_report_says_what_stays(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(folder, interpreter, "SHUTDOWN = False\n" + ENGINES)
    (process,) = analysis.processes
    counts = [f.objects or 0 for f in process.frozen.freezes]
    assert len(counts) == 3 and counts[2] - counts[0] >= 20_000 and not process.frozen.thaws
    text = " ".join("\n".join(plain(report(analysis))).split())
    assert (
        f"frozen 3 times and never thawed, and what is frozen grew from {counts[0]:,} to {counts[2]:,}"
        in text
    )


def test_case_10_a_program_that_freezes_by_itself(folder: Path) -> None:
    program = """
    import gc
    for _ in range(3):
        engine = {"heap": [[i] for i in range(10_000)]}
        engine["me"] = engine
        gc.collect()
        gc.freeze()
        del engine
    """
    text = " ".join("\n".join(plain(report(run(folder, LATEST, program)))).split())
    assert "frozen 3 times (by" in text and "case.py:7) and never thawed, and" in text
    assert "objects were frozen at the end: cycles of an engine that was dropped in between" in text


@every_interpreter
def test_case_12_frozen_while_serving_and_put_right_when_idle(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc, weakref
        import frostline
        frostline.install(policy="freeze")

        class Request:
            def __init__(self):
                self.callback = self.done
            def done(self): pass

        refs = []
        with frostline.request(), frostline.request(), frostline.request():
            held = [Request() for _ in range(64)]
            refs += map(weakref.ref, held)
            assert frostline.startup_complete() == -1
            del held
        gc.collect()
        assert sum(ref() is not None for ref in refs) == 64  # caught by the splice
        frostline.idle()
        assert not any(ref() for ref in refs)
        """,
    )
    (process,) = analysis.processes
    (splice, right) = process.frozen.freezes
    assert (splice.why, splice.garbage, splice.in_flight) == ("boundary", "without a collect", 3)
    assert right.why == "whole heap" and splice.righted and splice.reclaimed >= 64
    assert [f.objects is not None for f in process.frozen.freezes] == [False, True]
    text = "\n".join(plain(report(analysis)))
    assert "frozen while serving: 3 requests in flight" in text
    assert "Frostline walked the whole heap once after the boundary" in text
    assert not [d for d in analysis.doubts if d.slug == "frozen-garbage"]


def test_case_19_a_collect_on_failure_that_frees_what_was_held(folder: Path) -> None:
    program = """
    import gc
    import frostline
    gc.disable()

    class Device:
        used, budget = 0, 25
        def alloc(self):
            if self.used >= self.budget:
                raise MemoryError
            return Buffer(self)

    class Buffer:
        def __init__(self, device):
            self.device = device
            self.heap = [[i] for i in range(1_000)]
            device.used += 1
        def __del__(self):
            self.device.used -= 1

    class Holder:
        def __init__(self, buffer):
            self.buffer, self.me = buffer, self

    device = Device()
    frostline.wrap(device, "alloc")
    for _ in range(60):
        try:
            Holder(device.alloc())
        except MemoryError:
            gc.collect()
    """
    analysis = run(folder, LATEST, program)
    (label,) = analysis.processes[0].labels
    assert (label.count, label.errors) == (60, 2)
    texts = [advice.text for advice in analysis.advice]
    # By what the calls cost: where they take long on this machine, they are named by line instead.
    assert any(
        "failed; then a full pass reclaimed 25," in t or "an allocation has failed" in t for t in texts
    )


def test_case_23_requests_with_and_without_the_touched(folder: Path) -> None:
    analysis = run(
        folder,
        LATEST,
        """
        import gc
        import frostline
        gc.disable()
        heap = [[i, [i]] for i in range(250_000)]

        class Server:
            def request(self, i):
                if i % 50 == 49:
                    gc.collect()

        server = Server()
        frostline.wrap(server, "request")
        for i in range(200):
            server.request(i)
        """,
    )
    (label,) = analysis.processes[0].labels
    assert label.count == 200 and label.touched >= 4
    # The untouched are a microsecond each: on no machine is that nine tenths of a walk of 500,000.
    assert 0 <= label.p99_rest < 0.9 * label.p99
    (line,) = analysis.verdict.tail
    assert f"without the {label.touched} of 200 that a full pass" in line


@every_interpreter
def test_case_42_the_thread_in_which_a_destructor_ran(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc, threading
        gc.disable()
        ran = []

        class Writer:
            def __init__(self):
                self.me = self
            def __del__(self):
                ran.append(threading.get_ident())

        Writer()
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        assert ran and ran[0] != threading.get_ident()
        """,
    )
    (one,) = analysis.processes[0].threads
    assert (one.count, one.full) == (1, 1) and one.reclaimed >= 1
    assert one.tid not in (0, analysis.processes[0].pid)
    assert "Passes outside the main thread" in "\n".join(plain(report(analysis)))


@every_interpreter
def test_case_49_where_the_source_is_fixed_no_policy_is_advised(
    folder: Path, interpreter: Interpreter
) -> None:
    """Messages die by reference count, so no full pass comes: frozen or not, there is nothing to gain."""
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        heap = [[i] for i in range(20_000)]
        gc.collect()
        gc.freeze()

        class Message: pass

        def request():
            message = Message()
            message.parts = [[k] for k in range(20)]

        for _ in range(5_000):
            request()
        """,
    )
    (process,) = analysis.processes
    assert process.while_frozen == ()
    assert not any("--policy" in advice.command for advice in analysis.advice)
