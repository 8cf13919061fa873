"""Spans that tell a stage, a batch size or a name: by presets and by the program itself (B11)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.format import told
from frostline.probe.presets import PRESETS
from frostline.probe.telling import LATE_READERS, READERS, values_of
from frostline.probe.telling import told as number_of
from tests.interpreters import SOURCE, Interpreter, every_interpreter
from tests.probe_spans.reading import labels, ran_well, spans
from tests.probe_spans.test_presets import SERVER

#: As vLLM 0.32's, of what the reader looks at.
VLLM = """
class SchedulerOutput:
    def __init__(self, new, tokens, drafts=()):
        self.scheduled_new_reqs = [object()] * new
        self.num_scheduled_tokens = tokens
        self.total_num_scheduled_tokens = sum(tokens.values())
        self.scheduled_spec_decode_tokens = dict(drafts)

class Scheduler:
    def schedule(self, output): return output
    def update_from_output(self, scheduler_output, model_runner_output): return {}

def steps(): return [
    ("prefill 2", SchedulerOutput(2, {"a": 30, "b": 20})),
    ("decode 3", SchedulerOutput(0, {"a": 1, "b": 1, "c": 1})),
    ("mixed 2", SchedulerOutput(1, {"a": 1, "b": 20})),
    ("chunk 1", SchedulerOutput(0, {"a": 512})),
    ("chunk mixed 2", SchedulerOutput(0, {"a": 512, "b": 1})),
    ("drafts 2", SchedulerOutput(0, {"a": 3, "b": 3}, {"a": [1, 2], "b": [1, 2]})),
    ("empty 0", SchedulerOutput(0, {})),
]
"""
EXPECTED = [
    (told.PREFILL, 2), (told.DECODE, 3), (told.MIXED, 2), (told.PREFILL, 1), (told.MIXED, 2),
    (told.DECODE, 2), (told.EMPTY, 0),
]  # fmt: skip


def package(tmp_path: Path, module: str, text: str) -> None:
    *folders, name = module.split(".")
    folder = tmp_path.joinpath(*folders)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(text)


def stage_and_batch(span: dict[str, int]) -> tuple[int, int]:
    return (span["flags"] & told.STAGE_MASK) >> told.STAGE_SHIFT, span["value0"]


@every_interpreter
def test_vllms_steps_tell_stage_and_batch_and_nothing_is_kept(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    package(tmp_path, "vllm.v1.core.sched.scheduler", VLLM)
    program = """
        import gc
        from frostline.heap.promises import Released
        from vllm.v1.core.sched.scheduler import Scheduler, steps
        gc.collect(); gc.disable()
        scheduler = Scheduler()
        gone = Released()
        for name, output in steps():
            gone(output)
            assert scheduler.schedule(output) is output
            scheduler.update_from_output(output, None)
        del output
        gone.check()
        # Objects of another version tell nothing and raise nothing; nor do arguments by name.
        for strange in (None, 7, object(), "text", Scheduler()):
            assert scheduler.schedule(strange) is strange
            scheduler.update_from_output(strange, None)
        scheduler.update_from_output(scheduler_output=steps()[0][1], model_runner_output=None)
        try:
            scheduler.update_from_output()
        except TypeError:
            pass
        else:
            raise SystemExit("no error of the host's own")
        assert not gc.garbage
        """
    ran, _ = ran_well(
        interpreter, tmp_path, program, FROSTLINE_PRESETS="vllm", PYTHONPATH=f"{tmp_path}:{SOURCE}"
    )
    schedule, update = spans(ran, "schedule"), spans(ran, "update")
    assert [stage_and_batch(span) for span in schedule[:7]] == EXPECTED
    assert [stage_and_batch(span) for span in update[:7]] == EXPECTED
    assert all(span["flags"] & told.FLAG_BATCH for span in schedule[:7])
    assert [stage_and_batch(span) for span in schedule[7:]] == [(0, -1)] * 5
    assert [stage_and_batch(span) for span in update[7:]] == [(0, -1)] * 7
    assert not any(span["flags"] & told.ANY for span in schedule[7:] + update[7:])
    assert update[-1]["flags"] & 1  # the call that failed


SGLANG = """
import enum

class ForwardMode(enum.IntEnum):
    EXTEND = enum.auto(); DECODE = enum.auto(); MIXED = enum.auto(); IDLE = enum.auto(); NEW_ONE = enum.auto()

class Batch:
    def __init__(self, mode, n): self.forward_mode, self.reqs = mode, [None] * n

class Scheduler:
    def update_running_batch(self, batch): return batch
    def run_batch(self, batch): return len(batch.reqs or ())
    def process_batch_result(self, batch, result): pass
