"""What a load run comes to (C5, D7): laws of its sums, the ceiling, and what its files hold."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import assume, given
from hypothesis import strategies as st

from frostline.commands._load_rows import SCHEMA
from frostline.commands.load import _shown
from frostline.experiment.load.client import CUT, OK, REFUSED, TIMEOUT, WORDS, Sent, _told_by, prepare
from frostline.experiment.load.files import write_distribution, write_intervals
from frostline.experiment.load.outcome import Summary, as_json, ceiling, response, summaries
from frostline.experiment.load.plan import NS, ladder
from frostline.report import plain

DOCUMENT = Path(__file__).parents[2] / "docs" / "load.md"
MS = 1_000_000
#: When the made runs began, and their deadline, ns.
STARTED, DEADLINE = 50 * NS, 10 * NS


def made(
    rates: list[float],
    seconds: float,
    warmup: float,
    took: Any,
    status: Any = OK,
    late: Any = MS,
    stream: bool = False,
) -> Sent:
    """A run of even rungs without drains. Of each request what it took from its time in the plan, ns; what
    became of it; and how late it was sent, ns.
    """
    sent = prepare(ladder(rates, seconds, warmup, 0, poisson=False), DEADLINE / NS, stream)
    count = len(sent.intended)
    sent.started, sent.begun = STARTED, [STARTED + rung.start for rung in sent.rungs]
    sent.intended += STARTED
    sent.status[:] = status
    sent.sent[:] = sent.intended + late
    sent.last[:] = np.where(sent.status == TIMEOUT, -1, sent.intended + np.broadcast_to(took, count))
    return sent


@st.composite
def runs(draw: st.DrawFn, warm: bool = True) -> Sent:
    """Any end of any request."""
    rates = draw(st.lists(st.sampled_from([5.0, 10.0, 25.0]), min_size=1, max_size=3))
    warmup = draw(st.sampled_from([0.0, 0.4, 1.0])) if warm else 0.0
    count = sum(len(rung.offsets) for rung in ladder(rates, 1.0, warmup, 0, poisson=False))
    of_each = st.lists(st.tuples(st.integers(1, 2 * DEADLINE), st.sampled_from(range(len(WORDS)))),
                       min_size=count, max_size=count)  # fmt: skip
    took, status = (np.array(column, np.int64) for column in zip(*draw(of_each), strict=True))
    took = np.where(status == OK, took % DEADLINE, took)
    sent = made(rates, 1.0, warmup, took, status, np.minimum(took, MS))
    sent.first[:] = np.where(sent.status == OK, sent.sent, -1)
    return sent


def of_the_plan(told: list[Summary]) -> list[dict[str, Any]]:
    """All but what is about when requests were sent."""
    return [
        {name: value for name, value in asdict(one).items() if name not in ("service", "late", "valid")}
        for one in told
    ]


@given(runs(), st.data())
def test_when_it_was_sent_moves_only_the_service_and_the_validity(sent: Sent, data: st.DataObject) -> None:
    """A client that counts from sending hides what kept it from sending."""
    before, took = of_the_plan(summaries(sent)), response(sent)
    count = len(sent.sent)
    moved = data.draw(st.lists(st.integers(0, 2 * DEADLINE), min_size=count, max_size=count))
    sent.sent[:] = sent.intended + np.array(moved)
    assert of_the_plan(summaries(sent)) == before and (response(sent) == took).all()


@given(runs())
def test_what_is_answered_is_what_came_less_what_is_under_way_and_what_failed(sent: Sent) -> None:
    ends = np.where(sent.last >= 0, sent.last, sent.intended + sent.deadline)
    first = 0
    for one, rung in zip(summaries(sent), sent.rungs, strict=True):
        here = slice(first, first + len(rung.offsets))
        first = here.stop
        begin, stop = STARTED + rung.measured, STARTED + rung.stop
        failed = ((ends[here] >= begin) & (ends[here] < stop) & (sent.status[here] != OK)).sum()
        assert one.answered + failed == one.requests + one.under_way_first - one.under_way_last
        assert one.achieved == pytest.approx(one.answered / one.seconds, abs=0.001)


@given(runs(), st.data())
def test_a_failure_never_makes_a_quantile_lower_or_more_achieved(sent: Sent, data: st.DataObject) -> None:
    before, good = summaries(sent), np.flatnonzero(sent.status == OK).tolist()
    assume(good)
    number = data.draw(st.sampled_from(good))
    sent.status[number], sent.last[number] = TIMEOUT, -1
    for one, other in zip(before, summaries(sent), strict=True):
        assert sum(other.failures.values()) >= sum(one.failures.values())
        assert other.achieved <= one.achieved and other.requests == one.requests
        assert all(other.response[name] >= value for name, value in one.response.items())


@given(runs(warm=False), st.integers(0, 2 * NS))
def test_later_answers_are_never_more_achieved(sent: Sent, later: int) -> None:
    before = summaries(sent)
    sent.last[sent.last >= 0] += later
    for one, other in zip(before, summaries(sent), strict=True):
        assert other.achieved <= one.achieved and other.drain >= one.drain


def test_answers_that_come_after_the_time_are_not_achieved() -> None:
    """All come, each 3 s late: what was achieved in the time is less, unless the warm-up's fill it."""
    (cold,) = summaries(made([10.0], 30.0, 0.0, 3 * NS))
    assert (cold.requests, cold.answered, cold.achieved, cold.offered) == (300, 270, 9.0, 10.0)
    assert cold.keeps_up is False and not cold.failures and cold.drain == pytest.approx(2.95)
    (warm,) = summaries(made([10.0], 30.0, 5.0, 3 * NS))
    assert (warm.requests, warm.answered, warm.under_way_first, warm.under_way_last) == (300, 300, 30, 30)
    assert warm.keeps_up


