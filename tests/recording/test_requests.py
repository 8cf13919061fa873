"""Files of load clients: what is read is what was written, and what is none of them is said to be none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frostline.errors import FrostlineError
from frostline.recording.requests import CLOSED, OPEN, UNIX, Requests, read_requests, write_own
from tests.requests import vllm_result

CLIENTS = Path(__file__).parent / "clients"
NS = 1_000_000_000
WORDS = ("ok", "timeout", "cut", "ConnectionResetError: 104")
KEYS = (
    "start_times", "ttfts", "itls", "latencies", "errors", "output_lens", "queue_times", "request_rate",
    "benchmarks", "config", "strategy", "requests", "successful", "errored", "info", "timings", "columns",
    "load", "summary", "timeout", "frostline_requests", "deadline", "loop",
)  # fmt: skip

times = st.integers(0, 10**15)
lengths = st.integers(0, 10**11)
fresh = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@st.composite
def own_rows(draw: st.DrawFn) -> dict[str, Any]:
    """One request as our own format has it."""
    at = draw(times)
    row: dict[str, Any] = {"intended": at, "sent": at + draw(lengths), "status": draw(st.sampled_from(WORDS))}
    gaps = draw(st.lists(lengths, max_size=4))
    if gaps or draw(st.booleans()):
        row["first"] = at + draw(lengths)
        row["gaps"] = gaps
    if row["status"] == "ok" or draw(st.booleans()):
        row["last"] = row.get("first", at) + sum(gaps) + draw(lengths)
        if "first" in row and draw(st.booleans()):
            row["last_token"] = draw(st.integers(row["first"], row["last"]))
        row["tokens"] = draw(st.integers(0, 10**6))
    return row


def one(path: Path, format: str = "") -> Requests:
    (found,) = read_requests(path, format)
    return found


@fresh
@given(st.lists(own_rows(), min_size=1, max_size=12), st.none() | lengths)
def test_our_own_format_there_and_back(
    tmp_path: Path, rows: list[dict[str, Any]], deadline: int | None
) -> None:
    path = tmp_path / "requests.jsonl"
    write_own(path, {"seed": 7, "boot_id": "b", **({} if deadline is None else {"deadline": deadline})}, rows)
    found = one(path)
    rows = sorted(rows, key=lambda row: row["intended"])
    for name in ("intended", "sent", "first", "last_token", "last", "tokens"):
        assert getattr(found, name).tolist() == [row.get(name, -1) for row in rows]
    assert found.status == tuple(row["status"] for row in rows)
    assert found.ok.tolist() == [row["status"] == "ok" for row in rows]
    after = [-1 if deadline is None else row["intended"] + deadline for row in rows]
    assert found.deadline.tolist() == after
    assert sorted((found.gap_stop - found.gap_start).tolist()) == sorted(
        gap for row in rows for gap in row.get("gaps", ())
    )
    assert (found.unread, found.loop, found.boot_id, found.format) == (0, OPEN, "b", "frostline")


def test_gaps_lie_one_after_the_other_from_the_first_chunk_on(tmp_path: Path) -> None:
    path = tmp_path / "r"
    row = {"intended": 5, "sent": 6, "first": 10, "last": 60, "status": "ok", "gaps": [20, 30]}
    write_own(path, {}, [row])
    found = one(path)
    assert (found.gap_start.tolist(), found.gap_stop.tolist()) == ([10, 30], [30, 60])


def test_lines_that_make_no_sense_are_counted_and_the_warm_up_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r"
    good = {"intended": 5, "sent": 6, "last": 60, "status": "ok"}
    write_own(
        path,
        {"late_bound": 77, "loop": "closed"},
        [
            good,
            {**good, "measured": False},
            {**good, "last": 4},  # ends before it began
            {**good, "first": 2},
            {**good, "intended": None},
            {**good, "intended": 5.5},
            {**good, "intended": True},
            {"intended": 5, "status": "ok"},  # answered, and no end
            {**good, "status": 200},
            {**good, "gaps": [1]},  # gaps after no chunk
            {**good, "first": 9, "gaps": [-1]},
            {**good, "first": 9, "last_token": 8},
            {**good, "last_token": 10**9},
        ],
    )
    with path.open("a") as file:
        file.write('[1]\n\n{"intended": 9, "sent": 9, "la')  # killed while it wrote
    found = one(path)
    assert (len(found), found.warm_up, found.unread) == (1, 1, 13)
    assert (found.late_bound, found.loop) == (77, CLOSED)


@st.composite
def vllm_rows(draw: st.DrawFn) -> dict[str, Any]:
    """One request as vLLM's benchmark measures it, in seconds."""
    failed = draw(st.booleans())
    seconds = st.floats(0.001, 50, allow_nan=False)
    return {
        "start": draw(st.floats(100, 10**6)),
        "queued": draw(st.floats(0, 5)),
        "ttft": 0.0 if failed and draw(st.booleans()) else draw(seconds),
        "itl": draw(st.lists(seconds, max_size=6)),
        "error": "Traceback\n  File x\nTimeoutError\n" if failed else "",
    }


