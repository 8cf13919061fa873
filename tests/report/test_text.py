"""The printed report: verdict first, safe to print, plain where it is piped."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.triggers import Forecast
from frostline.recording import read_session
from frostline.report import Block, Line, Table, plain, report, sidebyside, write
from frostline.report.safe import cell, safe
from frostline.report.words import forecast_words
from tests.synthetic import MS, Process, write_helper, write_run

EVIL = "\x1b]0;owned\x07\x1b[31m[bold red]x[/]\r\n\u202etxt"


def server(folder: Path, longest: int = 80, role: str = "EngineCore", frozen: bool = False) -> Analysis:
    folder.mkdir(exist_ok=True)
    process = Process()
    process.add_identity(role, 0)
    process.add_state(0, (3, 0, 0))
    for i in range(100):
        process.add_span("step", i * 10 * MS, 5 * MS)
    if frozen:
        process.add_mark(fmt.MARK_FREEZE, 1500 * MS, flags=fmt.MARK_FLAG_OURS, a=-1)
    for i in range(3):
        process.add_pass(2000 * MS + i * 500 * MS, longest * MS, trigger_file=process.name("/srv/app.py"))
        process.add_span("step", 2000 * MS + i * 500 * MS, (longest + 5) * MS)
    process.add_mark(fmt.MARK_COLLECT, 100 * MS, 10, file="x.py", a=2, flags=fmt.MARK_FLAG_SKIPPED)
    process.add_state(5000 * MS, (3, 0, 3), closing=True)
    process.write(folder)
    write_run(folder, ["uvicorn", "app:app"])
    return analyse(read_session(folder))


def test_short_processes_that_did_nothing_have_one_line(tmp_path: Path) -> None:
    """vLLM starts ten interpreters that try an import: its own rows were lost among theirs."""
    server(tmp_path)
    for i in range(4):
        one = Process(pid=5000 + i)
        one.add_identity("probe", -1)
        one.add_state(0, (1, 0, 0))
        one.add_pass(100 * MS, 2 * MS, 0)
        one.add_state(300 * MS, (2, 0, 0), closing=True)
        one.write(tmp_path)
    text = "\n".join(plain(report(analyse(read_session(tmp_path)))))
    assert "pid 500" not in text and "5 processes recorded" in text
    assert "and 4 short ones without a span (probe): none lived for 2 s, 4 passes, 8 ms in all" in text
    # One that stopped for long is no helper to leave out.
    one = Process(pid=6000)
    one.add_pass(100 * MS, 30 * MS, 2)
    one.write(tmp_path)
    text = "\n".join(plain(report(analyse(read_session(tmp_path)))))
    assert "python (pid 6000)" in text and "and 4 short ones" in text


def test_two_short_processes_are_few_enough_to_be_listed(tmp_path: Path) -> None:
    server(tmp_path)
    for i in range(2):
        one = Process(pid=5000 + i)
        one.add_pass(100 * MS, 2 * MS, 0)
        one.write(tmp_path)
    text = "\n".join(plain(report(analyse(read_session(tmp_path)))))
    assert "(pid 5000)" in text and "(pid 5001)" in text and "short ones" not in text


def test_missed_processes_of_one_command_and_reason_are_one_row(tmp_path: Path) -> None:
    server(tmp_path)
    argv = ["python", "-c", "pass"]
    one = {"python": True, "argv": argv, "missed": "sitecustomize", "detail": "/srv"}
    missed = [{"pid": 6000 + i, **one} for i in range(3)]
    write_helper(tmp_path, missed)
    lines = list(plain(report(analyse(read_session(tmp_path)))))
    rows = [line for line in lines if "sitecustomize" in line]
    assert len(rows) == 1 and "and 2 more" in rows[0]


@pytest.mark.parametrize(
    ("seconds", "rule", "words"),
    [
        (2.84, "threshold 2", "2.8 s at the recent rate; it waits for threshold 2"),
        (11_321.0, "quarter rule", "189 min at the recent rate; it waits for the quarter rule"),
        (90_000.0, "quarter rule", "25 h at the recent rate; it waits for the quarter rule"),
        (None, "threshold 2", "allocations; it waits for threshold 2"),
    ],
)
def test_when_the_next_full_pass_comes_in_words(seconds: float | None, rule: str, words: str) -> None:
    forecast = Forecast(93_926, seconds, rule, None, 0, 0, 0, 0)
    assert forecast_words(forecast).endswith(words)


def test_the_verdict_comes_first_and_the_rest_in_its_order(tmp_path: Path) -> None:
    lines = list(plain(report(server(tmp_path))))
    assert lines[0] == "The collector explains 3 of the 3 slow steps."
    assert lines[1].startswith("  It stopped EngineCore dp0 (pid 4711) 3 times, up to 80 ms: 240 ms in ")
    assert lines[2] == "Next: frostline run --policy freeze --ready-url URL -- uvicorn app:app"
    text = "\n".join(lines)
    order = ["Processes", "Passes", "Steps", "Slow steps", "Full passes", "Explicit gc.collect()", "Next"]
    places = [text.index("\n" + title + ("\n" if title == "Next" else "")) for title in order]
    assert places == sorted(places)
    assert "skipped: a pass was running" in text
    assert "EngineCore dp0 (pid 4711)" in text
    assert "/srv/app.py:0" in text


def test_unknown_walks_are_dashes_and_estimates_are_marked(tmp_path: Path) -> None:
    text = "\n".join(plain(report(server(tmp_path))))
    row = next(line for line in text.splitlines() if re.search(r"\(pid 4711\)\s+2\s+3 ", line))
    assert "<=" in row
    assert "<= gen 2: net container allocations" in text
    late = Process(pid=9)
    late.add_pass(10 * MS, 80 * MS)
    late.write(tmp_path)
    text = "\n".join(plain(report(analyse(read_session(tmp_path)))))
    row = next(line for line in text.splitlines() if re.search(r"\(pid 9\)\s+2\s+1 ", line))
    assert row.split()[-3:] == ["-", "0", "-"]


def test_missed_processes_are_listed_with_the_reason(tmp_path: Path) -> None:
    server(tmp_path)
    write_helper(
        tmp_path,
        [
            {
                "pid": 8,
                "python": True,
                "argv": ["python", "-S", "w.py"],
                "missed": "no-site",
                "detail": "started with -S",
            }
        ],
    )
    text = "\n".join(plain(report(analyse(read_session(tmp_path)))))
    assert re.search(r"w\.py \(pid 8\)\s+no-site\s+started with -S\s+python -S w\.py", text)
    assert "1 process recorded, 1 missed" in text


def test_what_a_target_calls_itself_cannot_reach_the_terminal(tmp_path: Path) -> None:
    process = Process(text=[("argv", EVIL.replace("\n", "\\n"))])
    process.add_identity(EVIL)
    process.add_span(EVIL, 10 * MS, 90 * MS)
    process.add_pass(10 * MS, 80 * MS, trigger_file=process.name(EVIL))
    process.write(tmp_path)
    write_helper(
        tmp_path, [{"pid": 8, "python": True, "argv": [EVIL], "missed": EVIL, "detail": EVIL, "title": EVIL}]
    )
    analysis = analyse(read_session(tmp_path))
    text = "\n".join(plain(report(analysis)))
    assert text.isascii() and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert "[bold red]x[/]" in text  # as it is: no markup
    drawn = on_a_terminal(analysis)
    without_styles = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert "\x1b" not in without_styles and "\x07" not in drawn and "\u202e" not in drawn
    assert "owned" in without_styles


def on_a_terminal(analysis: Analysis, columns: int = 0) -> str:
    """What a real terminal is sent."""
    return drawn_on_a_terminal(list(report(analysis)), columns)


def drawn_on_a_terminal(blocks: list[Block], columns: int = 0) -> str:
    parent, child = pty.openpty()
    if columns:
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(child, "w", encoding="utf-8") as stream:
        chunks: list[bytes] = []
        # A pseudo-terminal buffers 4 KiB: read while it is written.
        import threading

        def drain() -> None:
            try:
                while chunk := os.read(parent, 65536):
                    chunks.append(chunk)
            except OSError:
                return  # the other end is closed

        reader = threading.Thread(target=drain)
        reader.start()
        write(blocks, stream)
        stream.flush()
    reader.join()
    os.close(parent)
    return b"".join(chunks).decode()


def on_80_columns(blocks: list[Block], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = drawn_on_a_terminal(blocks, 80)
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r", "").split("\n")]


def busy(folder: Path) -> Analysis:
    """Numbers as large as those of a real server, long names, long command."""
    process = Process(pid=2635512)
    process.add_identity("vllm.model_executor.models.registry", 0)
    process.add_state(0, (3, 0, 0))
    for i in range(4436):
        process.add_span("execute model", i * 10 * MS, 5 * MS)
        process.add_pass(i * 10 * MS, MS // 20, 0, count0=2001)
    for i in range(14):
        process.add_pass(
            50_000 * MS + i * 2000 * MS, (560 + i) * MS, trigger_file=process.name("/srv/a/b.py")
        )
        process.add_span("execute model", 50_000 * MS + i * 2000 * MS, 600 * MS)
    process.write(folder)
    write_run(folder, ["vllm", "serve", "./model", *["--option-of-some-length"] * 9])
    return analyse(read_session(folder))


def test_80_columns_cut_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole columns may be left out, and say so; digits never (U27)."""
    blocks = list(report(busy(tmp_path)))
    lines = on_80_columns(blocks, monkeypatch)
    text = "\n".join(lines)
    checked = 0
    for block in blocks:
        if not isinstance(block, Table):
            continue
        title = re.search(re.escape(block.title) + r"([^)]*\))?", " ".join(text.split()))
        assert title is not None, block.title
        for i, column in enumerate(block.columns):
            shown = not (title[1] and re.search(rf"[:,] {re.escape(column)}[,)]", title[1]))
            if i in block.right and shown:
                for row in block.rows:
                    words = {word for line in lines for word in line.split()}
                    assert set(row[i].split()) <= words, (block.title, column, row[i])
                    checked += 1
    assert checked > 50
    commands = [line for line in lines if "--option-of-some-length" in line]
    assert commands[0].count("--option-of-some-length") == 9  # whole: it is there to be copied
    assert max(len(line) for line in lines if line not in commands) <= 80


