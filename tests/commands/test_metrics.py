"""``frostline metrics`` (D13): on real servers of several processes, fetched while their locks are held."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed

from frostline.analysis import analyse
from frostline.commands.metrics import Look, metrics
from frostline.errors import FrostlineError
from frostline.recording import read_session
from tests.reach.under_run import DEADLINE, FROSTLINE, environment, running, wait_for
from tests.synthetic import MS, Process, write_helper, write_run

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

#: Two processes. Each runs passes inside the very lock that a metrics library in it would take (case 25),
#: says so, and holds it until it hears a line.
SERVER = """
import gc, multiprocessing, sys, threading
import frostline
lock = threading.Lock()
def passes(count):
    gc.disable()
    for _ in range(count):
        cycle = []
        cycle.append(cycle)
        del cycle
        with lock:
            gc.collect()
def child(pipe):
    frostline.install(role="Engine", rank=1)
    while (count := pipe.recv()) is not None:
        passes(count)
        with lock:
            pipe.send("done")
            pipe.recv()
if __name__ == "__main__":
    frostline.install(role="Front")
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    engine = multiprocessing.get_context("spawn").Process(target=child, args=(theirs,))
    engine.start()
    while (line := sys.stdin.readline().strip()) != "end":
        front, back = map(int, line.split())
        ours.send(back)
        passes(front)
        ours.recv()
        with lock:
            print("held", flush=True)
            sys.stdin.readline()
        ours.send("go on")
    ours.send(None)
    engine.join()
"""


def samples(text: str) -> Samples:
    """Each once: a label set that is there twice would be no exposition at all."""
    found: Samples = {}
    for family in parsed(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def of(found: Samples, name: str, **labels: str) -> dict[str, float]:
    """process -> the sum of the samples that have these labels."""
    sums: dict[str, float] = {}
    for (sample, pairs), value in found.items():
        told = dict(pairs)
        if sample == name and labels.items() <= told.items():
            sums[told["process"]] = sums.get(told["process"], 0.0) + value
    return sums


@contextlib.contextmanager
def serving(tmp_path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and its URL."""
    process = subprocess.Popen(
        [*FROSTLINE, "metrics", *arguments, "--listen", "127.0.0.1:0"],
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", said)
        assert found, said
        yield process, found[0]
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE)


def fetch(url: str, accept: str = "text/plain") -> str:
    asked = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(asked, timeout=DEADLINE) as answer:
        text: str = answer.read().decode()
        return text


def explicit(url: str) -> dict[str, float]:
    found = samples(fetch(url))
    return of(found, "frostline_gc_pause_seconds_count", generation="2", cause="explicit")


def test_case_25_all_processes_are_told_of_while_their_locks_are_held(tmp_path: Path) -> None:
    with running(tmp_path, sys.executable, "-c", _in_file(tmp_path)) as server:
        assert server.stdin is not None and server.stdout is not None

        def told(line: str) -> None:
            assert server.stdin is not None and server.stdout is not None
            server.stdin.write(line)
            server.stdin.flush()
            assert server.stdout.readline() == "held\n"

        told("7 3\n")
        with serving(tmp_path, str(tmp_path / "rec")) as (process, url):
            assert explicit(url) == {"Front": 7.0, "Engine dp1": 3.0}
            found = samples(fetch(url))
            # What each pass reclaimed is in it too: a list that holds itself.
            reclaimed = of(found, "frostline_gc_collected_objects_total", generation="2")
            assert reclaimed["Front"] >= 7 and reclaimed["Engine dp1"] >= 3
            assert {"Front", "Engine dp1"} <= of(found, "frostline_frozen").keys()
            server.stdin.write("\n")
            told("2 4\n")
            assert explicit(url) == {"Front": 9.0, "Engine dp1": 7.0}
            names = {family.name for family in openmetrics(fetch(url, "application/openmetrics-text"))}
            assert {"frostline_gc_pause_seconds", "frostline_frozen"} <= names
            server.stdin.write("\nend\n")
            server.stdin.flush()
            assert server.wait(DEADLINE) == 0
            # What it did last is told of for a while.
            assert explicit(url) == {"Front": 9.0, "Engine dp1": 7.0}
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE) == 0
    _agrees_with_the_report(tmp_path / "rec")


def _in_file(tmp_path: Path) -> str:
    """Spawned children import the main module: it is a file."""
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return (
        f"import runpy, sys; sys.argv[0] = {str(path)!r}; runpy.run_path({str(path)!r}, run_name='__main__')"
    )