"""


def test_sglangs_batches_tell_their_mode(tmp_path: Path) -> None:
    package(tmp_path, "sglang.srt.managers.scheduler", SGLANG)
    program = """
        from sglang.srt.managers.scheduler import Batch, ForwardMode, Scheduler
        scheduler = Scheduler()
        for mode, n in ((1, 2), (2, 40), (3, 3), (4, 0), (5, 6)):
            batch = Batch(ForwardMode(mode), n)
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
        batch = Batch(None, 0); batch.reqs = None
        scheduler.run_batch(batch)
        scheduler.update_running_batch(Batch(ForwardMode.DECODE, 7))
        """
    ran, _ = ran_well(
        sys.executable, tmp_path, program, FROSTLINE_PRESETS="sglang", PYTHONPATH=f"{tmp_path}:{SOURCE}"
    )
    expected = [(told.PREFILL, 2), (told.DECODE, 40), (told.MIXED, 3), (told.EMPTY, 0), (0, 6)]
    assert [stage_and_batch(span) for span in spans(ran, "engine step")] == [*expected, (0, -1)]
    assert [stage_and_batch(span) for span in spans(ran, "update")] == expected
    assert [stage_and_batch(span) for span in spans(ran, "schedule")] == [(told.DECODE, 7)]


APP = """
import asyncio, http.client, threading
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

async def item(request): return PlainTextResponse("ok")
async def fails(request): raise RuntimeError("on purpose")

