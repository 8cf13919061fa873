"""``prefork``: pages of a parent that forks stay shared with its children (case 22, C9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as layout
from tests.interpreters import Interpreter, every_interpreter, found
from tests.probe.target import run
from tests.probe.test_recorder import marks
from tests.reach.under_run import run as run_command
from tests.reach.under_run import write

#: Forks, and says what the child's pages are after it has done ``act``, in kB; the least of three.
COPIED = """
import gc, os, sys
import frostline
def private():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
def child(*acts):
    seen = []
    for _ in range(3):
        r, w = os.pipe()
        if os.fork() == 0:
            try:
                mine = [[i] for i in range(20_000)]
                gc.collect()
                for act in acts: act()
                os.write(w, str(private()).encode())
            finally:
                os._exit(0)
        os.wait()
        seen.append(int(os.read(r, 100))); os.close(r); os.close(w)
    return min(seen)
heap = [[i] for i in range(400_000)]
"""
smaps = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs smaps_rollup")


def copied(interpreter: Interpreter, tmp_path: Path, how: str, policy: str) -> int:
    ran = run(interpreter, tmp_path, f"{COPIED}\n{how}\nprint(child())", FROSTLINE_POLICY=policy)
    assert (ran.code, ran.errors) == (0, "")
    return int(ran.output)


@smaps
@every_interpreter
def test_as_little_is_copied_as_after_a_freeze_by_hand(interpreter: Interpreter, tmp_path: Path) -> None:
    """Within 10 %, both recorded: a few hundred kB are the recorder's. (4 MB, and 30 MB without a freeze.)

    The least of several programs of each: under load some pages of a parent are written to again, on either
    side. Three tries, and more while the bound is missed.
    """
    stock = copied(interpreter, tmp_path, "", "")
    by_hand = by_policy = stock
    for tries in range(8):
        by_hand = min(by_hand, copied(interpreter, tmp_path, "gc.collect(); gc.freeze()", ""))
        by_policy = min(by_policy, copied(interpreter, tmp_path, "", "prefork"))
        if tries >= 2 and by_policy <= 1.1 * by_hand:
            break
    assert by_policy <= 1.1 * by_hand and 4 * by_policy < stock, (stock, by_hand, by_policy)


@smaps
@every_interpreter
def test_neither_a_childs_boundary_nor_its_shutdown_copies_what_it_inherited(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        COPIED
        + """
        from frostline.policy import engine
        def boundary(): assert frostline.startup_complete() > 400_000 + 20_000
        def idle(): assert not frostline.idle()
        def shutdown():
            frostline.shutdown(); assert gc.get_freeze_count() < 1000
        print(child(), child(boundary), child(boundary, boundary, idle, boundary, shutdown),
              child(boundary, shutdown, gc.collect))
        """.replace("\n        ", "\n"),
        FROSTLINE_POLICY="prefork",
    )
    assert (ran.code, ran.errors) == (0, "")
    nothing, boundary, all_of_it, thawed = map(int, ran.output.split())
    assert boundary < nothing + 1500 and all_of_it < nothing + 1500, ran.output
    assert thawed > 3 * all_of_it, ran.output  # and only now: what the others must not do can be seen


@every_interpreter
def test_many_forks_walk_the_heap_once_and_starve_nothing(interpreter: Interpreter, tmp_path: Path) -> None:
    """Recycled workers: a few objects a fork, some of them garbage. Counts only."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os, sys
        class Worker:
            alive = 0
            def __init__(self): self.me = self; self.parts = [[i] for i in range(40)]; Worker.alive += 1
            def __del__(self): Worker.alive -= 1
        heap = [[i] for i in range(200_000)]
        walked = []
        def watch(phase, info):
            if phase == "start" and info["generation"] == 2: walked.append(len(gc.get_objects()))
        gc.set_threshold(200, 10, 10)
        gc.callbacks.append(watch)
        def fork():
            pid = os.fork()
            if pid == 0: os._exit(0)
            os.waitpid(pid, 0)
        fork(); once = gc.get_freeze_count()
        for _ in range(5): fork()
        assert gc.get_freeze_count() == once            # too little is new: counters and all stay
        for _ in range(100):
            fork()
            Worker()                                    # garbage at once
        big = [n for n in walked if n > 100_000]
        assert len(big) == 1, walked
        assert Worker.alive < 60, Worker.alive          # 44 objects each: what FEW leaves, and a young pass
        assert gc.get_freeze_count() > 200_000

        # A parent that grows: each fork collects what is new, and no more.
        del walked[:]
        for _ in range(10):
            heap.append([[i] for i in range(3_000)])
            fork()
        assert walked and max(walked) < 10_000, walked
        assert gc.get_freeze_count() > 225_000
        """,
        FROSTLINE_POLICY="prefork", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_what_dies_in_cycles_after_a_freeze_is_bounded(interpreter: Interpreter, tmp_path: Path) -> None:
    """F stays under half of H and the budget; what has died by reference count does not spend it."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os
        class Session:
            alive = 0
            def __init__(self, cyclic):
                self.me = self if cyclic else None
                self.parts = [[i] for i in range(6_000)]; Session.alive += 1
            def __del__(self): Session.alive -= 1
        heap = [[i] for i in range(20_000)]
        start = gc.get_freeze_count()
        full = []
        def watch(phase, info):
            if phase == "stop" and info["collected"] > 6_000: full.append(info["collected"])
        gc.callbacks.append(watch)
        def fork():
            pid = os.fork()
            if pid == 0: os._exit(0)
            os.waitpid(pid, 0)
        fork()
        kept = gc.get_freeze_count() - start
        for _ in range(40):
            session = Session(cyclic=True)
            fork()                                      # frozen alive
            assert gc.get_freeze_count() - start <= 1.5 * (kept + 6_100) + 50_000  # H has one that is alive
            del session
        assert full and Session.alive <= 13, (full, Session.alive)
        del full[:]
        for _ in range(40):
            session = Session(cyclic=False)
            fork()
            del session
        assert len(full) <= 1                           # what the first loop left
        """,
        FROSTLINE_POLICY="prefork", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_a_parent_that_serves_is_not_stalled(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, os, weakref
        class Request:
            def __init__(self): self.me = self
        heap = [[i] for i in range(50_000)]
        passes = []
        def fork():
            pid = os.fork()
            if pid == 0: os._exit(0 if gc.get_freeze_count() > 50_000 else 9)
            assert os.waitpid(pid, 0)[1] == 0
        def watch(phase, info): passes.append(info["generation"])
        gc.collect()
        with frostline.request():
            request = Request(); gone = weakref.ref(request)
            gc.callbacks.append(watch)
            fork(); count = gc.get_freeze_count()
            more = [[i] for i in range(300)]
            fork(); assert gc.get_freeze_count() == count         # only the first splices
            gc.callbacks.remove(watch)
            assert passes == [], passes
            with frostline.defer(): fork()
            assert gc.get_freeze_count() == count
        del request
        gc.collect(); assert gone() is not None
        assert frostline.idle() and gone() is None                # put right
        with frostline.defer():
            more = [[i] for i in range(5_000)]
            gc.callbacks.append(watch); fork(); gc.callbacks.remove(watch)
            assert passes == [], passes
        """,
        FROSTLINE_POLICY="prefork",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")
    parent = next(s for s in ran.session.series if not marks(s, layout.MARK_FORKED))
    freezes = marks(parent, layout.MARK_FREEZE)
    ours = layout.MARK_FLAG_OURS
    assert [mark.flags for mark in freezes] == [ours | layout.MARK_FLAG_SPLICE, ours]


