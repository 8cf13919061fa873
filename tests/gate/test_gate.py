"""The gate's rules, over recordings made of the format's tables: what holds, what breaks, what is open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.errors import FrostlineError
from frostline.format import host as layout
from frostline.gate import (
    Baseline,
    Budget,
    Check,
    configured,
    judge,
    junit,
    measure,
    read_baseline,
    text,
    with_option,
    workflow,
    write_baseline,
)
from frostline.gate.baseline import Garbage, family
from frostline.reach.hostlog import Log
from frostline.recording import read_session
from tests.gate.junit_schema import check as check_schema
from tests.synthetic import MS, Process

OPENED = 10**15
PID = 4711
HEX = {"3.15": 0x030F00F0, "3.14.2": 0x030E02F0}


def process(pid: int = PID, role: str = "Worker", **more: Any) -> Process:
    """Ten seconds; start-up is over after one."""
    one = Process(pid=pid, opened=OPENED + pid, words={"closed": OPENED + pid + 10_000 * MS}, **more)
    one.add_identity(role)
    one.add_mark(fmt.MARK_ATTACH, 0, tid=pid)
    one.add_mark(fmt.MARK_BOUNDARY, 1_000 * MS, a=1)
    return one


def analysed(folder: Path, *processes: Process) -> Analysis:
    for one in processes:
        one.write(folder)
    return analyse(read_session(folder))


def budget(**limits: str) -> Budget:
    found = Budget(since_serving=True)
    for name, value in limits.items():
        for one in value.split():
            found = with_option(found, name.replace("_", "-"), one)
    return found


def outcome(checks: tuple[Check, ...]) -> dict[str, str]:
    return {check.limit: check.outcome for check in checks}


def test_each_limit_is_held_and_broken_by_what_it_limits(tmp_path: Path) -> None:
    one = process(hexversion=HEX["3.15"])
    one.add_pass(500 * MS, 900 * MS, candidates=900_000)  # start-up's
    trigger = {"trigger_file": one.name("app.py"), "trigger_line": 12, "trigger_function": one.name("step")}
    one.add_pass(2_000 * MS, 80 * MS, candidates=700_000, tid=PID, **trigger)
    one.add_pass(3_000 * MS, 10 * MS, generation=1, candidates=900, collected=7)
    one.add_pass(4_000 * MS, 60 * MS, candidates=600_000, tid=PID, **trigger)
    one.add_pass(9_000 * MS, 95 * MS, candidates=1, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE)  # ours
    analysis = analysed(tmp_path, one)
    exact = {"max_pause": "80ms", "max_total": "1.67%", "max_walked": "700_000", "max_full": "2"}
    held = judge(analysis, budget(**exact))
    assert outcome(held) == dict.fromkeys(("max-pause", "max-total", "max-walked", "max-full"), "held")
    tight = {"max_pause": "79.9ms", "max_total": "1.66%", "max_walked": "699_999", "max_full": "1"}
    broken = judge(analysis, budget(**tight))
    assert outcome(broken) == dict.fromkeys(("max-pause", "max-total", "max-walked", "max-full"), "broken")
    for check in broken:
        assert check.worst is not None and check.process == f"Worker (pid {PID})"
        assert (check.worst.file, check.worst.line, check.worst.function) == ("app.py", 12, "step")
        assert "80 ms, automatic, triggered at app.py:12 in step, 1.00 s after start-up" in check.worst.text
        assert "walked 700,000 objects" in check.worst.text and check.worst.todo
    shown = "\n".join(text(broken, strict=False))
    assert "max-full: Worker (pid 4711): 2 full passes, 1 allowed" in shown and "gate failed: 4 of 4" in shown
    # From the start of the recording on, start-up's pass counts.
    (whole,) = judge(analysis, replace(budget(max_full="2"), since_serving=False))
    assert whole.outcome == "broken"


def test_what_is_unknown_is_open(tmp_path: Path) -> None:
    one = process()
    one.add_pass(2_000 * MS, 80 * MS, tid=PID)
    (check,) = judge(analysed(tmp_path, one), budget(max_walked="100"))
    assert check.outcome == "unknown" and "1 full ones" in check.how
    assert check.found == "what passes walked is known of none"


def test_increments_are_no_proof_that_there_was_no_full_pass(tmp_path: Path) -> None:
    one = process(hexversion=HEX["3.14.2"])
    one.add_pass(2_000 * MS, 5 * MS, generation=1)
    (check,) = judge(analysed(tmp_path, one), budget(max_full="0"))
    assert check.outcome == "unknown" and "increments" in check.how
    assert not check.fails(strict=False) and check.fails(strict=True)


def test_what_was_lost_cannot_have_held(tmp_path: Path) -> None:
    one = process()
    one.words["lost_passes"] = 3
    one.add_pass(2_000 * MS, 30 * MS)
    analysis = analysed(tmp_path, one)
    (check,) = judge(analysis, budget(max_pause="50ms"))
    assert check.outcome == "unknown" and "3 passes are not in the recording" in check.how
    (check,) = judge(analysis, budget(max_pause="20ms"))  # what is there is enough to break it
    assert check.outcome == "broken"


def test_roles_have_limits_of_their_own_and_one_that_is_gone_is_said(tmp_path: Path) -> None:
    core, worker = process(1, "EngineCore"), process(2, "Worker_TP1")
    for one in (core, worker):
        one.add_pass(2_000 * MS, 30 * MS)
    analysis = analysed(tmp_path, core, worker)
    found = judge(analysis, budget(max_pause="20ms EngineCore=50ms"))
    assert {c.role: c.outcome for c in found} == {"EngineCore": "held", "Worker_TP1": "broken"}
    found = judge(analysis, budget(max_pause="50ms worker=none", max_full="Gone=0"))
    assert [(c.limit, c.role, c.outcome) for c in found] == [
        ("max-pause", "EngineCore", "held"),
        ("role", "Gone", "unknown"),
    ]


def test_who_never_served_is_not_judged(tmp_path: Path) -> None:
    helper = Process(pid=7, opened=OPENED, words={"closed": OPENED + 10_000 * MS})
    helper.add_pass(2_000 * MS, 500 * MS)
    assert judge(analysed(tmp_path, helper), budget(max_full="0")) == ()


def sampled(folder: Path, one: Process, queue_ms: int, sleeps: int = 0) -> None:
    """Samples every 10 ms; in the pass from 2,000 to 2,100 ms the thread waits for a CPU for so long."""
    log = Log(str(folder), (2, one.opened))
    log.event("process 0", {"process": 0, "pid": PID, "start_ticks": 1, "fast": True, "cgroups": []})
    names = [name for name, _ in layout.PROCESS_FIELDS]
    cpu = queue = slept = 0
    for at in range(1_900, 2_210, 10):
        values = dict.fromkeys(names, 0) | {"main_cpu_us": cpu, "main_queue_us": queue, "voluntary": slept}
        log.round(one.opened + at * MS, True, [[(0, [values[name] for name in names])]])
        inside = 2_000 <= at < 2_000 + queue_ms
        cpu, queue = (cpu, queue + 10_000) if inside else (cpu + 10_000, queue)
        slept += sleeps
    log.close()


@pytest.mark.parametrize("sleeps", (0, 1))
def test_a_pause_that_waited_for_a_cpu_is_told_apart(tmp_path: Path, sleeps: int) -> None:
    one = process()
    one.add_pass(2_000 * MS, 100 * MS, tid=PID, thread=5)
    one.marks[0]["thread"] = 5
    sampled(tmp_path, one, 90, sleeps)
    analysis = analysed(tmp_path, one)
    (check,) = judge(analysis, budget(max_pause="20ms"))
    assert check.outcome == "preempted" and "90 ms at least in the run queue" in check.how
    assert not check.fails(strict=False)
    (total,) = judge(analysis, budget(max_total="0.5%"))
    assert total.outcome == "preempted"
    # 10 ms of its own are over a budget of 5.
    (check,) = judge(analysis, budget(max_pause="5ms"))
    assert check.outcome == "broken" and "host samples prove 90 ms of it" in check.how
    # The count does not care.
    (count,) = judge(analysis, budget(max_full="0"))
    assert count.outcome == "broken"


def test_without_samples_or_with_a_cpu_the_clock_is_believed(tmp_path: Path) -> None:
    for name, samples in (("none", False), ("busy", True)):
        folder = tmp_path / name
        folder.mkdir()
        one = process()
        one.add_pass(2_000 * MS, 100 * MS, tid=PID, thread=5)
        one.marks[0]["thread"] = 5
        if samples:
            sampled(folder, one, 0)
        (check,) = judge(analysed(folder, one), budget(max_pause="20ms"))
        assert check.outcome == "broken"
        assert ("prove 0 ms of it" if samples else "by the clock alone") in check.how


def test_another_threads_wait_excuses_nothing(tmp_path: Path) -> None:
    one = process()
    one.add_pass(2_000 * MS, 100 * MS, tid=99, thread=6)
    one.marks[0]["thread"] = 5
    sampled(tmp_path, one, 90)
    (check,) = judge(analysed(tmp_path, one), budget(max_pause="20ms"))
    assert check.outcome == "broken"


# --- cycles --------------------------------------------------------------------------------
def cyclic(pid: int, reclaimed: int, spans: int) -> Process:
    one = process(pid)
    one.add_pass(900 * MS, MS, generation=0, collected=10_000)  # start-up's own
    one.add_pass(1_001 * MS, MS, collected=5_000, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE)  # the boundary's
    one.add_mark(fmt.MARK_FREEZE, 1_003 * MS, flags=fmt.MARK_FLAG_OURS, a=1)
    one.add_pass(2_000 * MS, MS, generation=0, collected=reclaimed)
    one.add_mark(fmt.MARK_THAW, 9_000 * MS, flags=fmt.MARK_FLAG_OURS, a=1)
    one.add_pass(9_001 * MS, MS, collected=70_000, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE)
    for at in range(spans):
        one.add_span("step", (2_000 + at) * MS, MS // 2)
    return one


def test_only_what_the_program_made_while_it_served_is_garbage(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, cyclic(1, 0, 5))
    assert measure(analysis, True).roles == {"Worker": Garbage(0, 1, 5, 1)}
    (check,) = judge(analysis, replace(Budget(), no_new_cycles=True, since_serving=True))
    assert check.outcome == "held"


@pytest.mark.parametrize(("reclaimed", "spans", "expected"), (
    (110, 100, "held"), (111, 100, "broken"), (220, 200, "held"), (221, 200, "broken"), (56, 50, "broken"),
))  # fmt: skip
def test_garbage_is_held_to_the_baseline_by_the_work_done(
    tmp_path: Path, reclaimed: int, spans: int, expected: str
) -> None:
    file = tmp_path / "baseline.json"
    (tmp_path / "then").mkdir()
    (tmp_path / "now").mkdir()
    write_baseline(measure(analysed(tmp_path / "then", cyclic(1, 100, 100)), True), file)
    analysis = analysed(tmp_path / "now", cyclic(2, reclaimed, spans))
    wanted = replace(Budget(), no_new_cycles=True, since_serving=True)
    (check,) = judge(analysis, wanted, read_baseline(file, True))
    assert check.outcome == expected
    assert "100 for 100 spans then" in check.allowed
    if expected == "broken":
        assert check.worst is not None and "no_cycles" in " ".join(check.worst.todo)
    (check,) = judge(analysis, wanted)  # without one, nothing is allowed
    assert check.outcome == "broken"


def test_a_baseline_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    write_baseline(Baseline(True, {"Worker": Garbage(1, 2, 3, 4)}), file)
    assert read_baseline(file, True).roles == {"Worker": Garbage(1, 2, 3, 4)}
    with pytest.raises(FrostlineError, match="written with --since-serving"):
        read_baseline(file, False)
    for wrong in ("", "{}", "[]", '{"frostline_gate_baseline": 9}', file.read_text().replace("2", "-2")):
        (tmp_path / "wrong").write_text(wrong)
        with pytest.raises(FrostlineError, match="is no baseline") as caught:
            read_baseline(tmp_path / "wrong", True)
        assert caught.value.slug == "bad-baseline"


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 5))
def test_more_of_the_same_work_is_never_a_finding(reclaimed: int, work: int, times: int) -> None:
    base = Baseline(True, {"r": Garbage(reclaimed, 1, work, 1)})
    now = Garbage(reclaimed * times, 1, work * times, 1)
    if work or times == 1:
        assert now.reclaimed <= base.allowed("r", now, 0.1)
    assert base.allowed("another", now, 0.1) == 0


@pytest.mark.parametrize(("role", "expected"), (
    ("Worker dp0", "Worker"), ("Worker_TP1", "Worker"), ("SpawnProcess-7", "SpawnProcess"), ("h11", "h11"),
    ("EngineCore dp0 tp3", "EngineCore"), ("server.py", "server.py"), ("-3", "-3"), ("", ""),
    ("ForkPoolWorker-1", "ForkPoolWorker"), ("python3", "python3"),
))  # fmt: skip
def test_ranks_and_numbers_make_no_role_of_their_own(role: str, expected: str) -> None:
    assert family(role) == expected


def test_ranks_are_held_to_the_baseline_together(tmp_path: Path) -> None:
    found = []
    for name, ranks in (("then", (0, 1)), ("now", (5, 6, 7))):
        (tmp_path / name).mkdir()
        processes = [cyclic(rank + 1, 100, 50) for rank in ranks]
        for rank, one in zip(ranks, processes, strict=True):
            one.add_identity("Worker", rank)
        found.append(analysed(tmp_path / name, *processes))
    base = measure(found[0], True)
    assert base.roles == {"Worker": Garbage(200, 2, 100, 2)}
    wanted = replace(Budget(), no_new_cycles=True, since_serving=True)
    (check,) = judge(found[1], wanted, base)
    assert check.outcome == "held" and check.found.startswith("300 objects")


def test_how_many_passes_more_reclaimed_something_is_said(tmp_path: Path) -> None:
    one, other = process(1), process(2)
    for it, counts in ((one, (7, 0, 9)), (other, (3,))):
        for number, count in enumerate(counts):
            it.add_pass((2_000 + number) * MS, MS // 2, generation=0, collected=count)
    analysis = analysed(tmp_path, one, other)
    (check,) = judge(analysis, replace(Budget(), no_new_cycles=True, since_serving=True))
    assert check.found == "19 objects in cycles were reclaimed, by 4 passes"
    assert check.worst is not None and "reclaimed 9" in check.worst.text
    assert "reclaimed 9 (and 2 more)" in "\n".join(text((check,), strict=False))


# --- limits and configuration -----------------------------------------------------------------
@pytest.mark.parametrize(("name", "value"), (
    ("max-pause", "20"), ("max-pause", "-1ms"), ("max-pause", ""), ("max-total", "0.5"),
    ("max-total", "101%"),
    ("max-walked", "1.5"), ("max-full", "many"), ("max-full", "Engine=x"), ("max-full", "-1"),
))  # fmt: skip
def test_nonsense_is_refused(name: str, value: str) -> None:
    with pytest.raises(FrostlineError) as caught:
        with_option(Budget(), name, value)
    assert caught.value.slug == "bad-gate-limit" and caught.value.exit_code == 2


def test_the_configuration_is_the_nearest_and_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    (tmp_path / "below").mkdir()
    file.write_text(
        '[tool.frostline.gate]\nmax-pause = "20ms"\nmax-full = 0\nsince-serving = true\n'
        'baseline = "b.json"\nmargin = "25%"\n[tool.frostline.gate.roles.EngineCore]\nmax-pause = "1.5s"\n'
        'max-full = "none"\n'
    )
    found = configured(tmp_path / "below")
    assert found.since_serving and not found.no_new_cycles and found.margin == 0.25
    assert found.baseline == str(tmp_path / "b.json")
    assert (found.of("APIServer").max_pause, found.of("APIServer").max_full) == (20 * MS, 0)
    assert (found.of("EngineCore").max_pause, found.of("EngineCore").max_full) == (1_500 * MS, None)
    assert with_option(found, "max-pause", "5ms").of("EngineCore").max_pause == 1_500 * MS
    for wrong in (
        "max-pause = 20", "max-pauses = '1ms'", "max-full = true", "roles = 3", "strict = 1", "margin = '2'",
        "[tool.frostline.gate.roles.E]\nbaseline = ''", "baseline = 1", "max-total = 0.5",
    ):  # fmt: skip
        file.write_text(f"[tool.frostline.gate]\n{wrong}\n")
        with pytest.raises(FrostlineError) as caught:
            configured(tmp_path)
        assert caught.value.slug == "bad-gate-config"


# --- what others read -------------------------------------------------------------------------
def test_junit_and_annotations_survive_what_a_title_may_hold(tmp_path: Path) -> None:
    wild = "bad\x1b[31m\x00</testcase>,::error::%\n\u202e]]>"
    one, two = process(1, wild), process(2, wild)
    for it in (one, two):
        place = str(tmp_path / "a:b,c%.py")
        it.add_pass(2_000 * MS, 80 * MS, tid=it.pid, trigger_file=it.name(place), trigger_line=3)
    analysis = analysed(tmp_path, one, two)
    checks = judge(analysis, budget(max_pause="20ms 20ms", max_full="3"))
    suite = check_schema(junit(analysis, checks, strict=False))
    assert [len(list(case)) for case in suite] == [1] * 4 and suite.attrib["failures"] == "2"
    lines = list(workflow(checks, strict=False, root=tmp_path))
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable() and line.startswith("::error file=a%3Ab%2Cc%25.py,line=3,title=")
        head, _, message = line[2:].partition("::")
        assert head.count(",") == 2 and "%0A" in message
    for line in workflow(checks, strict=False, root=tmp_path / "elsewhere"):
        assert "file=" not in line.split("::")[1]  # GitHub would not find it


def test_what_is_open_is_a_warning_and_skipped_and_an_error_where_that_is_asked(tmp_path: Path) -> None:
    one = process(hexversion=HEX["3.14.2"])
    analysis = analysed(tmp_path, one)
    checks = judge(analysis, budget(max_full="0"))
    assert check_schema(junit(analysis, checks, strict=False)).attrib["skipped"] == "1"
    assert check_schema(junit(analysis, checks, strict=True)).attrib["failures"] == "1"
    assert next(workflow(checks, strict=False, root=tmp_path)).startswith("::warning ")
    assert next(workflow(checks, strict=True, root=tmp_path)).startswith("::error ")
    assert list(text(checks, strict=False))[-1].startswith("gate passed: 0 of 1 checks broken, 1 cannot tell")
    assert list(text(checks, strict=True))[-1].startswith("gate failed")
