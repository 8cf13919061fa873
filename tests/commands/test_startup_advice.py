"""What ``frostline startup`` advises, and its JSON (B12)."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

from frostline.analysis.frozen import Freeze
from frostline.analysis.model import Advice, FullPass, Walked
from frostline.analysis.passes import AUTOMATIC, EXPLICIT, FROSTLINE
from frostline.analysis.startup import Import, Passes, StartUp
from frostline.analysis.startupadvice import advise
from frostline.analysis.triggers import QUARTER
from frostline.report.blocks import plain
from frostline.report.startup import startup
from tests.commands.test_startup import PROGRAM, start_ups_of, under
from tests.interpreters import found
from tests.jsondoc import documented, keys

LATEST = found()[-1]
MS = 1_000_000


def changed(one: StartUp, *passes: tuple[str, int, int], walked: int = 800_000) -> StartUp:
    """The start-up with other figures for its full passes: kind, ms, objects reclaimed."""
    full = one.process.full_passes
    assert len(full) == len(passes) == len(one.full)
    told: list[FullPass] = [
        replace(
            before,
            kind=kind,
            pause=pause * MS,
            alone=pause * MS,
            reclaimed=reclaimed,
            walked=Walked(walked, True),
            why=QUARTER if kind == AUTOMATIC else "",
        )
        for before, (kind, pause, reclaimed) in zip(full, passes, strict=True)
    ]
    return replace(one, process=replace(one.process, full_passes=tuple(told)))


def texts(advice: tuple[Advice, ...]) -> list[str]:
    return [one.text for one in advice]


def test_advice_is_given_only_where_a_cost_was_measured(tmp_path: Path) -> None:
    """The first of two full passes runs in the import of tree.sub.deep, the second after all imports."""
    assert under(tmp_path, LATEST, PROGRAM).returncode == 3
    (one,) = start_ups_of(tmp_path)
    assert advise(changed(one, (EXPLICIT, 1, 0), (EXPLICIT, 1, 0))) == ()

    # Two lines that ask for passes which free nothing, and what the last one shows of all later ones.
    deep, mine, freeze = advise(changed(one, (EXPLICIT, 40, 0), (EXPLICIT, 30, 0)), "--ready-url URL")
    assert "deep.py:3 calls gc.collect() once in import of tree.sub.deep: 40 ms" in deep.text
    assert deep.text.endswith("It can be left out there") and deep.saving == 40 * MS
    assert "program.py:" in mine.text and mine.saving == 30 * MS
    assert "took 30 ms, walked 800,000 objects and reclaimed 0" in freeze.text
    assert freeze.command.startswith("frostline run --policy freeze --ready-url URL -- ")
    assert freeze.command.endswith("program.py") and freeze.saving is None

    # One that does work is not needless, and no freeze would spare it.
    deep, mine = advise(changed(one, (EXPLICIT, 40, 300_000), (EXPLICIT, 30, 300_000)))
    assert deep.saving is None and "names what it frees" in deep.text and "freeze" not in mine.command

    # The pause in warm-up, explained.
    warm_up, freeze = advise(changed(one, (AUTOMATIC, 1, 0), (AUTOMATIC, 69, 0)))
    assert "Outside of imports an automatic full pass took 69 ms, the longest 69 ms at" in warm_up.text
    assert "a quarter as much was new as the full pass before had left" in warm_up.text
    assert "frostline.startup_complete()" in warm_up.text and warm_up.saving == 69 * MS
    assert "took 69 ms" in freeze.text

    # Ours, at a boundary, is no news; and where a freeze has been made none is advised, nor a collect blamed.
    assert advise(changed(one, (EXPLICIT, 1, 0), (FROSTLINE, 69, 0))) == ()
    asked = changed(one, (EXPLICIT, 40, 0), (EXPLICIT, 30, 0))
    frozen = Freeze(asked.stop, "program", "program.py:30", None, "", False, None)
    process = replace(asked.process, frozen=replace(asked.process.frozen, freezes=(frozen,)))
    assert advise(replace(asked, process=process)) == ()


def test_the_imports_that_cost_most_are_named(tmp_path: Path) -> None:
    assert under(tmp_path, LATEST, "import tree.leaf").returncode == 0
    (one,) = start_ups_of(tmp_path)

    def module(name: str, pause: int) -> Import:
        passes = Passes([1, 0, 0], pause * MS, pause * MS, pause * MS, 7)
        return Import(name, one.start, one.stop, passes=passes, all_passes=passes)

    heavy = (module("torch.nn", 200), module("numpy", 90), module("os", 1), module("torch", 100))
    (advice,) = advise(replace(one, imports=heavy, phases=(), full=(), start=0, stop=10**9))
    assert (
        "Automatic passes took 391 ms of the 1.0 s inside imports (torch 300 ms, numpy 90 ms)" in advice.text
    )
    assert "28 objects" in advice.text and advice.saving == 391 * MS


def test_one_command_is_printed_once(tmp_path: Path) -> None:
    assert under(tmp_path, LATEST, PROGRAM).returncode == 3
    (one,) = start_ups_of(tmp_path)
    dear = changed(one, (EXPLICIT, 1, 0), (EXPLICIT, 30, 0))
    lines = list(plain(startup([dear, dear])))
    assert sum("frostline run --policy freeze" in line for line in lines) == 1
    assert sum("Each later one walks that again" in line for line in lines) == 2
    assert any("800,000" in line and "reclaimed" not in line for line in lines)  # walked, in the table


def test_the_json_is_whole_and_documented(tmp_path: Path) -> None:
    done = under(tmp_path, LATEST, PROGRAM, "--json")
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)
    assert any(line.startswith("[") for line in done.stderr.splitlines())  # what the program printed
    (process,) = told["processes"]
    modules = [row["module"] for row in process["imports"]]
    tree = modules.index("tree")
    deep = process["imports"][modules.index("tree.sub.deep")]
    assert deep["parent"] == tree and deep["own_passes"]["counts"][2] == 1
    assert [full["during"] for full in process["full_passes"]] == [
        "import of tree.sub.deep",
        "set-up and warm-up",
    ]
    assert process["full_passes"][0]["line"] == 3 and process["full_passes"][0]["kind"] == "explicit"
    assert process["took"] > 0 and process["objects_at_most"] > 40_000
    # Whether there is any advice depends on the machine.
    advice = {f"processes[].advice[].{one.name}" for one in fields(Advice)}
    assert keys(told) | advice == documented("startup")
