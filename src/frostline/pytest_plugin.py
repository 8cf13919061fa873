"""pytest: no cycles, objects released at once, a budget of pauses, and what the collector cost the suite.

Inert unless used: without ``--frostline``, a mark or a fixture of it, nothing is hooked and nothing of ours
is imported. A run with ``-p no:frostline`` does without it altogether.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

#: Tests shown in the summary.
SHOWN = 10
#: Of a test: its call has failed, or was skipped.
_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--frostline`` and ``--frostline-cycles``: the summaries, and nothing else."""
    group = parser.getgroup("frostline", "cycles and pauses of the collector")
    group.addoption(
        "--frostline",
        action="store_true",
        help="say what the collector cost each test, and which tests call gc.collect()",
    )
    group.addoption(
        "--frostline-cycles",
        choices=("test", "module"),
        help="after each test, or each module of tests, look at what a pass frees; say which cycles the suite"
        " makes most of, and where",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks, and the summary where it is asked for."""
    config.addinivalue_line(
        "markers", "no_cycles(allow=()): the test creates no cyclic garbage (its fixtures are not in it)"
    )
    config.addinivalue_line(
        "markers",
        "pause_budget(ms=None, full=None, passes=None): the longest pause and how many passes, at most",
    )
    if config.getoption("--frostline"):
        config.pluginmanager.register(_Summary(config), "frostline-summary")
    if config.getoption("--frostline-cycles"):
        from frostline.pytest_cycles import Cycles

        config.pluginmanager.register(Cycles(config), "frostline-cycles")


#: Over 0 while the plugin itself collects: what a test or the suite costs has none of it.
_own = 0


@contextlib.contextmanager
def ourselves() -> Iterator[None]:
    """What is collected within is no cost of the suite."""
    global _own
    _own += 1
    try:
        yield
    finally:
        _own -= 1


def by_us() -> bool:
    """Whether what is collected now is collected by the plugin."""
    return _own > 0


@contextlib.contextmanager
def _no_cycles(allow: str | tuple[str, ...] = ()) -> Iterator[None]:
    """Fails the test if the block leaves cyclic garbage; ``allow``: a text of such as may be, or several."""
    from frostline.heap.promises import NoCycles

    promise = NoCycles(allow)
    with ourselves():
        promise.begin()
    try:
        yield
        with _kept():
            promise.check()
    finally:
        promise.restore()


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    """A promise that is broken fails the test, without a trace of ours; the look itself is no cost of it."""
    from frostline.heap.promises import Broken

    try:
        with ourselves():
            yield
        return
    except Broken as broken:
        text = str(broken)
    pytest.fail(text, pytrace=False)  # out here, where pytest does not show the first error beside it


@pytest.fixture
def no_cycles() -> Callable[..., contextlib.AbstractContextManager[None]]:
    """``with no_cycles():`` fails if the block creates cyclic garbage, and names the cycle.

    What a first call sets up for good (imports, caches, classes) belongs before the block. Automatic
    passes are held back in it, so that none takes the garbage away before it is seen.
    """
    return _no_cycles


@pytest.fixture
def released(request: pytest.FixtureRequest) -> Generator[Callable[[object], Callable[[], None]], None, None]:
    """``check = released(obj)``: once the test lets go of ``obj``, it is dead, without the collector's help.

    ``check`` is called at the end of the test too, unless that failed: then its traceback holds variables.
    """
    from frostline.heap.promises import Released

    watch = Released()

    def check() -> None:
        with _kept():
            watch.check()

    def watched(one: object) -> Callable[[], None]:
        watch(one)
        return check

    enabled = gc.isenabled()
    gc.disable()
    try:
        yield watched
        if not request.node.stash.get(_FAILED, False):
            check()
    finally:
        if enabled:
            gc.enable()


class Watch:
    """Passes while it is on: one entry of ``gc.callbacks``, which keeps four numbers.

    A suite may have taken ``gc.collect`` under a name of its own before (SQLAlchemy's ``gc_collect``). Such
    a call does not come by our wrapper; it is known by the counter, which an automatic pass has to find
    above its threshold, and the frame that it came from is the caller's. Missed is a call that happens to
    come while the counter is above it.

    Attributes:
        passes: by generation; ``longest`` and ``total`` in ns, as the process felt them.
        explicit: calls of ``gc.collect()`` by the line that made them.
    """

    def __init__(self) -> None:
        self.passes = [0, 0, 0]
        self.longest = 0
        self.total = 0
        self.explicit: dict[str, int] = {}
        self._begun = 0
        self._collect: Any = None
        #: Within a call that the wrapper has counted.
        self._counted = False

    def _callback(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            if not (_own or self._counted) and _asked_for():
                self._count(sys._getframe(1))
            self._begun = 0 if _own else time.monotonic_ns()
        elif self._begun:
            took = time.monotonic_ns() - self._begun
            self._begun = 0
            self.passes[info["generation"]] += 1
            self.total += took
            self.longest = max(self.longest, took)

    def start(self) -> None:
        gc.callbacks.append(self._callback)
        real = self._collect = gc.collect

        def collect(*args: Any, **kwargs: Any) -> int:
            if not _own:
                self._count(sys._getframe(1))
            before, self._counted = self._counted, True
            try:
                return int(real(*args, **kwargs))
            finally:
                self._counted = before

        collect.__wrapped__ = real  # type: ignore[attr-defined]
        gc.collect = collect

    def _count(self, frame: Any) -> None:
        while frame.f_code.co_filename == __file__ and frame.f_back is not None:
            frame = frame.f_back  # a budget within the summary: one watch calls the other
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        self.explicit[where] = self.explicit.get(where, 0) + 1

    def stop(self) -> None:
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._callback)
        if self._collect is not None:
            gc.collect = self._collect
            self._collect = None


#: There an automatic pass leaves nothing behind by which it could be told from a call.
_FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()


def _asked_for() -> bool:
    """Whether the pass that begins cannot be an automatic one, by the count of the youngest generation."""
    return not (_FREE_THREADED or (gc.isenabled() and 0 < gc.get_threshold()[0] < gc.get_count()[0]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Applies the marks to the call of a test."""
    item.stash[_FAILED] = False
    try:
        return (yield from _marked(item))
    except BaseException:
        item.stash[_FAILED] = True
        raise


def _marked(item: pytest.Item) -> Generator[None, Any, Any]:
    cycles = item.get_closest_marker("no_cycles")
    budget = item.get_closest_marker("pause_budget")
    if cycles is None and budget is None:
        return (yield)
    if cycles is not None:
        # What pytest keeps of a test that failed it lets go of inside this one: no cycle of this one's.
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            with contextlib.suppress(AttributeError):
                delattr(sys, name)
    watch = Watch() if budget is not None else None
    if watch is not None:
        watch.start()
    try:
        if cycles is None:
            result = yield
        else:
            texts = cycles.args[0] if len(cycles.args) == 1 else cycles.args
            with _no_cycles(cycles.kwargs.get("allow", texts) or ()):
                result = yield
    finally:
        if watch is not None:
            watch.stop()
    if watch is not None and budget is not None:
        over = _over(watch, dict(budget.kwargs))
        if over:
            pytest.fail(f"over its pause budget: {over}", pytrace=False)
    return result


def _over(watch: Watch, limits: dict[str, Any]) -> str:
    unknown = set(limits) - {"ms", "full", "passes"}
    if unknown or not limits:
        pytest.fail(
            f"pause_budget takes ms=, full= and passes=, not {', '.join(sorted(unknown)) or 'nothing'}",
            pytrace=False,
        )
    found = []
    if limits.get("ms") is not None and watch.longest > limits["ms"] * 1e6:
        found.append(f"a pause of {watch.longest / 1e6:.1f} ms (at most {limits['ms']:g})")
    if limits.get("full") is not None and watch.passes[2] > limits["full"]:
        found.append(f"{watch.passes[2]} full passes (at most {limits['full']})")
    if limits.get("passes") is not None and sum(watch.passes) > limits["passes"]:
        found.append(f"{sum(watch.passes)} passes (at most {limits['passes']})")
    return ", ".join(found)


@pytest.fixture
def pause_budget(request: pytest.FixtureRequest) -> Callable[..., contextlib.AbstractContextManager[Watch]]:
    """``with pause_budget(ms=20, full=0):`` fails if the passes in the block are over it."""

    @contextlib.contextmanager
    def limited(**limits: Any) -> Iterator[Watch]:
        watch = Watch()
        watch.start()
        try:
            yield watch
        finally:
            watch.stop()
        over = _over(watch, limits)
        if over:
            pytest.fail(f"over its pause budget: {over}", pytrace=False)

    return limited


class _Summary:
    """What the collector cost each test: of this process, or of the workers of xdist together."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._worker = hasattr(config, "workerinput")
        #: (ns in passes, full passes, longest ns, name of the test)
        self._rows: list[tuple[int, int, int, str]] = []
        self._collects: dict[str, dict[str, int]] = {}
        self._wall = time.monotonic_ns()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        watch = Watch()
        watch.start()
        try:
            return (yield)
        finally:
            watch.stop()
            self._rows.append((watch.total, watch.passes[2], watch.longest, item.nodeid))
            if watch.explicit:
                self._collects[item.nodeid] = dict(watch.explicit)

    def pytest_sessionfinish(self) -> None:
        if self._worker:
            output = self._config.workeroutput  # type: ignore[attr-defined]
            output["frostline"] = {"rows": [list(row) for row in self._rows], "collects": self._collects}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        sent = getattr(node, "workeroutput", {}).get("frostline")
        if sent:
            self._rows += [tuple(row) for row in sent["rows"]]
            self._collects.update(sent["collects"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._worker or not self._rows:
            return
        wall = time.monotonic_ns() - self._wall
        total = sum(row[0] for row in self._rows)
        out = terminalreporter
        out.section("the collector, by frostline")
        full = sum(row[1] for row in self._rows)
        longest = max(row[2] for row in self._rows) / 1e6
        out.write_line(
            f"{total / 1e9:.2f} s in passes, {total / wall:.1%} of the run's time (workers added up); "
            f"{full:,} full passes; longest {longest:.1f} ms"
        )
        for took, many, most, name in sorted(self._rows, reverse=True)[:SHOWN]:
            if took:
                out.write_line(f"{took / 1e6:10.1f} ms  {many:4} full  longest {most / 1e6:8.1f} ms  {name}")
        calls = sum(sum(one.values()) for one in self._collects.values())
        if calls:
            out.write_line(f"gc.collect() is called {calls:,} times, in {len(self._collects):,} tests:")
            by_line: dict[str, list[int]] = {}
            for one in self._collects.values():
                for where, count in one.items():
                    seen = by_line.setdefault(where, [0, 0])
                    seen[0] += count
                    seen[1] += 1
            for where, (count, tests) in sorted(by_line.items(), key=lambda pair: -pair[1][0])[:SHOWN]:
                out.write_line(f"{count:10,} x  in {tests:,} tests  {where}")
