"""pytest --frostline-cycles: the cycles that a suite leaves, by kind and by test."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from typing import Any, cast

import pytest

from frostline.heap.cycles import BUDGET, as_plain, cycles_of
from frostline.heap.saved import let_go, saved_pass
from frostline.pytest_plugin import ourselves

#: Kinds shown in the summary.
SHOWN = 10


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

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        with ourselves():
            gc.collect()  # what imports and collection left is no test's
        self._freed = _freed()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        result = yield
        if self._each or nextitem is None or nextitem.path != item.path:
            self._look(item.nodeid if self._each else item.nodeid.partition("::")[0])
        return result

    def _look(self, where: str) -> None:
        begun = time.monotonic()
        with ourselves():
            self._unseen += _freed() - self._freed
            saved = saved_pass()
            told = as_plain(cycles_of(saved))
            let_go(saved)
            self._freed = _freed()
        self._looks += 1
        self._found += cast("int", told["found"])
        self._others += cast("int", told["others"])
        self._cut += bool(told["cut"])
        for kind in cast("list[dict[str, Any]]", told["kinds"]):
            size = (kind["count"], kind["objects"] + kind["hanging"], kind["bytes"])
            words = (kind["pattern"], kind["remedy"])
            self._add(kind["path"], size, words, {where: kind["count"]}, (kind["one"], kind["left"]))
        self._took += time.monotonic() - begun

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
            numbers = [self._looks, self._found, self._took, self._others, self._unseen, self._cut]
            output["frostline-cycles"] = {"kinds": self._kinds, "numbers": numbers}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        sent = getattr(node, "workeroutput", {}).get("frostline-cycles")
        if sent:
            looks, found, took, others, unseen, cut = sent["numbers"]
            self._looks, self._found, self._took = self._looks + looks, self._found + found, self._took + took
            self._others, self._unseen = self._others + others, self._unseen + unseen
            self._cut += cut
            for path, (count, objects, size, pattern, remedy, where, *tangle) in sent["kinds"].items():
                self._add(path, (count, objects, size), (pattern, remedy), where, (tangle[0], tangle[1]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._worker or not self._looks:
            return
        out = terminalreporter
        out.section("cycles that the tests left, by frostline")
        unit = "test" if self._each else "module"
        out.write_line(
            f"{self._found:,} objects freed by {self._looks:,} passes, one after each {unit} (looks "
            f"{self._took:.1f} s); {self._unseen:,} more by passes in between, which are in no count below"
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


def _freed() -> int:
    """Objects that passes have freed in this interpreter so far."""
    return sum(row["collected"] for row in gc.get_stats())
