"""A real server, recorded with no other setting, has its requests as spans (B1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as layout
from frostline.probe.imports import PRESET_MODULES
from frostline.probe.presets import PRESETS
from tests.probe_spans.reading import labels, ran_well, spans, wrapped

SERVER = """
import asyncio, http.client, sys, threading
import uvicorn

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"].endswith("shutdown"): return
    await asyncio.sleep(0)
    if scope["path"] == "/fails": raise RuntimeError("on purpose")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})

server = uvicorn.Server(uvicorn.Config(app, port=0, http=%r, log_level="critical"))
ready = threading.Event()
class Announced(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        ready.set()
server.__class__ = Announced
def client():
    ready.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    for path in ["/"] * 20 + ["/fails"] * 2:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", path)
        print(connection.getresponse().status)
        connection.close()
    server.should_exit = True
thread = threading.Thread(target=client); thread.start()
server.run(); thread.join()
"""


@pytest.mark.parametrize("protocol", ["h11", "httptools"])
def test_uvicorn_lists_its_requests(tmp_path: Path, protocol: str) -> None:
    import sys

    pytest.importorskip("uvicorn")
    pytest.importorskip(protocol)
    ran, series = ran_well(sys.executable, tmp_path, SERVER % protocol, FROSTLINE_PRESETS="auto")
    assert ran.output.split() == ["200"] * 20 + ["500"] * 2
    assert labels(series) == {"request": 22}
    module = f"uvicorn.protocols.http.{protocol}_impl"
    assert wrapped(series) == {f"{module}:RequestResponseCycle.run_asgi": "request"}
    requests = spans(ran, "request")
    assert {span["kind"] for span in requests} == {layout.SPAN_ASYNC}
    # uvicorn answers a failed request itself, so its own coroutine ends well.
    assert {span["flags"] for span in requests} == {layout.SPAN_FLAG_PRESET}
    assert len({span["task"] for span in requests}) > 0 and all(span["task"] for span in requests)


def test_a_chosen_label_wins_over_the_preset_and_none_means_none(tmp_path: Path) -> None:
    import sys

    pytest.importorskip("uvicorn")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    module = "uvicorn.protocols.http.h11_impl"
    settings = {"FROSTLINE_SPANS": f"{module}:RequestResponseCycle.run_asgi=mine"}
    _, series = ran_well(sys.executable, tmp_path / "a", SERVER % "h11", FROSTLINE_PRESETS="asgi", **settings)
    assert labels(series) == {"mine": 22}
    _, series = ran_well(sys.executable, tmp_path / "b", SERVER % "h11", FROSTLINE_PRESETS="wsgi")
    assert labels(series) == {}


SCHEDULER = """
class Scheduler:
    # As SGLang's: asks for a batch in every round, whether there is work or not.
    def get_next_batch_to_run(self, running):
        return self.update_running_batch(running) if running else None
    def update_running_batch(self, running):
        return running
    def run_batch(self, batch):
        return len(batch)
    def process_batch_result(self, batch, result):
        pass
    def rounds(self, batches):
        for running in batches:
            batch = self.get_next_batch_to_run(running)
            if batch:
                self.process_batch_result(batch, self.run_batch(batch))
"""


def test_a_scheduler_that_never_sleeps_writes_nothing_while_idle(tmp_path: Path) -> None:
    import sys

    folder = tmp_path / "sglang" / "srt" / "managers"
    folder.mkdir(parents=True)
    (folder / "scheduler.py").write_text(SCHEDULER)
    program = "from sglang.srt.managers.scheduler import Scheduler\n"
    program += "Scheduler().rounds([[]] * 500 + [[1, 2]] * 3 + [[]] * 500)"
    _, series = ran_well(
        sys.executable, tmp_path, program, FROSTLINE_PRESETS="auto", PYTHONPATH=str(tmp_path)
    )
    assert labels(series) == {"schedule": 3, "engine step": 3, "update": 3}


def test_labels_are_few_and_short() -> None:
    used = {label for table in PRESETS.values() for targets in table.values() for _, label in targets}
    assert all(len(label) <= 16 and label == label.lower() for label in used)
    assert set(PRESET_MODULES) == {"asgi", "wsgi", "celery", "vllm", "sglang", "dynamo"}
