"""The way in through a host's plugins (A1, C3), and the import watch on hosts of other versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from frostline import integrations


def run(text: str, folder: Path, **environment: str) -> dict[str, object]:
    """The JSON that ``text`` prints, run without the start-up hook: its own site-packages are not there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FROSTLINE_")}
    source = Path(integrations.__file__).parents[2]
    answer = subprocess.run(
        [sys.executable, "-S", "-c", textwrap.dedent(text)],
        env={**clean, "PYTHONPATH": f"{source}:{folder}", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    assert not answer.stderr
    return dict(json.loads(answer.stdout))


REGISTER = """
    import gc, json, sys
    from frostline.integrations import register

    register()
    before = len(sys.meta_path), list(gc.callbacks), gc.get_threshold()
    register()
    print(json.dumps({
        "same": before == (len(sys.meta_path), list(gc.callbacks), gc.get_threshold()),
        "finders": [type(finder).__module__ for finder in sys.meta_path],
        "threshold": gc.get_threshold()[2],
        "policy": "frostline.policy.engine" in sys.modules,
        "collect": type(gc.collect).__name__,
        "ours": sorted(name for name in sys.modules if name.startswith("frostline")),
    }))
"""


@pytest.mark.parametrize("group", ["vllm.general_plugins", "sglang.srt.plugins"])
def test_the_host_finds_the_plugin_in_the_installed_package(group: str) -> None:
    (found,) = [point for point in entry_points(group=group) if point.name == "frostline"]
    assert found.load() is integrations.register


@pytest.mark.parametrize("environment", [{}, {"FROSTLINE_DISABLE": "1", "FROSTLINE_POLICY": "freeze"}])
def test_it_is_inert_unless_something_asks(tmp_path: Path, environment: dict[str, str]) -> None:
    state = run(REGISTER, tmp_path, **environment)
    assert state["same"]
    assert not state["policy"]
    assert state["collect"] == "builtin_function_or_method"
    assert "frostline.probe.imports" not in state["finders"]  # type: ignore[operator]
    assert state["ours"] == [
        "frostline",
        "frostline.integrations",
        "frostline.probe",
        "frostline.probe.imports",
    ]


def test_twice_is_once(tmp_path: Path) -> None:
    state = run(REGISTER, tmp_path, FROSTLINE_POLICY="tune:700,10,1000")
    assert state["same"]
    assert state["threshold"] == 1000
    assert state["finders"].count("frostline.probe.imports") == 1  # type: ignore[attr-defined]


def test_it_comes_in_while_the_engine_begins_and_a_version_that_lacks_names_loses_those_alone(
    tmp_path: Path,
) -> None:
    """vLLM loads plugins inside ``EngineCore.__init__``, whose end we then cannot see by wrapping it."""
    for folder in ("vllm", "vllm/v1", "vllm/v1/engine"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "vllm/v1/engine/core.py").write_text(
        textwrap.dedent(
            """
            def freeze_gc_heap():
                pass

            class EngineCore:
                def __init__(self):
                    from frostline.integrations import register
                    register()
                    self.blocks = [[i] for i in range(20_000)]
                    freeze_gc_heap()
            """
        )
    )
    state = run(
        """
        import gc, json
        from vllm.v1.engine.core import EngineCore

        before = gc.get_freeze_count()
        first = EngineCore()
        in_first = gc.get_freeze_count()
        del first
        second = EngineCore()
        print(json.dumps({"first": in_first - before, "second": gc.get_freeze_count() - before}))
        """,
        tmp_path,
        FROSTLINE_POLICY="freeze",
    )
    assert int(str(state["first"])) > 20_000
    assert int(str(state["second"])) > 20_000


def test_what_an_object_keeps_does_not_keep_the_object(tmp_path: Path) -> None:
    state = run(
        """
        import gc, json, queue, threading, weakref
        from frostline.integrations import patching
        from frostline.policy import moments

        gc.disable()
        work, source = patching.Work(), queue.Queue()

        def make(real):
            def get():
                work.end()
                item = real()
                work.begin()
                return item
            return get

        patching.on_object(source, "get", make)
        patching.on_object(source, "get", make)
        seen = []
        source.put(1); source.put(2)
        seen.append(moments.in_flight())
        source.get(); seen.append(moments.in_flight())
        source.get(); seen.append(moments.in_flight())
        work.end(); seen.append(moments.in_flight())
        dead = weakref.ref(source)
        del source
        print(json.dumps({"seen": seen, "dead": dead() is None,
            "missing": patching.on_object(work, "nothing", make)}))
        """,
        tmp_path,
    )
    assert state == {"seen": [0, 1, 1, 0], "dead": True, "missing": False}


def test_a_stream_is_a_request_from_its_first_step_to_its_end_however_it_ends(tmp_path: Path) -> None:
    state = run(
        """
        import asyncio, inspect, json
        from frostline.integrations import patching
        from frostline.policy import moments

        ended = []

        class Handler:
            async def generate(self, request, context=None):
                try:
                    for i in range(request):
                        if i == 5:
                            raise ValueError
                        yield i, moments.in_flight()
                finally:
                    ended.append(request)

            async def answer(self):
                return moments.in_flight()

        patching.put(Handler, "generate", patching.in_flight_generator)
        patching.put(Handler, "answer", patching.in_flight_generator)

        async def main():
            seen = []
            handler = Handler()
            waiting = handler.generate(1)
            seen.append(moments.in_flight())
            seen.append([item async for item in handler.generate(2, context=None)])
            left = handler.generate(3)
            await left.__anext__()
            seen.append(moments.in_flight())
            await left.aclose()
            seen.append(moments.in_flight())
            try:
                [item async for item in handler.generate(9)]
            except ValueError:
                seen.append(moments.in_flight())
            await waiting.aclose()
            return [*seen, await handler.answer(), moments.in_flight()]

        print(json.dumps({"seen": asyncio.run(main()), "ended": ended,
            "parameters": list(inspect.signature(Handler().generate).parameters)}))
        """,
        tmp_path,
    )
    assert state["seen"] == [0, [[0, 1], [1, 1]], 1, 0, 0, 1, 0]
    assert state["ended"] == [2, 3, 9]
    assert state["parameters"] == ["request", "context"]


def test_a_host_that_freezes_without_a_collection_freezes_no_garbage_and_follow_keeps_its_aim(
    tmp_path: Path,
) -> None:
    state = run(
        """
        import gc, json, weakref
        from frostline.integrations import register, sglang

        class Cycle:
            def __init__(self):
                self.me = self

        def freeze_gc(context, gc_threshold=None):
            if gc_threshold is not None:
                gc.set_threshold(*gc_threshold)
            gc.freeze()

        register()
        freeze = sglang._frozen_by_host(freeze_gc)
        freeze("early")
        kept = [[i] for i in range(5_000)]
        gone = weakref.ref(Cycle())
        freeze("Scheduler", [1000, 20, 20])
        print(json.dumps({"gone": gone() is None, "frozen": gc.get_freeze_count() > 5_000,
            "thresholds": gc.get_threshold()}))
        """,
        tmp_path,
        FROSTLINE_POLICY="follow,budget=100000",
    )
    assert state["gone"]
    assert state["frozen"]
    # (100,000 / 2) / ((20 + 2) * (1000 + 1)) - 1, at least 1: not the host's 20.
    assert state["thresholds"] == [1000, 20, 1]