def _agrees_with_the_report(session: Path) -> None:
    report = subprocess.run(
        [*FROSTLINE, "report", str(session), "--json"], capture_output=True, text=True, check=True
    )
    once = CliRunner().invoke(metrics, [str(session)], catch_exceptions=False)
    found = samples(once.output)
    for process in json.loads(report.stdout)["processes"]:
        for generation in process["generations"]:
            labels = {"pid": str(process["pid"]), "generation": str(generation["generation"])}
            pauses = of(found, "frostline_gc_pause_seconds_count", **labels)
            assert sum(pauses.values()) == generation["count"]


def test_the_newest_session_is_told_of_when_none_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FrostlineError) as error:
        Look(None)()
    assert error.value.slug == "no-session"
    look = Look(None)
    for number in (1, 2):
        code = "import gc, frostline; frostline.install(role='Run'); gc.collect(); gc.collect()"
        subprocess.run(
            [*FROSTLINE, "run", "-o", str(tmp_path / f"rec{number}"), "--", sys.executable, "-c", code],
            env=environment(tmp_path),
            check=True,
            timeout=60,
        )
        processes = look().processes
        assert [process.name for process in processes] == ["Run"]
        assert len({process.pid for process in processes}) == 1


def test_two_programs_of_one_name_are_one_series(tmp_path: Path) -> None:
    """A process that replaces its program writes two series under one pid: one label set each."""
    (tmp_path / "app.py").write_text(
        "import gc, os, sys\n"
        "gc.collect()\n"
        "if sys.argv[1:] != ['last']:\n"
        "    os.execv(sys.executable, [sys.executable, 'app.py', 'last'])\n"
    )
    subprocess.run(
        [*FROSTLINE, "run", "-o", "rec", "--", sys.executable, "app.py"],
        env=environment(tmp_path),
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    once = CliRunner().invoke(metrics, [str(tmp_path / "rec")], catch_exceptions=False)
    counts = of(samples(once.output), "frostline_gc_pause_seconds_count", generation="2", cause="explicit")
    assert counts == {"app.py": 2.0}


def test_names_are_the_reports(tmp_path: Path) -> None:
    """Also where only the helper saw the title: vLLM sets it by itself."""
    for pid, role in ((11, ""), (12, "Own")):
        process = Process(pid=pid, opened=10**12 + pid, text=[("argv", "python3"), ("argv", "app.py")])
        if role:
            process.add_identity(role)
        process.add_pass(0, MS)
        process.write(tmp_path)
    write_helper(
        tmp_path,
        [{"pid": pid, "python": True, "recorded": True, "title": "VLLM::EngineCore"} for pid in (11, 12)],
    )
    write_run(tmp_path, ["serve"])
    names = {f"{one.name} (pid {one.pid})" for one in Look(tmp_path)().processes}
    analysis = analyse(read_session(tmp_path))
    assert names == {one.name for one in analysis.processes} == {"VLLM::EngineCore (pid 11)", "Own (pid 12)"}


class _Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.path, body))  # type: ignore[attr-defined]
        self.server.came.set()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def session(tmp_path: Path) -> Path:
    code = "import gc, frostline; frostline.install(role='App'); [gc.collect() for _ in range(5)]"
    subprocess.run(
        [
            *FROSTLINE,
            "run",
            "-o",
            str(tmp_path / "rec"),
            "--policy",
            "freeze",
            "--",
            sys.executable,
            "-c",
            code,
        ],
        env=environment(tmp_path),
        check=True,
        timeout=60,
    )
    return tmp_path / "rec"


