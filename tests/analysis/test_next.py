"""What the report says to type next: it can be pasted, it fits the program, it is no contradiction."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.analysis import Advice, analyse
from frostline.analysis.commands import one_at_a_time
from frostline.recording import read_session
from tests.synthetic import MS, Process, write_helper, write_run

S = 1000 * MS


def advice(folder: Path, command: list[str], *processes: Process) -> list[Advice]:
    for process in processes:
        process.write(folder)
    write_run(folder, command)
    return list(analyse(read_session(folder)).advice)


def static_heap(spans: bool = False) -> Process:
    process = Process()
    process.add_state(0, (3, 0, 0))
    for i in range(3):
        process.add_pass((1 + i) * S, 100 * MS)
    for i in range(100 if spans else 0):
        process.add_span("request", 500 * MS + i * 10 * MS, 5 * MS, kind=fmt.SPAN_ASYNC)
    return process


@pytest.mark.parametrize(
    ("command", "spans", "when"),
    [
        (["python", "g.py"], False, "--ready-after 1s"),  # a quarter of its four seconds
        (["python", "serve.py"], True, "--ready-url URL"),
        (["python3", "-m", "uvicorn", "app:app"], False, "--ready-url URL"),
        (["uvicorn", "app:app"], False, "--ready-url URL"),
        (["celery", "-A", "tasks", "worker"], False, ""),
        (["python", "-m", "celery", "-A", "tasks", "worker"], True, ""),
    ],
)
def test_a_script_has_no_url_to_ask(tmp_path: Path, command: list[str], spans: bool, when: str) -> None:
    """U9."""
    first = advice(tmp_path, command, static_heap(spans))[0]
    assert first.command.startswith(f"frostline run --policy freeze {when} -- ".replace("  ", " "))
    assert ("frostline.startup_complete()" in first.text) is (when == "--ready-after 1s")


def test_what_was_timed_is_timed_again(tmp_path: Path) -> None:
    """Else the next recording had no step to say what the policy was worth."""
    asked = ("core:Engine.step=engine step batch=len(args[1])", "__main__:work")
    static_heap(False).write(tmp_path)
    write_run(tmp_path, ["python", "g.py"], spans=";".join(asked))
    first = analyse(read_session(tmp_path)).advice[0]
    words = shlex.split(first.command)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--span"] == list(asked)
    assert words[words.index("--") :] == ["--", "python", "g.py"]


def test_who_was_started_by_another_command_is_told_that_one_too(tmp_path: Path) -> None:
    """A front end and its workers are two commands (Dynamo): the one does not reach the other."""
    worker, front = static_heap(), static_heap()
    front.pid = 5000
    worker.add_pass(4 * S, 200 * MS)  # which makes it the first
    write_run(tmp_path, ["front", "--port", "8000"], pid=5000)
    for process in (worker, front):
        process.write(tmp_path)
    write_run(tmp_path, ["worker"], pid=4711)
    found = [one for one in analyse(read_session(tmp_path)).advice if "--policy" in one.command]
    assert [one.command.rpartition(" -- ")[2] for one in found] == ["worker", "front --port 8000"]
    assert found[1].text.startswith("the same for python (pid 5000)")
    policies = {one.command.split()[3] for one in found}
    assert len(policies) == 1


def test_what_the_first_policy_does_already_is_not_asked_for_again() -> None:
    """vLLM: freeze its worker, with rare full passes, and give its front end the same thresholds."""
    run = "frostline run --policy"
    found = [
        Advice("a", f"{run} freeze,thresholds=700/10/1000 -- vllm"),
        Advice("b", f"{run} tune:700,10,1000 -- vllm"),
        Advice("c", f"{run} follow -- vllm"),
    ]
    first, second, third = one_at_a_time(found)
    assert first == found[0]
    assert (second.text, second.command) == ("b. freeze,thresholds=700/10/1000 does that, too", "")
    assert third.text == (
        "c. One at a time: first freeze,thresholds=700/10/1000, then follow if it is still needed"
    )


@pytest.mark.parametrize("module", ["uvicorn.protocols.http.h11_impl", "vllm.v1.engine.core", "mine.core"])
def test_where_an_integration_tells_the_boundary_no_url_is_asked_for(tmp_path: Path, module: str) -> None:
    process = static_heap(spans=True)
    target, label = process.name(f"{module}:Class.method"), process.name("request")
    process.add_mark(fmt.MARK_WRAPPED, 10 * MS, a=target, b=label)
    first = advice(tmp_path, ["serve"], process)[0]
    assert ("--ready-url" in first.command) is (module == "mine.core")


@pytest.mark.parametrize("command", [["uvicorn", "app:app"], ["celery", "worker"], ["python", "g.py"]])
@pytest.mark.parametrize("at", [5 * MS, 0])
def test_how_ready_was_told_is_how_it_is_told_again(tmp_path: Path, command: list[str], at: int) -> None:
    """The session knows the URL; one that never answered is no advice."""
    option = "--ready-url 'http://127.0.0.1:8000/health?a=1&b'"
    ready = {"kind": "url", "at_ns": at, "detail": "it answered 200", "option": option}
    write_helper(tmp_path, [], ready=ready)
    first = advice(tmp_path, command, static_heap())[0]
    assert first.command.startswith(f"frostline run --policy freeze {option} -- ") is bool(at)
    assert ("URL" in first.command) is (not at and command[0] == "uvicorn")


def test_one_explicit_collect_is_nothing_to_freeze_for(tmp_path: Path) -> None:
    """U9."""
    process = Process()
    process.add_pass(1 * S, 25 * MS, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    process.add_pass(5 * S, 1 * MS, 0)
    assert not any("--policy freeze" in one.command for one in advice(tmp_path, ["python", "g.py"], process))


def test_a_command_of_several_lines_can_be_pasted(tmp_path: Path) -> None:
    """U22."""
    words = ["python", "-c", "\ndef work():\n\tprint('a\\\\b', \"\u00e9\")\n", "--x", "it's", "\x07"]
    text = advice(tmp_path, words, static_heap())[0].command
    assert text.isprintable() and text.isascii()
    after = text.partition(" -- ")[2]
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {after}"], capture_output=True, timeout=60)
    assert done.stdout.decode().split("\0")[:-1] == words


def test_who_lived_for_a_moment_has_no_share(tmp_path: Path) -> None:
    """U8: a shell and what it became, 20 ms each, a quarter of that in a pass at start."""
    process = Process(words={})
    process.add_pass(5 * MS, 2 * MS, 0)
    process.add_mark(fmt.MARK_CLOSE, 20 * MS)
    texts = [one.text for one in advice(tmp_path, ["sh", "-c", "x"], process)]
    assert "a freeze gains nothing here: the longest pause is 2 ms" in texts


@pytest.mark.parametrize(
    ("policy", "command"),
    [
        ("periodic:1s", "--policy periodic:1s,thresholds=5000/10/10 --ready-url URL --"),
        ("idle,deadline=5s", "--policy idle,deadline=5s,thresholds=5000/10/10 --ready-url URL --"),
        ("follow,thresholds=700/10/9", "--policy follow,thresholds=5000/10/10 --ready-url URL --"),
        ("tune:700,10,9", "--policy tune:5000,10,10 --"),
    ],
)
def test_the_advice_on_young_passes_keeps_the_policy(tmp_path: Path, policy: str, command: str) -> None:
    process = Process(text=[("policy", policy)])
    process.add_state(0, (3, 0, 0))
    for i in range(20):
        process.add_span("request", i * 200 * MS, 50 * MS, kind=fmt.SPAN_ASYNC)
        process.add_pass(i * 200 * MS, 40 * MS, i % 2)
    (young,) = [one for one in advice(tmp_path, ["serve"], process) if "young passes take" in one.text]
    assert command in young.command


@pytest.mark.parametrize(("each", "told"), [(40, True), (2, False)])
def test_young_passes_that_take_much_of_the_time_get_advice(tmp_path: Path, each: int, told: bool) -> None:
    """U10: json.loads of much nested data."""
    process = Process()
    process.add_state(0, (3, 0, 0))
    for i in range(20):
        process.add_span("request", i * 200 * MS, 50 * MS, kind=fmt.SPAN_ASYNC)
        process.add_pass(i * 200 * MS, each * MS, i % 2)
    found = advice(tmp_path, ["uvicorn", "app:app"], process)
    young = [one for one in found if "young passes take" in one.text]
    assert bool(young) is told
    if told:
        assert young[0].command == "frostline run --policy tune:5000,10,10 -- uvicorn app:app"
        assert "frostline.defer()" in young[0].text and "up to 40 ms" in young[0].text
        assert (
            "The price: dead cycles hold up to 55,000 objects until a pass of generation 1" in young[0].text
        )