def test_two_sessions_side_by_side_on_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = busy(tmp_path)
    lines = on_80_columns(list(sidebyside(stock, stock, ("stock", "freeze"))), monkeypatch)
    text = "\n".join(lines)
    assert re.search(r"slow 'execute model' +14 of 4,450 +14 of 4,450", text), text
    assert re.search(r"by the collector +14 +14", text)
    assert re.search(r"full passes +14 in 7,931\.0 ms +14 in 7,931\.0 ms", text)
    assert text.count("14 times for over 20 ms") == 2 and text.count("waited for it") == 2


def test_a_heap_that_was_thawed_at_the_very_end_does_not_look_unfrozen(tmp_path: Path) -> None:
    """U18: shutdown() thaws last."""
    process = Process()
    process.add_state(0, (3, 0, 0))
    process.add_mark(fmt.MARK_FREEZE, 1000 * MS, flags=fmt.MARK_FLAG_OURS, a=100_000)
    process.add_mark(fmt.MARK_THAW, 9000 * MS, flags=fmt.MARK_FLAG_OURS, a=100_000)
    process.add_state(9001 * MS, (3, 0, 3), closing=True)
    process.write(tmp_path)
    lines = list(plain(report(analyse(read_session(tmp_path)))))
    assert any(re.search(r" close .* 0 \(thawed\)", line) for line in lines)
    assert not any(re.search(r" attach .*thawed", line) for line in lines)


