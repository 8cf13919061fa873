"""Flags of an embedding server (C3, A1, A4): argparse, click, the environment, the children."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import frostline
from tests.embed.hosts import run, said
from tests.interpreters import Interpreter, every_interpreter

NONSENSE_MS = [
    "-1",
    "",
    " ",
    "1e9",
    "9" * 400,
    "abc",
    "nan",
    "inf",
    "-inf",
    "3600001",
    "1_0",
    "٣",
    "1.2.3",
    ".",
]
NONSENSE_SWITCH = ["", "2", "maybe", "-1", "nan", "9" * 400]
NONSENSE_THRESHOLDS = ["", "1", "1,2", "-1,2,3", "a,b,c", "1,2,nan", "9" * 40 + ",1,1", "1,2,3,4"]


def parsed(*words: str, **keywords: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    assert frostline.add_arguments(parser, **keywords) is parser
    return parser.parse_args(list(words))


def test_defaults_and_forms() -> None:
    plain = parsed()
    assert (plain.freeze_gc_heap, plain.gc_thresholds, plain.gc_pause_log_ms) == (True, None, 0.0)
    assert parsed("--no-freeze-gc-heap").freeze_gc_heap is False
    assert parsed(freeze=False).freeze_gc_heap is False
    assert parsed("--freeze-gc-heap", freeze=False).freeze_gc_heap is True
    assert parsed("--gc-pause-log-ms", "2.5").gc_pause_log_ms == 2.5
    assert parsed("--gc-thresholds=700,10,1000").gc_thresholds == "700,10,1000"


def test_the_environment_has_the_prefix_and_the_command_line_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYN_FREEZE_GC_HEAP", "off")
    monkeypatch.setenv("DYN_GC_PAUSE_LOG_MS", "40")
    assert parsed(prefix="OTHER").freeze_gc_heap is True
    told = parsed(prefix="DYN")
    assert (told.freeze_gc_heap, told.gc_pause_log_ms) == (False, 40.0)
    told = parsed("--freeze-gc-heap", "--gc-pause-log-ms", "0", prefix="DYN_")
    assert (told.freeze_gc_heap, told.gc_pause_log_ms) == (True, 0.0)


CASES = [
    *[("gc_pause_log_ms", value, "milliseconds from 0 (off)") for value in NONSENSE_MS],
    *[("freeze_gc_heap", value, "1, true, yes, on or 0, false, no, off") for value in NONSENSE_SWITCH],
    *[("gc_thresholds", value, "threshold") for value in NONSENSE_THRESHOLDS],
]


@pytest.mark.parametrize(("dest", "value", "meant"), CASES, ids=lambda value: value[:12])
def test_nonsense_is_refused_with_what_was_meant(
    dest: str, value: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flag = "--" + dest.replace("_", "-")
    takes_a_value = dest != "freeze_gc_heap"
    if takes_a_value:
        with pytest.raises(SystemExit) as ended:
            parsed(f"{flag}={value}")
        assert ended.value.code == 2
        said_once(capsys.readouterr().err, flag, meant)
        result = CliRunner().invoke(click_server(), [f"{flag}={value}"])
        assert result.exit_code == 2
        said_once(result.output, flag, meant)
    with pytest.raises(ValueError, match=r"freeze|gc-") as refused:
        frostline.apply({dest: value})
    assert meant in str(refused.value)
    monkeypatch.setenv(f"DYN_{dest.upper()}", value)
    with pytest.raises(SystemExit):
        parsed(prefix="DYN")
    words = capsys.readouterr().err
    assert f"DYN_{dest.upper()}" in words and meant in words
    result = CliRunner().invoke(click_server(prefix="DYN"), [])
    assert result.exit_code == 2 and meant in unwrapped(result.output), result.output
    assert f"DYN_{dest.upper()}" in result.output
    with pytest.raises(ValueError, match=f"DYN_{dest.upper()}"):
        frostline.apply(prefix="DYN")


def said_once(words: str, flag: str, meant: str) -> None:
    """argparse and click name the flag themselves; and no other grammar's example stands behind it."""
    error = unwrapped(words[words.lower().rindex("error: ") :])
    assert meant in error and error.count(flag) == 1, words
    assert "tune:" not in error and ("700,10,1000" in error or flag != "--gc-thresholds" or "9999" in error)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def click_server(**keywords: Any) -> click.Command:
    @click.command()
    @click.option("--port", default=1)
    def serve(**values: Any) -> None:
        click.echo(repr([values[name] for name in ("freeze_gc_heap", "gc_thresholds", "gc_pause_log_ms")]))

    command: click.Command = frostline.add_arguments(serve, **keywords)
    assert command is serve
    return command


