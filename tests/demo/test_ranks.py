"""Data- and tensor-parallel ranks: names, lock-step, and who is frozen when (A7, A8)."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from frostline.analysis import analyse
from frostline.demo.launch import Settings
from frostline.demo.names import child_name, engine_rank, places, worker_rank
from frostline.recording import read_session
from tests.demo.serving import Server, events
from tests.demo.test_server import PROMPT
from tests.reach.under_run import wait_for_helper

RANKS = ("--data-parallel", "2")
NAMES = [
    "APIServer",
    "EngineCore dp0",
    "Worker dp0-tp0",
    "Worker dp0-tp1",
    "EngineCore dp1",
    "Worker dp1-tp0",
    "Worker dp1-tp1",
]


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two engines of two workers each, frozen before READY."""
    server = Server(tmp_path_factory.mktemp("ranked"), workers=2, options=RANKS, policy="freeze")
    server.wait_ready()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), ["EngineCore dp0", "Worker dp0"]),
        (Settings(workers=2), ["EngineCore dp0", "Worker dp0", "Worker dp1"]),
        (Settings(data_parallel=2, workers=2), NAMES[1:]),
        (
            Settings(disaggregated=True),
            ["EngineCore prefill", "Worker prefill-tp0", "EngineCore decode", "Worker decode-tp0"],
        ),
        (
            Settings(disaggregated=True, data_parallel=2),
            [
                "EngineCore prefill-dp0",
                "Worker prefill-dp0-tp0",
                "EngineCore prefill-dp1",
                "Worker prefill-dp1-tp0",
                "EngineCore decode-dp0",
                "Worker decode-dp0-tp0",
                "EngineCore decode-dp1",
                "Worker decode-dp1-tp0",
            ],
        ),
    ],
)
def test_every_process_has_a_name_of_its_own(settings: Settings, expected: list[str]) -> None:
    names = []
    for place in places(settings):
        names.append(child_name("EngineCore", engine_rank(settings, place)))
        names += [child_name("Worker", worker_rank(settings, place, tp)) for tp in range(settings.workers)]
    assert names == expected
    assert len(set(names)) == len(names)


def _spread(server: Server, requests: int, body: dict[str, object]) -> list[tuple[int, bytes]]:
    """Requests at once: the front end gives them to the engine that has the fewest."""
    found: list[tuple[int, bytes]] = []
    threads = [
        threading.Thread(target=lambda: found.append(server.ask("/v1/completions", body)))
        for _ in range(requests)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@dataclass(frozen=True)
class Recorded:
    """A run of two engines of two workers each: what was seen of it, and its recording."""

    health: dict[str, Any]
    titles: dict[int, str]
    output: str
    requests: int
    session: Path

    def spans(self, label: str) -> dict[int, tuple[list[int], list[int]]]:
        """pid -> begins and ends in order, ns."""
        found = {}
        for series in read_session(self.session, None).series:
            spans = series.spans
            named = [series.name(int(one)) == label for one in spans["label"]]
            if any(named):
                found[series.pid] = (
                    sorted(spans["start"][named].tolist()),
                    sorted(spans["stop"][named].tolist()),
                )
        return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    session = folder / "rec"
    server = Server(folder / "server", workers=2, options=RANKS, record=session)
    try:
        health = server.wait_ready()
        pids = [pid for _, _, pid, *_ in health["processes"]]
        titles = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
        for many in (1, 1, 4):
            assert {status for status, _ in _spread(server, many, PROMPT)} == {200}
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        wait_for_helper(session)
        yield Recorded(health, titles, server.output(), 6, session)
    finally:
        server.close()


def test_one_name_everywhere(recorded: Recorded) -> None:
    """What the process says of itself, its title, what the server prints, and the report (A7)."""
    processes = recorded.health["processes"]
    expected = [f"{name} (pid {pid})" for name, (_, _, pid, *_) in zip(NAMES, processes, strict=True)]
    assert recorded.health["names"] == expected
    lines = [line for line in recorded.output.splitlines() if " tracked, " in line]
    assert [line.partition(": ")[0] for line in lines] == expected
    for name, (_, _, pid, *_) in zip(NAMES, processes, strict=True):
        # The kernel keeps 15 bytes: the role's end is cut, the rank kept.
        title = recorded.titles[pid]
        assert title.split(" ")[-1] == name.split(" ")[-1]
        assert name.startswith(title.split(" ")[0])
    assert len(set(recorded.titles.values())) == len(processes)
    reported = {one.pid: one.name for one in analyse(read_session(recorded.session)).processes}
    assert [reported[pid] for _, _, pid, *_ in processes] == expected


def test_no_rank_goes_before_all_have_come(recorded: Recorded) -> None:
    """Lock-step: the n-th meeting of each rank ends after the n-th of every other has begun."""
    ranks = list(recorded.spans("lock-step").values())
    assert len(ranks) == 2
    # The end may come between two ranks' part in the last round.
    rounds = list(zip(*(zip(begins, ends, strict=True) for begins, ends in ranks), strict=False))
    assert len(rounds) > 3 * int(PROMPT["max_tokens"])
    for meeting in rounds:
        assert min(end for _, end in meeting) >= max(begin for begin, _ in meeting)


def test_every_rank_does_every_step_and_none_for_nobody(recorded: Recorded) -> None:
    """An idle rank computes an empty batch; a wave ends with the meeting at which nobody has work."""
    meetings = {pid: len(ends) for pid, (_, ends) in recorded.spans("lock-step").items()}
    steps = {pid: len(ends) for pid, (_, ends) in recorded.spans("engine step").items()}
    assert steps.keys() == meetings.keys()
    assert max(steps.values()) - min(steps.values()) <= 1  # the end may come in the middle of one
    for pid, many in steps.items():
        waves = meetings[pid] - many
        assert 1 <= waves <= recorded.requests
        # A token a step, and at most some steps in which an aborted or late one is taken in.
        assert many <= recorded.requests * (int(PROMPT["max_tokens"]) + 1)
    computed = [len(ends) for _, ends in recorded.spans("execute model").values()]
    assert len(computed) == 4 and max(computed) - min(computed) <= 1


def test_log_lines_begin_with_the_name(start: Callable[..., Server]) -> None:
    server = start(options=RANKS)
    pids = [pid for role, _, pid, *_ in server.wait_ready()["processes"] if role == "EngineCore"]
    psutil.Process(pids[1]).kill()
    assert server.process.wait(30) == 1
    assert "APIServer: EngineCore dp1 ended with -9, so the server ends" in server.output()


def test_every_rank_is_frozen_before_ready(ranked: Server) -> None:
    processes = ranked.wait_ready()["processes"]
    assert len(processes) == len(NAMES)
    for _, _, _, tracked, frozen in processes:
        assert frozen == pytest.approx(tracked, rel=0.1)


def test_every_rank_gives_the_tokens_that_one_alone_gives(ranked: Server, server: Server) -> None:
    status, body = server.ask("/v1/completions", PROMPT | {"stream": True})
    assert status == 200
    alone = "".join(chunk["choices"][0]["text"] for chunk in events(body))
    texts = [json.loads(answer)["choices"][0]["text"] for _, answer in _spread(ranked, 8, PROMPT)]
    assert texts == [alone] * 8


def test_a_new_request_wakes_ranks_at_rest(ranked: Server) -> None:
    """Whichever rank it goes to: two at once go to both."""
    for _ in range(3):
        assert [status for status, _ in _spread(ranked, 2, PROMPT)] == [200, 200]