def test_otlp(tmp_path: Path, session: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
        server.bodies, server.came = [], threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/metrics"
        process = subprocess.Popen(
            [*FROSTLINE, "metrics", str(session), "--otlp", url, "--every", "600s"],
            env=environment(tmp_path, OTEL_RESOURCE_ATTRIBUTES="service.name=shop"),
        )
        assert server.came.wait(DEADLINE)  # type: ignore[attr-defined]
        process.send_signal(signal.SIGTERM)  # it sends once more, and ends
        assert process.wait(DEADLINE) == 0
        server.shutdown()
        bodies = server.bodies  # type: ignore[attr-defined]
    assert [path for path, _ in bodies] == ["/v1/metrics"] * 2
    (one,) = ExportMetricsServiceRequest.FromString(bodies[-1][1]).resource_metrics
    about = {a.key: a.value.string_value or a.value.int_value for a in one.resource.attributes}
    assert about["service.name"] == "shop" and about["process.title"] == "App"
    told = {metric.name: metric for metric in one.scope_metrics[0].metrics}
    points = told["cpython.gc.collections"].sum.data_points
    assert {p.attributes[0].value.int_value for p in points} == {0, 1, 2}
    assert told["cpython.gc.collections"].sum.is_monotonic
    explicit = [
        p
        for p in told["frostline.gc.pause"].histogram.data_points
        if any(a.value.string_value == "explicit" for a in p.attributes)
    ]
    assert sum(p.count for p in explicit) == sum(sum(p.bucket_counts) for p in explicit) == 5
    assert all(p.time_unix_nano > p.start_time_unix_nano > 10**18 for p in explicit)
    assert len(explicit[0].bucket_counts) == len(explicit[0].explicit_bounds) + 1


def test_an_endpoint_that_takes_nothing_is_said_once_and_tried_again(tmp_path: Path, session: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    process = subprocess.Popen(
        [*FROSTLINE, "metrics", str(session), "--otlp", f"http://127.0.0.1:{port}/v1/metrics"],
        env=environment(tmp_path, OTEL_EXPORTER_OTLP_TIMEOUT="1"),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert f"127.0.0.1:{port}/v1/metrics does not take them (" in said
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)  # and there is nobody to send the last to
        assert process.wait(DEADLINE) == 0 and not process.stderr.read()
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE)


def test_damage_is_said_and_counted(session: Path) -> None:
    (path, *_) = sorted(session.glob("*.flr"))
    path.write_bytes(path.read_bytes()[: 20 * 1024])  # the passes are cut off
    done = CliRunner().invoke(metrics, [str(session)], catch_exceptions=False)
    assert "frostline_damaged_files 1.0" in done.output and "are damaged" in done.stderr
    path.write_bytes(bytes(20 * 1024))
    done = CliRunner().invoke(metrics, [str(session)], catch_exceptions=False)
    assert "frostline_damaged_files 1.0" in done.output and 'process="' not in done.output


def test_a_textfile_is_written_whole_again_and_again(tmp_path: Path, session: Path) -> None:
    path = tmp_path / "frostline.prom"
    process = subprocess.Popen(
        [*FROSTLINE, "metrics", str(session), "--textfile", str(path), "--every", "0.1s"],
        env=environment(tmp_path),
    )
    try:
        first = wait_for(lambda: path.exists() and path.stat().st_ino, "the file")
        wait_for(lambda: path.stat().st_ino != first, "the file, written again")
        assert of(samples(path.read_text()), "frostline_frozen") == {"App": 0.0}
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
        assert [one.name for one in tmp_path.glob("*.prom*")] == ["frostline.prom"]
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (["--listen", "nowhere"], "bad-listen"),
        (["--listen", "127.0.0.1:70000"], "bad-listen"),
        (["--textfile", "metrics.txt"], "bad-textfile"),
        (["--textfile", "nowhere/metrics.prom"], "bad-textfile"),
        (["--otlp", "env", "--every", "0"], "bad-every"),
        (["--otlp", "env", "--every", "soon"], "bad-duration"),
        (["--otlp", "nonsense"], "bad-otlp"),
    ],
)
def test_what_cannot_be_is_refused(session: Path, arguments: list[str], slug: str) -> None:
    with pytest.raises(FrostlineError) as error:
        CliRunner().invoke(metrics, [str(session), *arguments], catch_exceptions=False, standalone_mode=False)
    assert error.value.slug == slug and error.value.exit_code == 2


def test_a_port_that_is_taken_and_a_session_that_is_not_there(tmp_path: Path, session: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with pytest.raises(FrostlineError) as error:
            CliRunner().invoke(metrics, [str(session), "--listen", port], catch_exceptions=False)
    assert error.value.slug == "cannot-listen"
    with pytest.raises(FrostlineError) as error:
        CliRunner().invoke(metrics, [str(tmp_path / "none")], catch_exceptions=False)
    assert error.value.slug == "session-not-found"
    (tmp_path / "other").mkdir()
    with pytest.raises(FrostlineError) as error:
        CliRunner().invoke(metrics, [str(tmp_path / "other")], catch_exceptions=False)
    assert error.value.slug == "session-empty"
    for more, said in ((["--otlp", "env"], "give one of"), (["--every", "1s"], "--every is for")):
        both = CliRunner().invoke(metrics, [str(session), "--listen", "0", *more])
        assert both.exit_code == 2 and said in both.output


def test_a_session_that_vanishes_is_said_and_not_served(tmp_path: Path, session: Path) -> None:
    with serving(tmp_path, str(session)) as (process, url):
        assert explicit(url) == {"App": 5.0}
        session.rename(tmp_path / "elsewhere")
        assert explicit(url) == {}
        assert process.stderr is not None and "[session-not-found]" in process.stderr.readline()
        (tmp_path / "elsewhere").rename(session)
        assert explicit(url) == {"App": 5.0}