@fresh
@given(st.lists(vllm_rows(), min_size=1, max_size=10))
def test_a_vllm_benchmark_is_read_as_it_was_measured(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(vllm_result(rows)))
    found = one(path)
    rows.sort(key=lambda row: row["start"] - row["queued"])
    assert (found.format, found.loop) == ("vllm", OPEN)
    for i, row in enumerate(rows):
        close = {"rel": 0, "abs": 3}
        assert found.intended[i] == pytest.approx((row["start"] - row["queued"]) * NS, **close)
        assert found.sent[i] == pytest.approx(row["start"] * NS, **close)
        first = (row["start"] + row["ttft"]) * NS if row["ttft"] else -1
        assert found.first[i] == pytest.approx(first, **close)
        last = -1 if row["error"] else (row["start"] + row["ttft"] + sum(row["itl"])) * NS
        assert found.last[i] == pytest.approx(last, **close)
        assert found.status[i] == ("timeout" if row["error"] else "ok")
        assert found.deadline[i] == -1
    assert len(found.gap_start) == sum(len(row["itl"]) for row in rows)
    assert (found.gap_stop - found.gap_start).sum() == pytest.approx(
        sum(sum(row["itl"]) for row in rows) * NS, rel=1e-9, abs=100
    )
    ends = {round(int(stop), -3) for stop in found.gap_stop}
    for row in rows:
        if row["itl"]:
            assert round(int((row["start"] + row["ttft"] + sum(row["itl"])) * NS), -3) in {
                end + more for end in ends for more in (-1000, 0, 1000)
            }


ROW = {"start": 50.0, "queued": 0.5, "ttft": 0.25, "itl": [0.5, 0.25], "error": ""}


