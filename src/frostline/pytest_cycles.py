"""pytest --frostline-cycles: the cycles that a suite leaves, by kind and by test."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator
from typing import Any, cast

import pytest

from frostline.heap.cycles import BUDGET, as_plain, cycles_of
from frostline.heap.saved import let_go, saved_pass
from frostline.pytest_plugin import by_us, ourselves

#: Kinds shown in the summary.
SHOWN = 10
#: Seconds that looks at the suite's own calls of gc.collect() may take, after that which share of the run.
FREE, SHARE = 5.0, 0.2


class Cycles:
    """The cycles that a suite makes, by kind: of this process, or of the workers of xdist together."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._worker = hasattr(config, "workerinput")
        self._each = config.getoption("--frostline-cycles") == "test"
        #: path -> [count, objects, bytes, pattern, remedy, {test or module: count}, one, left]; the last two
        #: (``heap.cycles.Kind``) are of the look that left most.
        self._kinds: dict[str, list[Any]] = {}
        #: Looks, objects found by them, seconds they took, kinds or components that they did not get to, and
        #: how many of them ended because the time was up.
        self._looks, self._found, self._took, self._others, self._cut = 0, 0, 0.0, 0, 0
        #: Objects that passes freed which nobody looked at.
        self._unseen = 0
        self._freed = 0
        #: The suite's own full collections, those of them looked at, and seconds that these took.
        self._calls, self._met, self._spent = 0, 0, 0.0
        self._begun = time.monotonic()
        #: The test or module that runs; empty between two, and during a look.
        self._where = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        with ourselves():
            gc.collect()  # what imports and collection left is no test's
        self._freed = _freed()
        self._begun = time.monotonic()
        real = gc.collect

        def collect(*args: Any, **kwargs: Any) -> int:
            full = (args or tuple(kwargs.values()) or (2,)) == (2,)
            looked_at = full and self._where and not by_us()
            return self._instead(real) if looked_at else int(real(*args, **kwargs))

        collect.__wrapped__ = real  # type: ignore[attr-defined]
        gc.collect = collect
        try:
            return (yield)
        finally:
            gc.collect = real

    def _instead(self, real: Callable[[], int]) -> int:
        """The suite's own full collection, looked at: one that collects after each test leaves nothing else.

        As with any, what it finds is freed when it returns. Done within the share of time of such looks.
        """
        self._calls += 1
        if self._spent > FREE and self._spent > SHARE * (time.monotonic() - self._begun):
            return int(real())
        where, self._where = self._where, ""
        begun = time.monotonic()
        try:
            return self._look(where)
        finally:
            self._met += 1
            self._where = where
            self._spent += time.monotonic() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        where = self._where = item.nodeid if self._each else item.nodeid.partition("::")[0]
        try:
            result = yield
        finally:
            self._where = ""
        if self._each or nextitem is None or nextitem.path != item.path:
            with ourselves():
                self._look(where)
            self._looks += 1
        return result

    def _look(self, where: str) -> int:
        begun = time.monotonic()
        self._unseen += _freed() - self._freed
        saved = saved_pass()
        with ourselves():  # the pass before is a cost of the suite's where it asked for one
            told = as_plain(cycles_of(saved))
            let_go(saved)
            self._freed = _freed()
        self._found += cast("int", told["found"])
        self._others += cast("int", told["others"])
        self._cut += bool(told["cut"])
        for kind in cast("list[dict[str, Any]]", told["kinds"]):
            size = (kind["count"], kind["objects"] + kind["hanging"], kind["bytes"])
            words = (kind["pattern"], kind["remedy"])
            self._add(kind["path"], size, words, {where: kind["count"]}, (kind["one"], kind["left"]))
        self._took += time.monotonic() - begun
        return saved.found

    def _add(
        self,
        path: str,
        size: tuple[int, int, int],
        words: tuple[str, str],
        where: dict[str, int],
        tangle: tuple[int, int],
    ) -> None:
        seen = self._kinds.setdefault(path, [0, 0, 0, *words, {}, *tangle])
        if tangle[1] > seen[7]:
            seen[6:] = tangle
        for place, more in enumerate(size):
            seen[place] += more
        for name, count in where.items():
            seen[5][name] = seen[5].get(name, 0) + count

    def pytest_sessionfinish(self) -> None:
        if self._worker:
            output = self._config.workeroutput  # type: ignore[attr-defined]
            numbers = [getattr(self, name) for name in _NUMBERS]
            output["frostline-cycles"] = {"kinds": self._kinds, "numbers": numbers}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        sent = getattr(node, "workeroutput", {}).get("frostline-cycles")
        if sent:
            for name, more in zip(_NUMBERS, sent["numbers"], strict=True):
                setattr(self, name, getattr(self, name) + more)
            for path, (count, objects, size, pattern, remedy, where, *tangle) in sent["kinds"].items():
                self._add(path, (count, objects, size), (pattern, remedy), where, (tangle[0], tangle[1]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._worker or not self._looks:
            return
        out = terminalreporter
        out.section("cycles that the tests left, by frostline")
        unit = "test" if self._each else "module"
        calls = f" and {self._met:,} of {self._calls:,} calls of gc.collect() in them" if self._calls else ""
        passes = f"{self._looks + self._met:,} passes, one after each {unit}{calls}"
        out.write_line(
            f"{self._found:,} objects freed by {passes} (looks {self._took:.1f} s); "
            f"{self._unseen:,} more by other passes, which are in no count below"
        )
        if self._others:
            out.write_line(f"{self._others:,} cycles of further kinds were counted and not looked at")
        if self._cut:
            out.write_line(f"the time was up ({BUDGET:g} s) in {self._cut:,} looks: they tell a part")
        most = sorted(self._kinds.items(), key=lambda pair: (-pair[1][1], -pair[1][0], pair[0]))
        for path, (count, objects, size, pattern, remedy, where, one, left) in most[:SHOWN]:
            out.write_line(f"{count:10,} x  {path}")
            first = max(where, key=lambda name: where[name])
            out.write_line(
                f"{'':14}{objects:,} objects, {size / 1024:,.1f} KiB (containers alone); became garbage in "
                f"{len(where):,} {unit}s, most in {first} ({where[first]:,})"
            )
            if pattern:
                out.write_line(f"{'':14}{pattern}: {remedy}")
            if left > 0:
                out.write_line(
                    f"{'':14}one cycle of several: in the one looked at, {left:,} of {one:,} objects stay on "
                    "others when it is cut"
                )
        if len(most) > SHOWN:
            out.write_line(f"{'':14}and {len(most) - SHOWN:,} kinds of fewer objects")


#: What the workers of xdist send to be added up.
_NUMBERS = ("_looks", "_found", "_took", "_others", "_unseen", "_cut", "_calls", "_met")


def _freed() -> int:
    """Objects that passes have freed in this interpreter so far."""
    return sum(row["collected"] for row in gc.get_stats())