@every_interpreter
def test_a_fork_inside_a_pass_and_beside_one(interpreter: Interpreter, tmp_path: Path) -> None:
    """Nothing can be collected then, so nothing is frozen; nobody waits, and the next fork does it."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os, threading, warnings
        warnings.simplefilter("ignore")                           # a fork beside a thread
        heap = [[i] for i in range(20_000)]
        start = gc.get_freeze_count()
        def fork():
            pid = os.fork()
            if pid == 0: os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        class Last:
            def __del__(self): fork()
        def once(phase, info):
            if phase == "start": gc.callbacks.remove(once); fork()
        last = Last(); last.me = last; del last
        gc.callbacks.append(once)
        gc.collect()
        assert gc.get_freeze_count() == start

        inside, go_on = threading.Event(), threading.Event()
        def hold(phase, info):
            if threading.current_thread() is thread and phase == "start": inside.set(); go_on.wait(60)
        gc.callbacks.append(hold)
        thread = threading.Thread(target=gc.collect); thread.start(); inside.wait(60)
        fork()
        assert gc.get_freeze_count() == start
        go_on.set(); thread.join(60)
        fork()
        assert gc.get_freeze_count() > start + 20_000
        """,
        FROSTLINE_POLICY="prefork",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_the_state_of_the_collector_and_the_children_of_subprocess(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Off in the parent stays off, there and in the child; a program that is executed shares nothing."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, os, pty, subprocess, sys
        heap = [[i] for i in range(20_000)]
        start = gc.get_freeze_count()
        subprocess.run(["true"], check=True)
        subprocess.run(["true"], check=True, preexec_fn=lambda: None)
        assert gc.get_freeze_count() == start
        gc.disable()
        pid, terminal = pty.fork()
        if pid == 0: os._exit(0 if not gc.isenabled() and gc.get_freeze_count() > start + 20_000 else 9)
        assert os.waitpid(pid, 0)[1] == 0 and not gc.isenabled()
        frostline.shutdown()
        assert gc.get_freeze_count() <= start                     # 3.12's own go with the rest
        pid = os.fork()                                           # given up: nothing is frozen any more
        if pid == 0: os._exit(0 if gc.get_freeze_count() <= start else 9)
        assert os.waitpid(pid, 0)[1] == 0
        assert frostline.startup_complete() > 20_000              # and taken up again
        """,
        FROSTLINE_POLICY="prefork", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_of_a_pool(tmp_path: Path, method: str) -> None:
    """The fork server is the parent there: it imports what is preloaded, and forks each worker."""
    write(tmp_path / "loaded.py", "heap = [[i] for i in range(30_000)]\n")
    program = write(
        tmp_path / "pool.py",
        "import gc, multiprocessing, sys\n"
        "def frozen(_): return gc.get_freeze_count() > 30_000\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    context.set_forkserver_preload(['loaded'])\n"
        f"    if {method!r} == 'fork': import loaded\n"
        "    with context.Pool(2, maxtasksperchild=1) as pool:\n"
        "        print(pool.map(frozen, range(6), 1))\n",
    )
    for interpreter in found():
        folder = tmp_path / str(interpreter)
        folder.mkdir()
        ended = run_command(
            folder,
            interpreter.executable,
            str(program),
            options=("--policy", "prefork"),
            PYTHONPATH=str(tmp_path),
        )
        assert ended.output == f"{[True] * 6}\n", (str(interpreter), ended)


@every_interpreter
def test_what_a_child_inherited_is_thawed_by_follow_alone(interpreter: Interpreter, tmp_path: Path) -> None:
    """A walk of the whole heap in a forked child would copy its pages: only a bound on leaks is worth it."""
    for policy, thawed in (("freeze", False), ("prefork", False), ("follow", True)):
        ran = run(
            interpreter,
            tmp_path,
            f"""
            import frostline, gc, os
            class Old: pass
            heap = [[i] for i in range(20_000)]
            old = Old(); old.me = old
            frostline.startup_complete()
            pid = os.fork()
            if pid == 0:
                try:
                    del old                                       # garbage among what was inherited
                    there = lambda: sum(1 for _ in [0] if gc.get_freeze_count() > 20_000)
                    frostline.startup_complete()                  # the first walk
                    gone = []
                    Old.__del__ = lambda self: gone.append(1)
                    with frostline.request():
                        frostline.startup_complete()              # a splice
                    assert frostline.idle() is {thawed}
                    assert there() and bool(gone) is {thawed}
                finally:
                    os._exit(sum(map(bool, gone)) if {thawed} else 7)
            os._exit(0 if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (1 if {thawed} else 7) else 9)
            """,
            FROSTLINE_POLICY=policy, FROSTLINE_OUTPUT="",
        )  # fmt: skip
        assert (ran.code, ran.errors) == (0, ""), policy
