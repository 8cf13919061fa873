"""The self-audit (``frostline.heap.audit``) in an interpreter that ``run`` would record, judged."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

from frostline.errors import FrostlineError
from frostline.reach import environment, session
from frostline.reach.fitness import OK, PROBLEM, Finding
from frostline.reach.launch import find
from frostline.reach.sealing import active_folder

_TIMEOUT = 120.0
_CODE = "from frostline.heap.audit import main; main()"


def examine(python: str, recorded: Callable[[str], tuple[int, int]]) -> list[Finding]:
    """The proofs, one finding each.

    Args:
        python: the interpreter's path or name.
        recorded: (passes, spans) in a session's folder, as the reader finds them.

    Raises:
        FrostlineError: ``not-found``, ``not-executable``, ``self-audit``.
    """
    program = find(python, environment.started_with())
    folder = tempfile.mkdtemp(prefix="frostline-doctor-")
    active = ""
    try:
        path, _ = session.prepare(folder)
        active = active_folder(path)
        settings = {"policy": "off", "presets": "none", "control": "on"}
        target = environment.for_target(path, "doctor", settings, environment.write_fallback(path))
        counted = _counted(program, target)
        return judge(counted, recorded(path))
    finally:
        if active and active.startswith("/dev/shm/frostline-"):
            shutil.rmtree(active, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _counted(program: str, variables: dict[str, str]) -> dict[str, Any]:
    try:
        ended = subprocess.run(
            [program, "-c", _CODE],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
        lines = ended.stdout.decode(errors="replace").strip().splitlines()
        counted = json.loads(lines[-1]) if lines and not ended.returncode else None
        why = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        counted, why = None, [str(error)]
    if not isinstance(counted, dict) or not counted.get("recording"):
        reason = "nothing is recorded there" if isinstance(counted, dict) else why[0]
        raise FrostlineError(
            "self-audit",
            f"{program}: the self-audit did not run: {os.fsdecode(reason)}",
            "frostline doctor --python PATH   says whether it can be recorded, and by which Frostline.",
        )
    return counted


def judge(counted: dict[str, Any], recorded: tuple[int, int]) -> list[Finding]:
    """Each proof with what was counted. A proof whose control was not caught is a problem as well."""
    passes, spans = recorded
    # Three rounds: one to warm up, one that is counted, and the few of the rest.
    done = 2 * (counted["young"] + counted["full"]), 2 * counted["spans"]
    many = f"{counted['young']:,} young and {counted['full']:,} full passes and {counted['spans']:,} spans"
    tickets = counted["tickets"]
    cycles, control = counted["cycles"], counted["cycles_control"]
    named = any("timed" in path for _, path in control["kinds"])
    return [
        _finding(
            passes >= done[0] and spans >= done[1],
            "at work",
            f"{passes:,} passes and {spans:,} spans of this audit are in its recording ({done[0]:,} and "
            f"{done[1]:,} at least were made)",
        ),
        _finding(
            not counted["more"] and counted["more_control"] >= tickets,
            "retains nothing",
            f"gc.get_objects() by type, before and after {many}: {_types(counted['more'])}. "
            f"Control: of {tickets} lists kept on purpose it sees {counted['more_control']}",
        ),
        _finding(
            not counted["alive"] and counted["alive_control"] == tickets,
            "dies at once",
            f"of {tickets} objects whose method was timed {counted['alive']} outlive their last user, by "
            f"weak references, the collector off. Control: of a hook with a cycle {counted['alive_control']}",
        ),
        _finding(
            not cycles["found"] and named,
            "makes no cycle",
            f"a saved pass after spans of every kind finds {cycles['found']} objects in cycles"
            f"{_paths(cycles)}. Control: of that hook it finds {control['found']:,}{_paths(control)}",
        ),
        _finding(
            counted["drift"] <= 0,
            "feeds no pass",
            f"net tracked allocations of {counted['few']} spans, by gc.get_count(): {counted['drift']}",
        ),
    ]


def _finding(good: bool, what: str, found: str) -> Finding:
    remedy = "" if good else "Report it, with this output and your Python's version: a defect of Frostline."
    return Finding(OK if good else PROBLEM, what, found, remedy)


def _types(more: dict[str, int]) -> str:
    return ", ".join(f"{many} more {name}" for name, many in more.items()) or "none more"


def _paths(cycles: dict[str, Any]) -> str:
    return "".join(f"; {many:,} x {path}" for many, path in cycles["kinds"]).replace(";", ":", 1)