def test_a_server_that_falls_behind_does_not_keep_up_though_every_answer_comes() -> None:
    count = 350
    took = np.arange(count) * (NS // 9 - NS // 10) + 5 * MS  # it makes nine a second of ten
    (one,) = summaries(made([10.0], 30.0, 5.0, took))
    assert not one.failures and one.response["max"] < DEADLINE / MS
    assert one.achieved == pytest.approx(9.0, abs=0.05) and one.keeps_up is False
    assert ceiling([one], 1e9).rate is None


def three_rates() -> Sent:
    """10 a second are answered at once; of 20 as many more are under way at the end as chance may do; of 40
    the server falls behind."""
    took = np.full(35 * (10 + 20 + 40), 50 * MS)
    took[350 + 700 - 12 : 350 + 700] = 5 * NS
    took[350 + 700 :] = np.arange(40 * 35) * MS * 5
    return made([10.0, 20.0, 40.0], 30.0, 5.0, took)


def test_the_ceiling_is_the_highest_that_is_sure_and_the_rest_is_named() -> None:
    told = summaries(three_rates())
    assert [one.keeps_up for one in told] == [True, None, False]
    assert (told[1].answered, told[1].requests, told[1].under_way_last) == (589, 600, 12)
    found = ceiling(told, 10_000)
    assert (found.rate, found.unclear) == (10, (20,))
    assert ceiling(told, 40).rate is None and ceiling(told, 40).unclear == ()
    late = [replace(told[0], valid=False), *told[1:]]
    assert ceiling(late, 10_000).rate is None
    # What is higher and sure settles it.
    sure = [told[1], replace(told[0], rate=80.0)]
    assert ceiling(sure, 10_000) == replace(found, rate=80.0, unclear=())


def test_what_is_shown_says_how_each_figure_came() -> None:
    sent = three_rates()
    told = summaries(sent)
    told[0] = replace(told[0], valid=False, late=12.34)
    sent.passes, sent.longest_pass = 2, 3 * MS
    sent.ran, sent.queued = 800 * MS, 5_400 * MS
    words = "\n".join(plain(_shown(sent, told, ceiling(told, 10_000))))
    assert "INVALID at 10 a second: p99 of sending late is 12.3 ms" in words
    assert "was the bottleneck: it ran for 0.8 s and waited 5.4 s for a CPU. Use another" in words
    assert "Ceiling: below the lowest rate (99 % of it achieved, p99 at most 10000 ms)." in words
    assert "Whether 20 a second is kept up with cannot be told: 589 answers for 600 requests" in words
    assert "20 a second: its last request had ended, or reached its deadline, 5.0 s after its time" in words
    assert "collector made 2 passes, the longest of 3.0 ms" in words
    sent.passes = 0
    words = "\n".join(plain(_shown(sent, told[:1], ceiling(told, 10_000))))
    assert "it made no pass" in words and "achieved, answers whose last byte came in it" in words


def test_an_interrupt_counts_the_time_that_there_was() -> None:
    sent = made([10.0, 10.0], 30.0, 5.0, 2 * NS)
    sent.stopped = STARTED + 15 * NS
    cut = (sent.last > sent.stopped) & (sent.intended < sent.stopped)
    unsent = sent.intended >= sent.stopped
    sent.status[cut | unsent] = CUT
    sent.last[cut], sent.last[unsent], sent.sent[unsent] = sent.stopped, -1, -1
    sent.measured &= sent.sent >= 0
    del sent.begun[1:]
    (one,) = summaries(sent)
    assert (one.seconds, one.requests, one.answered, one.achieved) == (10, 100, 100, 10)
    assert one.failures == {"cut": 20} and one.drain == 0
    assert one.response["max"] == 2_000, "what was cut had lasted less than its deadline"


def test_times_of_streams_are_of_what_came_and_failures_count() -> None:
    sent = made([1.0], 4.0, 0.0, 900 * MS, [OK, OK, REFUSED, OK], stream=True)
    sent.first[:] = sent.intended + np.array([100, 300, 0, 0]) * MS
    sent.first[2:] = -1  # refused; and an answer without text
    sent.last_token[:2] = sent.intended[:2] + np.array([800, 300]) * MS
    sent.tokens[:] = [5, 1, -1, 0]
    sent.gap_of[:5], sent.gap[:5], sent.gaps = 0, [100 * MS, 300 * MS, 200 * MS, 150 * MS, 50 * MS], 5
    (one,) = summaries(sent)
    assert one.ttft == {"p50": 300.0, "p90": 10_000.0, "p99": 10_000.0, "p99.9": 10_000.0, "max": 10_000.0}
    assert one.tpot["max"] == one.tpot["p50"] == 175.0  # (800 - 100) / 4
    assert (one.itl["p50"], one.itl["max"]) == (150.0, 300.0)
    sent.stream = False
    assert summaries(sent)[0].ttft == {}


def test_the_percentiles_are_those_of_the_response(tmp_path: Path) -> None:
    took = np.arange(1, 401) * 10 * MS
    sent = made([10.0], 40.0, 0.0, took, np.where(np.arange(400) == 7, TIMEOUT, OK))
    write_distribution(sent, tmp_path / "out.hgrm")
    text = (tmp_path / "out.hgrm").read_text()
    lines = [line.split() for line in text.splitlines()[2:] if line and not line.startswith("#")]
    assert int(lines[-1][2]) == 400 and float(lines[-1][1]) == 1.0
    (one,) = summaries(sent)
    assert one.response["max"] == 10_000 and float(lines[-1][0]) == pytest.approx(10_000, rel=0.001)
    values = np.sort(response(sent) / 1e6)
    for value, share, count, *_ in lines:
        rank = max(1, math.ceil(float(share) * 400 - 1e-9))
        assert float(value) == pytest.approx(values[rank - 1], rel=0.001) and int(count) == rank
    for name, exact in (("#[Mean", values.mean()), ("StdDeviation", values.std())):
        shown = float(text.partition(name)[2].split()[1].strip(",]"))
        assert shown == pytest.approx(exact, rel=0.001), "both in ms"


@pytest.mark.parametrize("rates", [[50.0], [50.0, 100.0]])
def test_the_interval_log_is_read_back_by_its_own_library(tmp_path: Path, rates: list[float]) -> None:
    count = sum(len(rung.offsets) for rung in ladder(rates, 3.5, 1.0, 0, poisson=False))
    sent = made(rates, 3.5, 1.0, np.arange(1, count + 1) * MS)
    sent.wall = 1_700_000_000 * NS
    write_intervals(sent, tmp_path / "out.hlog")
    reader = HistogramLogReader(str(tmp_path / "out.hlog"), HdrHistogram(1, 60 * NS, 3))
    intervals = []
    while (one := reader.get_next_interval_histogram()) is not None:
        intervals.append(one)
    assert reader.get_start_time_sec() == pytest.approx(1_700_000_050, abs=0.001)
    assert [one.get_total_count() for one in intervals] == [
        round(rate * length) for rate in rates for length in (1, 1, 1, 0.5)
    ]
    tags = [f"{rate:g}" for rate in rates for _ in range(4)]
    assert [one.get_tag() for one in intervals] == (tags if len(rates) > 1 else [None] * 4)
    # The first is of the second after the warm-up.
    assert intervals[0].get_start_time_stamp() == pytest.approx(1_700_000_051_000, abs=1)
    last = intervals[3]
    assert last.get_end_time_stamp() - last.get_start_time_stamp() == pytest.approx(500, abs=1)
    whole = HdrHistogram(1, 60 * NS, 3)
    for one in intervals:
        whole.add(one)
    values = response(sent)[sent.measured]
    for q in (20, 80, 100):  # whole ranks: the library rounds the others
        exact = float(np.quantile(values, q / 100, method="inverted_cdf"))
        assert whole.get_value_at_percentile(q) == pytest.approx(exact, rel=0.001)


def documented(title: str) -> dict[str, str]:
    """The table below a heading of docs/load.md: name -> meaning."""
    part = DOCUMENT.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", part, re.M))


def test_every_column_and_every_key_is_documented() -> None:
    said = documented("Files")
    assert {column.name: column.about for column in SCHEMA.columns} == {
        name: said[name] for name in said if not name.startswith("-")
    }
    sent = three_rates()
    told = summaries(sent)
    found = json.loads(json.dumps(as_json(sent, told, ceiling(told, 1))))
    keys = {"rungs", *(f"rungs[].{name}" for name in found["rungs"][0])}
    keys |= {f"{part}.{name}" for part in ("ceiling", "client") for name in found[part]}
    assert documented("`--json`").keys() == keys


def test_what_was_never_sent_is_json_too() -> None:
    sent = made([5.0], 1.0, 0.0, 0, TIMEOUT)
    sent.sent[:] = -1
    told = summaries(sent)
    (rung,) = json.loads(json.dumps(as_json(sent, told, ceiling(told, 1)), allow_nan=False))["rungs"]
    assert rung["late"] is None and rung["valid"] is False


def test_an_event_with_an_error_is_a_failure_and_one_with_none_is_not() -> None:
    assert _told_by(b'{"error": null, "choices": [{"text": "a"}]}') == (True, True, -1)
    for wrong in (b'{"error": {"message": "no"}, "choices": [{"text": "a"}]}', b'["error"]', b"5", b"{"):
        with pytest.raises(ValueError):
            _told_by(wrong)
