"""A timed generator is driven like the bare one: the same answers to every sequence of calls.

The law is checked in this process, on whatever interpreter runs the suite, and by the last test on
the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import gc
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.probe.wrappers import timed
from tests.interpreters import SOURCE, Interpreter, every_interpreter


class Mine(Exception):
    pass


#: What the body does at each step with what it was sent or thrown.
STEPS = ["yield", "catch", "catch all", "finally yield", "raise", "return", "reraise", "swallow exit"]
BODY = st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)
#: What the driver does.
CALLS = st.lists(
    st.sampled_from(
        ["next", "send", "throw Mine", "throw Mine class", "throw StopIteration", "throw GeneratorExit",
         "throw StopAsyncIteration", "close"]
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


def steps(body: list[str]) -> Any:
    """A generator that behaves as ``body`` says, and returns what it saw."""
    seen: list[object] = []
    for step in body:
        if step == "yield":
            seen.append((yield list(seen)))
        elif step == "catch":
            try:
                seen.append((yield "in try"))
            except Mine as error:
                seen.append(("caught", error.args))
        elif step == "catch all":
            try:
                seen.append((yield "in try"))
            except BaseException as error:
                seen.append(("caught", type(error).__name__))
        elif step == "finally yield":
            try:
                seen.append((yield "in try"))
            finally:
                seen.append((yield "in finally"))
        elif step == "raise":
            raise Mine("from body")
        elif step == "return":
            return seen
        elif step == "reraise":
            try:
                yield "in try"
            except Mine as error:
                raise Mine("other") from error
        elif step == "swallow exit":
            try:
                seen.append((yield "in try"))
            except GeneratorExit:
                return "swallowed"
    return seen


async def asteps(body: list[str]) -> Any:
    inner = steps(body)
    try:
        answer = next(inner)
        while True:
            await asyncio.sleep(0)
            try:
                got = yield answer
            except BaseException as error:
                answer = inner.throw(error)
            else:
                answer = inner.send(got)
    except StopIteration:
        return


def chain(error: BaseException | None) -> list[object]:
    """An exception with its causes and contexts, as far as they are the body's."""
    links: list[object] = []
    while error is not None and len(links) < 5:
        links.append(
            (type(error).__name__, str(error), error.__suppress_context__, error.__cause__ is not None)
        )
        error = error.__context__
    return links


def arguments(call: str) -> tuple[Any, ...]:
    name = call.removeprefix("throw ")
    if name == "Mine":
        return (Mine("thrown"),)
    if name == "Mine class":
        return (Mine,)
    return ({"StopIteration": StopIteration, "GeneratorExit": GeneratorExit}.get(name, StopAsyncIteration)(),)


def drive(make: Callable[[list[str]], Any], body: list[str], calls: list[str]) -> list[object]:
    generator = make(body)
    answers: list[object] = []
    # A body that yields while it is closed must be closed again, or it is closed as it dies.
    for number, call in enumerate(calls + ["close"] * 2 * (len(body) + 1)):
        try:
            if call == "next":
                answers.append(next(generator))
            elif call == "send None":
                answers.append(generator.send(None))
            elif call == "send":
                answers.append(generator.send(number))
            elif call == "close":
                answers.append(generator.close())
            else:
                answers.append(generator.throw(*arguments(call)))
        except BaseException as error:
            answers.append(chain(error))
    return answers


async def adrive(make: Callable[[list[str]], Any], body: list[str], calls: list[str]) -> list[object]:
    generator = make(body)
    answers: list[object] = []
    # A body that yields while it is closed must be closed again, or it is closed as it dies.
    for number, call in enumerate(calls + ["close"] * 2 * (len(body) + 1)):
        try:
            if call == "next":
                answers.append(await generator.__anext__())
            elif call == "send":
                answers.append(await generator.asend(number))
            elif call == "close":
                answers.append(await generator.aclose())
            else:
                answers.append(await generator.athrow(*arguments(call)))
        except BaseException as error:
            answers.append(chain(error))
    return answers