def test_vllm_files_of_older_versions_and_several_runs(tmp_path: Path) -> None:
    whole = vllm_result([ROW])
    old = {key: value for key, value in whole.items() if key not in ("latencies", "queue_times")}
    path = tmp_path / "appended.json"
    path.write_text(json.dumps(whole) + "\n" + json.dumps(old))
    first, second = read_requests(path)
    assert (first.name, second.name) == ("appended.json (run 1)", "appended.json (run 2)")
    assert first.last.tolist() == second.last.tolist() == [51 * NS]
    assert (first.intended.tolist(), second.intended.tolist()) == ([49 * NS + NS // 2], [50 * NS])


def test_vllm_with_a_concurrency_and_no_rate_is_a_closed_loop(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(vllm_result([ROW], request_rate="inf", max_concurrency=8), indent=2))
    found = one(path)
    assert found.loop == CLOSED and found.intended.tolist() == found.sent.tolist() == [50 * NS]
    path.write_text(json.dumps(vllm_result([ROW], request_rate=5.0, max_concurrency=8)))
    assert one(path).loop == OPEN and one(path).intended.tolist() == [49 * NS + NS // 2]


def test_a_failure_whose_reason_is_ok_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(vllm_result([{**ROW, "error": "ok"}, {**ROW, "error": "Not Found"}])))
    found = one(path)
    assert sorted(found.status) == ["Not Found", "error"] and not found.ok.any()


def demo_result() -> dict[str, Any]:
    columns = ["intended", "sent", "first", "last", "chunks", "status", "measured"]
    rows = [
        [5 * NS, 5 * NS + 1, 6 * NS, 7 * NS, 9, "ok", True],
        [6 * NS, 6 * NS, 16 * NS, 16 * NS, 0, "timeout", True],
        [4 * NS, 4 * NS, 5 * NS, 6 * NS, 9, "ok", False],
    ]
    return {
        "url": "",
        "load": {"timeout": 10.0},
        "start": 0,
        "summary": {},
        "columns": columns,
        "requests": rows,
    }


def test_the_demos_load_client(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(demo_result()))
    found = one(path)
    assert (found.format, len(found), found.warm_up) == ("demo", 2, 1)
    assert found.first.tolist() == [6 * NS, -1] and found.deadline.tolist() == [15 * NS, 16 * NS]


def test_a_real_report_of_guidellm() -> None:
    """GuideLLM 0.8.1 against vLLM: three of its reports in one, cut down to what is read."""
    path = CLIENTS / "guidellm-0.8.1.json"
    whole = json.loads(path.read_text())
    runs = read_requests(path)
    assert [run.name.split(", ")[-1] for run in runs] == ["poisson)", "concurrent)", "poisson)"]
    assert [run.loop for run in runs] == [OPEN, CLOSED, OPEN]
    for found, benchmark in zip(runs, whole["benchmarks"], strict=True):
        asked = benchmark["requests"]
        assert (found.clock, found.format, found.unsent) == (UNIX, "guidellm", 0)
        assert int(found.ok.sum()) == len(asked["successful"])
        assert int(found.cut.sum()) == len(asked["incomplete"])
        assert int(found.failed.sum()) == len(asked["errored"])
        plan = "targeted_start" if found.loop == OPEN else "request_start"
        for request in asked["successful"] + asked["incomplete"] + asked["errored"]:
            timings = request["info"]["timings"]
            i = int(np.abs(found.intended - round(timings[plan] * NS)).argmin())
            end = timings["request_end"] or timings["resolve_end"]
            close = {"rel": 0, "abs": 300}  # a float64 holds Unix seconds to 0.24 us
            assert found.intended[i] == pytest.approx(timings[plan] * NS, **close)
            assert found.sent[i] == pytest.approx(timings["request_start"] * NS, **close)
            assert found.last[i] == pytest.approx(end * NS, **close)
            if timings["first_token_iteration"]:
                assert found.first[i] == pytest.approx(timings["first_token_iteration"] * NS, **close)
            assert found.intended[i] <= found.sent[i] <= found.last[i]
        assert set(found.tokens[found.ok].tolist()) <= {12, 64}
    assert "404 Not Found" in runs[2].status[0] and (runs[2].deadline == -1).all()


def test_a_sample_of_guidellm_is_called_one(tmp_path: Path) -> None:
    whole = json.loads((CLIENTS / "guidellm-0.8.1.json").read_text())
    del whole["benchmarks"][0]["requests"]["successful"][7:]
    path = tmp_path / "r.json"
    path.write_text(json.dumps(whole))
    notes = [any("it is a sample" in note for note in run.notes) for run in read_requests(path)]
    assert notes == [True, False, False]


def test_a_real_result_of_vllm() -> None:
    """The first 25 requests of a run of vLLM 0.32's own benchmark, texts left out."""
    path = CLIENTS / "vllm-0.32.json"
    whole = json.loads(path.read_text())
    found = one(path)
    assert (found.format, found.loop, len(found)) == ("vllm", OPEN, 25) and found.ok.all()
    assert np.all(found.intended <= found.sent) and np.all(found.sent < found.first)
    assert np.all(found.first < found.last) and set(found.tokens.tolist()) == {48}
    assert len(found.gap_start) == sum(map(len, whole["itls"]))
    # The last chunk of each request ends its last gap.
    ends = np.array([found.gap_stop[np.abs(found.gap_stop - last).argmin()] for last in found.last])
    assert np.all(np.abs(ends - found.last) < 1_000)


# --- what it is not -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("", "not-requests"),
        ("no json", "not-requests"),
        ("[1, 2]", "not-requests"),
        ("{}", "not-requests"),
        ('{"a": 1}\nno', "not-requests"),
        ("[" * 200_000, "not-requests"),
        ('{"frostline_requests": 2}', "requests-version"),
        ('{"frostline_requests": 1, "clock": "unix"}', "requests-damaged"),
        ('{"frostline_requests": 1, "loop": "round"}', "requests-damaged"),
        ('{"frostline_requests": 1}', "requests-empty"),
        ('{"frostline_requests": 1}\nnonsense', "requests-empty"),
        ('{"benchmarks": []}', "requests-empty"),
        ('{"benchmarks": [{}]}', "requests-damaged"),
        ('{"benchmarks": [{"config": {"strategy": {"type_": "x"}}, "requests": {"successful": [{}]}}]}',
         "requests-damaged"),
        ('{"benchmarks": [], "start_times": []}', "requests-ambiguous"),
        ('{"request_throughput": 1, "duration": 2, "completed": 3}', "requests-not-detailed"),
        ('{"start_times": [1], "ttfts": []}', "requests-damaged"),
        ('{"start_times": ["1"], "ttfts": [1]}', "requests-damaged"),
        ('{"start_times": [NaN], "ttfts": [1]}', "requests-damaged"),
        ('{"start_times": [1], "ttfts": [1], "itls": [7]}', "requests-damaged"),
        ('{"start_times": [1], "ttfts": [1], "itls": [["x"]]}', "requests-damaged"),
        ('{"start_times": [], "ttfts": []}', "requests-empty"),
        ('{"columns": [], "requests": [[1]], "load": {}, "summary": {}}', "requests-damaged"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(tmp_path: Path, text: str, slug: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(FrostlineError) as raised:
        read_requests(path)
    assert raised.value.slug == slug and str(path) in raised.value.message


def test_no_file_no_text_and_the_wrong_format(tmp_path: Path) -> None:
    with pytest.raises(FrostlineError) as raised:
        read_requests(tmp_path / "none")
    assert raised.value.slug == "requests-unreadable"
    path = tmp_path / "r"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FrostlineError) as raised:
        read_requests(path)
    assert raised.value.slug == "not-requests"
    path.write_text(json.dumps(vllm_result([ROW])))
    with pytest.raises(FrostlineError) as raised:
        read_requests(path, "guidellm")
    assert raised.value.slug == "not-requests" and raised.value.exit_code == 2


def test_the_format_is_chosen_where_it_is_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    path.write_text(json.dumps({**vllm_result([ROW]), "benchmarks": []}))
    assert one(path, "vllm").format == "vllm"


@fresh
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
        max_leaves=20,
    )
)
def test_nothing_but_our_own_error_comes_of_a_strange_file(tmp_path: Path, value: object) -> None:
    path = tmp_path / "r"
    path.write_text(json.dumps(value))
    try:
        assert all(len(found) for found in read_requests(path))
    except FrostlineError as error:
        assert error.slug.startswith(("requests-", "not-requests"))
