"""What users felt: the reference server under an open-loop client, while passes are provoked (case 23)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from frostline.analysis import analyse
from frostline.analysis.requests import with_requests
from frostline.recording import read_session
from frostline.recording.requests import read_requests, write_own
from tests.demo.serving import Server
from tests.reach.under_run import FROSTLINE, environment, wait_for_helper

RATE, COUNT, DEADLINE = 25.0, 120, 20 * 10**9
BODY = json.dumps({"prompt": "the frost line", "max_tokens": 6, "seed": 1, "stream": True}).encode()


async def one(row: dict[str, Any], host: str, port: int) -> None:
    """One request at its intended time, whatever became of those before."""
    await asyncio.sleep((row["intended"] - time.monotonic_ns()) / 1e9)
    row["sent"] = time.monotonic_ns()
    try:
        reader, writer = await asyncio.open_connection(host, port)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(BODY)}\r\nConnection: close\r\n\r\n".encode() + BODY)
        gaps: list[int] = []
        before = 0
        while line := await reader.readline():
            if not line.startswith(b"data: "):
                continue
            now = time.monotonic_ns()
            if line.startswith(b"data: [DONE]"):
                row |= {"status": "ok", "last": now, "tokens": len(gaps) + 1}
            elif "first" in row:
                gaps.append(now - before)
            else:
                row["first"] = now
            before = now
        row["gaps"] = gaps
        writer.close()
    except OSError as problem:
        row["status"] = type(problem).__name__


async def load(host: str, port: int, session: Path, folder: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Poisson arrivals from a seed; thrice a collection is asked for in every process meanwhile."""
    dice, at = Random(5), time.monotonic_ns() + 200_000_000
    rows: list[dict[str, Any]] = []
    for _ in range(COUNT):
        at += int(dice.expovariate(RATE) * 1e9)
        rows.append({"intended": at, "status": "timeout"})
    requests = asyncio.gather(*(one(row, host, port) for row in rows))
    codes = []
    for quarter in (1, 2, 3):
        await asyncio.sleep((rows[quarter * COUNT // 4]["intended"] - time.monotonic_ns()) / 1e9)
        asked = await asyncio.create_subprocess_exec(
            *FROSTLINE, "collect", str(session), env=environment(folder), stdout=asyncio.subprocess.DEVNULL
        )
        codes.append(await asked.wait())
    await asyncio.wait_for(requests, 60)
    return rows, codes


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Path]]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    session = tmp_path / "rec"
    server = Server(tmp_path / "server", scale=0.15, record=session)
    server.wait_ready()
    yield server, session
    server.close()


def test_the_requests_that_passes_touched_are_found(recorded: tuple[Server, Path], tmp_path: Path) -> None:
    server, session = recorded
    host, port = server.url().removeprefix("http://").split(":")
    rows, codes = asyncio.run(load(host, int(port), session, tmp_path))
    assert codes == [0, 0, 0]
    path = tmp_path / "requests.jsonl"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    write_own(path, {"seed": 5, "rate": RATE, "deadline": DEADLINE, "boot_id": boot}, rows)
    server.process.terminate()
    server.process.wait(60)
    wait_for_helper(session)

    plain = analyse(read_session(session))
    analysis = with_requests(plain, read_requests(path))
    (report,) = analysis.requests
    response = report.measures[0]
    assert (report.count, report.failed, report.outside) == (COUNT, 0, 0)
    assert {m.name for m in report.measures} == {"response", "TTFT", "gap between chunks", "service", "TPOT"}
    # Touched are exactly those in whose time a full pass, or a long pause, lies.
    heavy = [
        (int(start), int(stop))
        for p in analysis.processes
        for start, stop, generation in zip(
            p.pauses.start, p.pauses.stop, p.series.passes["generation"], strict=True
        )
        if generation == 2 or stop - start > 5_000_000
    ]
    expected = [
        any(start < row["last"] and stop > row["intended"] for start, stop in heavy)
        for row in sorted(rows, key=lambda row: row["intended"])
    ]
    columns = report.columns
    assert columns.touched.tolist() == expected and 0 < sum(expected) < COUNT
    assert response.touched == sum(expected)
    assert np.all(columns.attributed <= columns.response)
    names = {share.process.split()[0] for share in response.shares}
    assert {"APIServer", "EngineCore"} <= names, names
    assert analysis.verdict.sentence == plain.verdict.sentence
    assert f"requests in requests.jsonl: {COUNT}" in "\n".join(analysis.verdict.lines)