def record(*_: int) -> None:
    recorded.append(_)


recorded: list[tuple[int, ...]] = []


@contextlib.contextmanager
def deaths_unheard() -> Iterator[None]:
    """A body that yields or raises while it is closed is reported as it dies, with us or without."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        gc.collect(1)  # those that hang in the traceback of an answer die here, not in the next test
        sys.unraisablehook = before


def check(body: list[str], calls: list[str]) -> None:
    with deaths_unheard():
        assert drive(timed(steps, record, 1, 0), body, calls) == drive(steps, body, calls)


def acheck(body: list[str], calls: list[str]) -> None:
    with deaths_unheard():
        timed_one = timed(asteps, record, 1, 0)
        outcomes = [asyncio.run(adrive(make, body, calls)) for make in (asteps, timed_one)]
        assert outcomes[0] == outcomes[1]


@given(BODY, CALLS)
@settings(max_examples=600, deadline=None)
def test_a_timed_generator_answers_as_the_bare_one(body: list[str], calls: list[str]) -> None:
    check(body, calls)


@given(BODY, CALLS)
@settings(max_examples=300, deadline=None)
def test_a_timed_async_generator_answers_as_the_bare_one(body: list[str], calls: list[str]) -> None:
    acheck(body, calls)


@pytest.mark.parametrize(
    "calls", [["next", "throw GeneratorExit", "next"], ["next", "close", "next"], ["next"]]
)
def test_one_span_a_generator_however_it_ends(calls: list[str]) -> None:
    recorded.clear()
    with deaths_unheard():
        drive(timed(steps, record, 1, 0), ["swallow exit"], calls)
    assert len(recorded) == 1


@every_interpreter
def test_the_law_on_every_interpreter(interpreter: Interpreter) -> None:
    source = Path(__file__).read_text()
    source = source[source.index("class Mine") : source.index("@given")]
    source = source[: source.index("#: What the body does")] + source[source.index("def steps") :]
    script = f"""
import asyncio, contextlib, gc, itertools, sys
from frostline.probe.wrappers import timed
from typing import Any
from collections.abc import Callable, Iterator
{source}
STEPS = {STEPS}
CALLS = ["next", "send", "throw Mine", "throw StopIteration", "throw GeneratorExit", "close"]
for first in STEPS:
    for body in ([first], ["yield", first], [first, "catch all"]):
        for calls in itertools.product(CALLS, repeat=3):
            check(body, ["next", *calls])
        for calls in itertools.product(CALLS, repeat=2):
            acheck(body, ["next", *calls])
"""
    done = subprocess.run(
        [interpreter.executable, "-c", "from __future__ import annotations\n" + script],
        env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_wrappers_need_no_global_of_their_module() -> None:
    """They run in the host function's globals, where any name may mean something else."""

    async def coroutine() -> None: ...

    def plain() -> None: ...

    for function in (plain, coroutine, steps, asteps):
        wrapper = timed(function, record, 1, 0)
        assert wrapper.__globals__ is globals()
        used = {i.opname for i in dis.get_instructions(wrapper) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        assert not used, function


CLOSABLE = [step for step in STEPS if step not in ("catch all", "finally yield")]


@types.coroutine
def awaitable(body: list[str]) -> Any:
    return (yield from steps(body))


async def csteps(body: list[str]) -> Any:
    return await awaitable(body)


@given(st.lists(st.sampled_from(CLOSABLE), min_size=1, max_size=5), CALLS)
@settings(max_examples=300, deadline=None)
def test_a_timed_coroutine_answers_as_the_bare_one(body: list[str], calls: list[str]) -> None:
    """But for a GeneratorExit that is thrown by hand, or ignored: ``await`` closes what it waits for."""
    calls = ["send None"] + [c.replace("next", "send") for c in calls if c != "throw GeneratorExit"]
    with deaths_unheard():
        assert drive(timed(csteps, record, 1, 0), body, calls) == drive(csteps, body, calls)
