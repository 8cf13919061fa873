"""Cases of the freeze audit by the recording alone: sessions that have ended (D6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline.analysis.audit import audit
from frostline.analysis.audited import Audited
from tests.interpreters import Interpreter, every_interpreter
from tests.report.test_real import folder, run

__all__ = ["folder"]

NODE = """
import gc
import frostline
class Node:
    __slots__ = ("me",)
def garbage(count):
    for _ in range(count):
        one = Node()
        one.me = one
"""


def audited(folder: Path, interpreter: Interpreter, program: str) -> Audited:
    analysis = run(folder, interpreter, NODE + program)
    return audit(analysis.processes[0], start=analysis.start)


def names(one: Audited) -> list[str]:
    return [finding.name for finding in one.findings]


@every_interpreter
def test_case_09_garbage_frozen_and_nobody_collected(folder: Path, interpreter: Interpreter) -> None:
    one = audited(folder, interpreter, "gc.collect()\ngc.disable()\ngarbage(1_500)\ngc.freeze()\n")
    assert names(one) == ["frozen-garbage"] and one.garbage_why
    assert one.by.startswith("the program itself, ") and one.by.endswith("case.py:13")
    assert one.frozen is not None and one.frozen >= 1_500 and one.how == "counted at its end"
    assert "gc.collect() just before" in one.findings[0].do


@every_interpreter
def test_case_09_who_collects_first_is_sound(folder: Path, interpreter: Interpreter) -> None:
    one = audited(folder, interpreter, "garbage(1_500)\ngc.collect()\ngc.freeze()\n")
    assert names(one) == ["sound"] and one.garbage_why == ""


@every_interpreter
def test_case_12_by_what_the_program_tells_of_its_requests(folder: Path, interpreter: Interpreter) -> None:
    program = """
request = frostline.request()
for _ in range(5):
    request.__enter__()
for _ in range(3):
    gc.collect()
    gc.freeze()
    request.__exit__(None, None, None)
"""
    one = audited(folder, interpreter, program)
    assert one.in_flight == 5 and names(one) == ["frozen-serving", "never-thawed"]
    assert "frozen 3 times while serving" in one.findings[0].text
    assert "up to 5 requests in flight" in one.findings[0].text


@every_interpreter
def test_case_12_by_the_spans_of_requests(folder: Path, interpreter: Interpreter) -> None:
    """A program that tells of no request, whose handlers are timed."""
    program = """
import asyncio
class Server:
    async def handle(self, ready):
        await ready.wait()
async def main():
    server, ready = Server(), asyncio.Event()
    frostline.wrap(server, "handle")
    waiting = [asyncio.ensure_future(server.handle(ready)) for i in range(7)]
    await asyncio.sleep(0.05)
    gc.collect()
    gc.freeze()
    ready.set()
    await asyncio.gather(*waiting)
    await asyncio.sleep(0.3)
asyncio.run(main())
"""
    one = audited(folder, interpreter, program)
    assert one.in_flight == 7 and names(one) == ["frozen-serving"]


@every_interpreter
def test_case_12_a_splice_that_an_idle_moment_put_right(folder: Path, interpreter: Interpreter) -> None:
    program = """
frostline.install(policy="freeze")
with frostline.request():
    garbage(100)
    frostline.startup_complete()
{idle}
"""
    one = audited(folder, interpreter, program.format(idle=""))
    assert names(one) == ["frozen-serving"] and one.by == "Frostline, at the boundary"
    right = folder / "right"
    right.mkdir()
    one = audited(right, interpreter, program.format(idle="frostline.idle()"))
    assert names(one) == ["sound"]


@every_interpreter
def test_case_10_engines_that_are_never_given_back(folder: Path, interpreter: Interpreter) -> None:
    program = """
frostline.install(policy="freeze")
for _ in range({engines}):
    engine = {{"heap": [[i] for i in range(8_000)]}}
    engine["me"] = engine
    frostline.startup_complete()
    del engine
    {close}
"""
    one = audited(folder, interpreter, program.format(engines=3, close="gc.collect()"))
    assert names(one) == ["never-thawed"] and "grew from" in one.findings[0].text
    for i, (engines, close) in enumerate(((3, "frostline.shutdown()"), (1, "gc.collect()"))):
        fine = folder / str(i)
        fine.mkdir()
        one = audited(fine, interpreter, program.format(engines=engines, close=close))
        assert names(one) == (["thawed"] if engines == 3 else ["sound"])
        assert all(finding.good for finding in one.findings)


@every_interpreter
def test_case_47_what_the_interpreter_has_frozen_is_nobody_s(folder: Path, interpreter: Interpreter) -> None:
    one = audited(folder, interpreter, "pass\n")
    assert one.frozen == 0 and names(one) == ["not-frozen"]
    frozen = folder / "frozen"
    frozen.mkdir()
    one = audited(frozen, interpreter, "import os\ngc.collect()\nn = gc.get_freeze_count()\ngc.freeze()\n")
    assert one.frozen is not None and 2_000 < one.frozen < 50_000


@every_interpreter
def test_case_49_where_a_freeze_gains_nothing_that_is_said(folder: Path, interpreter: Interpreter) -> None:
    one = audited(folder, interpreter, "for _ in range(3_000):\n    message = [[i] for i in range(20)]\n")
    (finding,) = one.findings
    assert finding.name == "not-frozen"
    # On a busy machine the few short passes may have taken long: then it sends to the report.
    assert finding.good == ("a freeze gains nothing here" in finding.text)


@every_interpreter
@pytest.mark.parametrize(("grown", "told"), ((60_000, True), (500, False)))
def test_what_has_grown_since_is_told_where_it_matters(
    folder: Path, interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, grown: int, told: bool
) -> None:
    monkeypatch.setenv("FROSTLINE_CENSUS", "close")
    program = f"""
heap = [[i] for i in range(40_000)]
gc.collect()
gc.freeze()
more = [[i] for i in range({grown})]
del heap[:100]
"""
    one = audited(folder, interpreter, program)
    assert one.grown is not None and grown <= one.grown < grown + 3_000
    assert one.grown_how == "by the census at its end"
    assert names(one) == (["grown"] if told else ["sound"])
    assert one.walk is not None and one.walk.objects == (one.frozen or 0) + one.grown
    if told:
        assert " ms, by " in one.findings[0].text and "ns an object" in one.findings[0].text