def test_columns_that_hold_nothing_are_left_out_if_they_may_be() -> None:
    table = Table("t", ("a", "b", "c"), (("1", "", ""),), spare=("b",))
    assert list(plain([table])) == ["", "t", "  a  c", "  1"]


def test_a_terminal_gets_colour_and_no_color_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    analysis = server(tmp_path)
    assert "\x1b[" in on_a_terminal(analysis)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in on_a_terminal(analysis)


def test_a_pipe_gets_plain_lines_of_any_width(tmp_path: Path) -> None:
    stream = io.StringIO()
    analysis = server(tmp_path)
    write(report(analysis), stream)
    text = stream.getvalue()
    assert text.isascii() and "\x1b" not in text
    assert text == "\n".join(plain(report(analysis))) + "\n"


@given(st.text())
def test_safe_text_is_printable_and_plain_ascii_stays(text: str) -> None:
    shown = safe(text)
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert safe(text, ascii_only=True).isascii()
    if text.isascii() and text.isprintable():
        assert shown == text


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@x", "=\x1bx"])
def test_a_cell_is_no_formula(text: str) -> None:
    assert cell(text).startswith("'")


def test_columns_line_up() -> None:
    table = Table("t", ("a", "long name"), (("x", "1"), ("yyyy", "100")), frozenset((1,)))
    assert list(plain([table, Line("z", indent=2)])) == [
        "",
        "t",
        "  a     long name",
        "  x             1",
        "  yyyy        100",
        "  z",
    ]


def test_two_sessions_side_by_side(tmp_path: Path) -> None:
    stock = server(tmp_path / "a")
    frozen = server(tmp_path / "b", longest=2, frozen=True)
    text = "\n".join(plain(sidebyside(stock, frozen, ("stock", "freeze"))))
    assert "stock: the collector explains 3 of the 3 slow steps." in text
    assert "freeze: not the collector: none of the 103 steps recorded takes over 20 ms." in text
    assert re.search(r"EngineCore dp0\s+longest pause\s+80\.0 ms\s+2\.00 ms", text)
    assert re.search(r"full passes\s+3 in 240\.0 ms\s+3 in 6\.00 ms", text)
    assert "One run of each" in text