@pytest.mark.parametrize("form", ["command", "group", "decorator", "factory"])
def test_click(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(freeze_gc_heap: bool, gc_thresholds: str | None, gc_pause_log_ms: float) -> None:
        click.echo(repr([freeze_gc_heap, gc_thresholds, gc_pause_log_ms]))

    command: click.Command
    if form == "command":
        command = frostline.add_arguments(click.command()(serve), prefix="DYN")
    elif form == "group":
        command = frostline.add_arguments(click.group(invoke_without_command=True)(serve), prefix="DYN")
    elif form == "decorator":
        command = click.command()(frostline.add_arguments(serve, "DYN"))
    else:
        command = click.command()(frostline.add_arguments(prefix="DYN")(serve))

    def ran(*words: str) -> str:
        result = CliRunner().invoke(command, list(words))
        assert result.exit_code == 0, result.output
        return result.output.strip()

    assert ran() == "[True, None, 0.0]"
    assert (
        ran("--no-freeze-gc-heap", "--gc-pause-log-ms", "5", "--gc-thresholds", "1,2,3")
        == "[False, '1,2,3', 5.0]"
    )
    monkeypatch.setenv("DYN_FREEZE_GC_HEAP", "0")
    monkeypatch.setenv("DYN_GC_PAUSE_LOG_MS", "7")
    assert ran() == "[False, None, 7.0]"
    assert ran("--freeze-gc-heap", "--gc-pause-log-ms=0") == "[True, None, 0.0]"
    help_text = unwrapped(ran("--help"))
    assert "--freeze-gc-heap / --no-freeze-gc-heap" in help_text and "DYN_GC_PAUSE_LOG_MS" in help_text


def test_other_parsers_are_refused() -> None:
    with pytest.raises(TypeError, match="argparse parser or a click command"):
        frostline.add_arguments(3)


def test_a_group_of_arguments_and_a_subparser() -> None:
    parser = argparse.ArgumentParser()
    serve = parser.add_subparsers().add_parser("serve")
    frostline.add_arguments(serve.add_argument_group("collector"))
    assert parser.parse_args(["serve", "--no-freeze-gc-heap"]).freeze_gc_heap is False


SERVER = """
import argparse, gc, json, multiprocessing, os, sys
import frostline

def child(pipe):
    frostline.install(role="Worker", policy="freeze,thresholds=1/2/3")
    from frostline.policy import engine
    log = sys.modules.get("frostline.embed.pauses")
    frozen = frostline.startup_complete()
    pipe.send((engine.in_force(), gc.get_threshold(), bool(frozen),
               log._installed.threshold_ms if log and log._installed else 0))

if __name__ == "__main__":
    stock = gc.get_threshold()
    parser = argparse.ArgumentParser()
    frostline.add_arguments(parser, prefix="DYN")
    parser.add_argument("--method")
    chosen = parser.parse_args()
    print(frostline.apply(chosen, role="APIServer"))
    context = multiprocessing.get_context(chosen.method)
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    policy, thresholds, frozen, log = ours.recv()
    process.join()
    print(policy, "stock" if thresholds == stock else thresholds, frozen, log)
    print(bool(frostline.startup_complete()), "stock" if gc.get_threshold() == stock else gc.get_threshold())
"""


@every_interpreter
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_choice_reaches_every_child(interpreter: Interpreter, method: str, tmp_path: Path) -> None:
    """A1, A4: what a child's own ``install`` says is overruled by the flags, those by the operator."""

    def ran(*words: str, **settings: str) -> list[str]:
        return said(run(interpreter, tmp_path, SERVER, "--method", method, *words, **settings))

    assert ran("--gc-pause-log-ms", "50000") == ["freeze", "freeze stock True 50000.0", "True stock"]
    assert ran("--no-freeze-gc-heap") == ["off", "off stock False 0", "False stock"]
    if method != "spawn":
        return
    assert ran("--no-freeze-gc-heap", "--gc-thresholds", "701,11,12") == [
        "tune:701,11,12",
        "tune:701,11,12 (701, 11, 12) False 0",
        "False (701, 11, 12)",
    ]
    assert ran("--gc-thresholds", "701,11,12", DYN_FREEZE_GC_HEAP="yes")[0] == "freeze,thresholds=701/11/12"
    told = ran("--no-freeze-gc-heap", FROSTLINE_POLICY="tune:702,11,12")
    assert told == ["off", "tune:702,11,12 (702, 11, 12) False 0", "False (702, 11, 12)"]


def test_nothing_is_loaded_until_it_is_called_for(tmp_path: Path) -> None:
    program = (
        "import sys, frostline; frostline.install(role='x'); "
        "print(*{'argparse', 'click', 'logging', 'frostline.embed'}.intersection(sys.modules))"
    )
    assert said(run(None, tmp_path, program)) == [""]
