"""Ray's actors are frozen at the end of their ``__init__``, and tell of their calls (C1)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("ray")

ACTORS = """
    import asyncio, gc, os, sys, ray
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    def state():
        moments = sys.modules.get("frostline.policy.moments")
        return gc.get_freeze_count(), moments.in_flight() if moments else None

    @ray.remote
    class Plain:
        def __init__(self): self.heap = [[i] for i in range(50_000)]
        def ask(self): return state()

    @ray.remote
    class Asynchronous:
        async def __init__(self): self.heap = [[i] for i in range(50_000)]
        async def ask(self, others):
            self.asked = getattr(self, "asked", 0) + 1
            while self.asked < others:
                await asyncio.sleep(0)
            return state()

    asked = {"runtime_env": {"env_vars": {"FROSTLINE_POLICY": "freeze"}}}
    frozen, in_flight = ray.get(Plain.options(**asked).remote().ask.remote())
    assert frozen >= 50_000 and in_flight == 1, (frozen, in_flight)
    actor = Asynchronous.options(**asked).remote()
    answers = ray.get([actor.ask.remote(3) for _ in range(3)])
    assert min(answers)[0] >= 50_000 and max(count for _, count in answers) == 3, answers
    assert ray.get(Plain.remote().ask.remote()) == (0, None)
"""


def test_an_actor_is_frozen_before_its_first_call(tmp_path: Path) -> None:
    program = tmp_path / "actors.py"
    program.write_text(textwrap.dedent(ACTORS))
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "120"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