def test_a_process_that_is_in_one_session_only_is_shown_as_such(tmp_path: Path) -> None:
    one = server(tmp_path / "a", role="EngineCore")
    other = server(tmp_path / "b", role="Worker")
    text = "\n".join(plain(sidebyside(one, other, ("a", "b"))))
    assert re.search(r"Worker dp0\s+longest pause\s+-\s+80\.0 ms", text)


def test_long_lists_of_the_same_are_cut_and_paths_begin_at_the_library(tmp_path: Path) -> None:
    """R6: a batch of requests that waited in one stall pushes nothing out."""
    process = Process()
    base = "/opt/venv/lib/python3.11"
    trigger = process.name(f"{base}/site-packages/pkg/entry.py")
    process.add_mark(fmt.MARK_COLLECT, 0, MS, file=f"{base}/re/_parser.py", line=7, a=2, c=1)
    for i in range(100):
        process.add_span("request", i * 10 * MS, 30 * MS, kind=fmt.SPAN_ASYNC)
        process.add_span("step", i * 10 * MS, MS)
    for i in range(30):
        process.add_span("request", 3000 * MS + i, 900 * MS, kind=fmt.SPAN_ASYNC)
    process.add_span("step", 3000 * MS, 80 * MS)
    process.add_pass(3000 * MS, 70 * MS, trigger_file=trigger, trigger_line=3)
    process.write(tmp_path)
    lines = list(plain(report(analyse(read_session(tmp_path)))))
    at = lines.index("Slow steps: the 6 longest of 31, at most 5 of a label")
    rows = lines[at + 2 : at + 8]
    assert [" request " in row for row in rows] == [True] * 5 + [False]
    assert all("triggered at pkg/entry.py:3" in row for row in rows)
    assert any("  re/_parser.py:7  " in line for line in lines)
    assert not any("/opt/venv" in line for line in lines)


def test_one_footnote_for_a_generation(tmp_path: Path) -> None:
    """R12: of two processes, one has a pass too quick for its estimate."""
    for pid in (10, 11):
        process = Process(pid=pid)
        process.add_state(0, (3, 0, 0))
        for i in range(600):
            process.add_pass(i * MS // 10, MS // 20, 0, count0=1000)
        for i in range(20):
            took = MS // 1000 if pid + i == 11 + 5 else 60 * MS
            # Asked for: CPython starts none by itself so soon after another.
            process.add_pass(1000 * MS + i * 100 * MS, took, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
        process.write(tmp_path)
    lines = list(plain(report(analyse(read_session(tmp_path)))))
    (line,) = [line for line in lines if line.startswith("  <= gen 2: ")]
    assert line.endswith("; 2 of 40 passes are unknown and not in the sums")


def test_the_top_says_what_to_do_and_who_else_was_stopped(tmp_path: Path) -> None:
    first = Process()
    for pid in range(3):
        process = Process(pid=10 + pid, opened=first.opened + pid)
        process.add_identity("Worker", pid)
        for i in range(100):
            process.add_span("request", i * 50 * MS, 200 * MS, kind=fmt.SPAN_ASYNC)
        process.add_pass(3000 * MS, (300 + pid) * MS)
        process.write(tmp_path)
    write_run(tmp_path, ["serve"])
    lines = list(plain(report(analyse(read_session(tmp_path)))))
    assert lines[0] == "The collector stopped Worker dp2 (pid 12) once, for 302 ms."
    assert lines[1].startswith("  302 ms in 5.2 s (5.9 %) while work was in flight; ")
    assert lines[2].startswith("  It also stopped Worker dp1 (pid 11) once, for 301 ms in ")
    assert lines[3].startswith("  It also stopped Worker dp0 (pid 10) once, for 300 ms in ")
    assert lines[4] == "Next: frostline run --policy freeze --ready-url URL -- serve"


def test_one_slow_request_and_a_worker_that_ended_by_a_signal(tmp_path: Path) -> None:
    process = Process()
    for i in range(20):
        process.add_span("request", i * 100 * MS, (90 if i == 3 else 5) * MS, kind=fmt.SPAN_ASYNC)
    process.add_pass(1 * MS, MS, 0)
    process.write(tmp_path)
    text = "\n".join(plain(report(analyse(read_session(tmp_path)))))
    assert "Not the collector: no pass explains the slow request." in text
    assert "no close recorded: it ended by a signal or by os._exit()" in text
    process.words["closed"] = process.opened + 5000 * MS
    process.write(tmp_path)
    assert "os._exit()" not in "\n".join(plain(report(analyse(read_session(tmp_path)))))
