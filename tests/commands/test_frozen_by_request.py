"""A freeze and a thaw that are asked for, beside a policy and without one: what is said of it afterwards, and
when the policy puts such a freeze right (C4, D6).
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from frostline import format as layout
from frostline.reach import asking, control, segments
from tests.commands.test_control import FORKS, PYTHON, frostline, up
from tests.commands.test_policy import SEES, said, see
from tests.interpreters import Interpreter, every_interpreter
from tests.reach.under_run import running

FREEZE = ("--policy", "freeze")

QUIET_LOOP = """
import asyncio, gc, sys, time
import frostline
whole = []
async def main():
    loop = asyncio.get_running_loop()
    told = asyncio.Queue()
    loop.add_reader(0, lambda: told.put_nowait(sys.stdin.readline()))
    frostline.startup_complete()
    gc.callbacks.append(lambda phase, info: info["generation"] == 2 and whole.append(time.monotonic()))
    print("up", flush=True)
    begun = float(await told.get())
    with frostline.request():
        pass
    while not whole:
        await asyncio.sleep(0.01)
    print(whole[0] - begun)
asyncio.run(main())
"""


@every_interpreter
def test_after_a_thaw_a_policy_does_not_wait_for_what_is_past(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    with running(tmp_path, interpreter.executable, "-c", SEES, options=FREEZE) as process:
        up(process)
        assert said(tmp_path) == "freeze 2"
        assert int(see(process, "frostline.startup_complete()")) > 50_000
        for again in (("freeze",), ("freeze", "--now"), ("freeze", "--now"), ("freeze",)):
            assert frostline(tmp_path, "thaw", "rec").returncode == 0
            assert see(process, "frozen()") == "False"
            shown = frostline(tmp_path, "policy", "rec").stdout
            assert "its boundary is past" in shown and "waits" not in shown
            assert said(tmp_path) == "freeze 6"
            assert said(tmp_path, *again) == "freeze 4" and see(process, "frozen()") == "True"
        # Whose word does not count has told nothing.
        assert said(tmp_path, "prefork,boundary=program", "rec") == "prefork,boundary=program 4"
        assert frostline(tmp_path, "thaw", "rec").returncode == 0
        assert said(tmp_path, "idle", "rec") == "idle 1"
        process.communicate(timeout=30)


def test_what_is_frozen_without_a_policy_is_said(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", SEES) as process:
        up(process)
        assert frostline(tmp_path, "freeze", "rec").stdout.splitlines()[0].endswith("  frozen")
        shown = frostline(tmp_path, "policy", "rec").stdout
        assert "off; by `frostline freeze`: frozen, spliced" in shown
        assert frostline(tmp_path, "thaw", "rec").returncode == 0
        assert said(tmp_path) == "off 0"
        process.communicate(timeout=30)


def test_that_a_policy_will_walk_the_heap_is_said_and_not_all_do_so_at_once(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", FORKS, options=FREEZE) as process:
        up(process, 3)
        done = frostline(tmp_path, "freeze", str(process.pid), "--tree")
        assert done.returncode == 0 and done.stdout.count("walks the whole heap in an idle moment") == 3
        targets = asking.targets(str(process.pid), True)
        found = [segments.read_words(target.mailbox) for target in targets]
        assert [words and words["arg0"] for words in found] == [0, 2000, 4000]
        for target in targets:
            if target.pid != process.pid:
                os.kill(target.pid, signal.SIGKILL)


@every_interpreter
def test_an_idle_moment_that_is_put_off_comes_later(tmp_path: Path, interpreter: Interpreter) -> None:
    with running(tmp_path, interpreter.executable, "-c", SEES, options=FREEZE) as process:
        up(process)
        see(process, "frostline.startup_complete()")
        (target,) = asking.targets(str(process.pid))
        for delay, idle in ((60_000, "False"), (2**62, "False"), (-(2**62), "True"), (0, "True")):
            answer = control.send(target.mailbox, layout.OP_FREEZE, (delay,), 30.0)
            assert answer.result == layout.FREEZE_PUT_RIGHT
            assert see(process, "frostline.idle()") == idle
        process.communicate(timeout=30)


@every_interpreter
def test_so_it_does_on_an_event_loop(tmp_path: Path, interpreter: Interpreter) -> None:
    with running(tmp_path, interpreter.executable, "-c", QUIET_LOOP, options=FREEZE) as process:
        up(process)
        (target,) = asking.targets(str(process.pid))
        begun = time.monotonic()
        answer = control.send(target.mailbox, layout.OP_FREEZE, (1500,), 30.0)
        assert answer.result == layout.FREEZE_PUT_RIGHT
        out, err = process.communicate(f"{begun}\n", timeout=60)
        assert float(out) >= 1.5, err