app = Starlette(routes=[
    Route("/items/{item}", item, methods=["GET", "POST"]), Route("/fails/{x}", fails),
])
server = uvicorn.Server(uvicorn.Config(app, port=0, http="h11", log_level="critical"))
ready = threading.Event()
class Announced(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        ready.set()
server.__class__ = Announced
def client():
    ready.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    for method, path in (("GET", "/items/4711-SECRET?token=SECRET"), ("POST", "/items/SECRET"),
                         ("GET", "/fails/SECRET"), ("GET", "/nowhere/SECRET")):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request(method, path)
        print(connection.getresponse().status)
        connection.close()
    server.should_exit = True
thread = threading.Thread(target=client); thread.start()
server.run(); thread.join()
"""


def test_a_request_tells_its_routes_template_and_nothing_of_the_client(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    pytest.importorskip("h11")
    ran, series = ran_well(sys.executable, tmp_path, APP, FROSTLINE_PRESETS="asgi")
    assert ran.output.split() == ["200", "200", "500", "404"]
    found = [series.names.get(span["value1"], "") for span in spans(ran, "request")]
    assert sorted(found) == ["", "GET /fails/{x}", "GET /items/{item}", "POST /items/{item}"]
    folders = (ran.folder, ran.folder / layout.ACTIVE_LINK)
    recorded = b"".join(path.read_bytes() for folder in folders for path in folder.glob(f"*{layout.SUFFIX}"))
    assert b"/items/{item}" in recorded and b"SECRET" not in recorded


@every_interpreter
def test_a_program_tells_itself(interpreter: Interpreter, tmp_path: Path) -> None:
    ran, series = ran_well(
        interpreter,
        tmp_path,
        """
        import asyncio, gc
        import frostline
        with frostline.span("all", batch=8, stage="decode", group="tiny"): pass
        with frostline.span("set") as told:
            told.batch = 3; told.stage = "prefill"; told.group = "large"
        with frostline.span("own", 5, 6): pass
        with frostline.span("beside", 5, 6, batch=2): pass
        frostline.end(frostline.begin("split"), batch=4, stage="mixed", error=True)

        class Text(str):
            def __eq__(self, other): raise RuntimeError("asked")
            def __bool__(self): raise RuntimeError("asked")
            __hash__ = str.__hash__
        class Odd:
            def __int__(self): raise ValueError
            def __bool__(self): raise RuntimeError("asked")
            def __eq__(self, other): raise RuntimeError("asked")
        for batch, stage, group in ((Odd(), Odd(), Odd()), ("x", "nonsense", None), (-3, None, 7),
                                    (10**30, Text("decode"), Text("text")), (True, "empty", "")):
            with frostline.span("odd", batch=batch, stage=stage, group=group): pass

        @frostline.span("decorated", batch=9, stage="decode")
        def f(): return 1
        assert f() == 1
        """,
    )
    names = series.names

    def told_by(label: str) -> list[tuple[int, int, int, str]]:
        return [
            (*stage_and_batch(span), span["value1"] if not span["flags"] & told.FLAG_GROUP else 0,
             names[span["value1"]] if span["flags"] & told.FLAG_GROUP else "")
            for span in spans(ran, label)
        ]  # fmt: skip

    assert told_by("all") == [(told.DECODE, 8, 0, "tiny")]
    assert told_by("set") == [(told.PREFILL, 3, 0, "large")]
    assert told_by("own") == [(0, 5, 6, "")]
    assert told_by("beside") == [(0, 2, 6, "")]
    assert told_by("split") == [(told.MIXED, 4, -1, "")]
    assert told_by("odd") == [
        (0, -1, -1, ""),
        (0, -1, -1, ""),
        (0, -1, -1, ""),
        (told.DECODE, 2**31 - 1, 0, "text"),
        (told.EMPTY, 1, -1, ""),
    ]
    assert not any(span["flags"] & told.FLAG_BATCH for span in spans(ran, "own") + spans(ran, "decorated"))
    assert labels(series)["decorated"] == 1


def test_every_reader_is_of_something_that_a_preset_wraps() -> None:
    known = {
        f"{module}:{name}"
        for table in PRESETS.values()
        for module, targets in table.items()
        for name, _ in targets
    }
    assert set(READERS) | set(LATE_READERS) <= known
    assert not set(READERS) & set(LATE_READERS)


@pytest.mark.parametrize("stage", range(len(told.STAGES)))
@pytest.mark.parametrize("batch", [-1, 0, 1, 2**31 - 1, 2**40])
@pytest.mark.parametrize("name", [0, 1, 2**31 - 1])
def test_what_is_packed_is_unpacked(stage: int, batch: int, name: int) -> None:
    flags, value0, value1 = values_of(number_of(stage, batch, name))
    assert flags >> told.STAGE_SHIFT == stage
    assert bool(flags & told.FLAG_BATCH) == (batch >= 0) and value0 == min(batch, 2**31 - 1)
    assert bool(flags & told.FLAG_GROUP) == (name > 0) and value1 == (name or -1)


MIDDLEWARE = """
import asyncio
from frostline.integrations.asgi import Middleware

class Route:
    def __init__(self): self.path = "/items/{item}"

async def app(scope, receive, send):
    scope["route"] = Route()
    if scope["path"] == "/fails": raise ValueError("on purpose")

async def main():
    for path in ("/items/SECRET", "/fails"):
        try:
            await Middleware(app)({"type": "http", "method": "GET", "path": path}, None, None)
        except ValueError as error:
            print(error)
asyncio.run(main())
"""


def test_the_middleware_records_requests_of_a_server_that_no_preset_knows(tmp_path: Path) -> None:
    ran, series = ran_well(sys.executable, tmp_path, MIDDLEWARE)
    assert ran.output == "on purpose\n"
    requests = spans(ran, "request")
    assert [series.names[span["value1"]] for span in requests] == ["GET /items/{item}"] * 2
    assert {span["kind"] for span in requests} == {layout.SPAN_ASYNC}
    assert [span["flags"] & layout.SPAN_FLAG_ERROR for span in requests] == [0, 1]


def test_behind_a_server_that_is_known_it_records_each_request_once(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("h11")
    text = "from frostline.integrations.asgi import Middleware\n" + SERVER % "h11"
    text = text.replace("uvicorn.Config(app,", "uvicorn.Config(Middleware(app),")
    _, series = ran_well(sys.executable, tmp_path, text, FROSTLINE_PRESETS="auto")
    assert labels(series) == {"request": 22}


CYCLE = """
class Route:
    def __init__(self): self.path = "/items/{item}"

class RequestResponseCycle:
    def __init__(self, path): self.scope = {"type": "http", "method": "GET", "path": path}
    async def run_asgi(self, app):
        return await app(self.scope)
"""


@every_interpreter
def test_a_request_dies_with_its_end_well_or_badly(interpreter: Interpreter, tmp_path: Path) -> None:
    package(tmp_path, "uvicorn.protocols.http.h11_impl", CYCLE)
    program = """
        import asyncio, gc
        from frostline.heap.promises import Released
        from uvicorn.protocols.http.h11_impl import RequestResponseCycle, Route
        gc.collect(); gc.disable()
        gone = Released()
        async def app(scope):
            await asyncio.sleep(0)
            scope["route"] = route = Route()
            gone(route)
            del route
            if scope["path"] == "/fails": raise ValueError("on purpose")
            if scope["path"] == "/cancelled": await asyncio.sleep(60)
            return 42
        async def one(path):
            cycle = RequestResponseCycle(path)
            gone(cycle)
            running = asyncio.ensure_future(cycle.run_asgi(app))
            del cycle
            if path == "/cancelled":
                for _ in range(3): await asyncio.sleep(0)
                running.cancel()
            try:
                assert await running == 42
            except (ValueError, asyncio.CancelledError) as error:
                error.__traceback__ = None
            del running
        async def main():
            for path in ("/well", "/fails", "/cancelled"):
                await one(path)
                await asyncio.sleep(0)
                gone.check()
        asyncio.run(main())
        """
    ran, series = ran_well(
        interpreter, tmp_path, program, FROSTLINE_PRESETS="asgi", PYTHONPATH=f"{tmp_path}:{SOURCE}"
    )
    requests = spans(ran, "request")
    assert [series.names.get(span["value1"], "") for span in requests] == ["GET /items/{item}", "", ""]
    assert [span["flags"] & layout.SPAN_FLAG_ERROR for span in requests] == [0, 1, 1]
