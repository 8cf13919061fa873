"""A gate's outcome as JUnit XML: one test case a check, as CI servers read it."""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as Tree
from collections import Counter
from collections.abc import Sequence

import numpy as np

from frostline.analysis.clock import clock
from frostline.analysis.model import Analysis
from frostline.gate.judge import HELD, Check
from frostline.gate.output import summary
from frostline.report.safe import safe


def junit(analysis: Analysis, checks: Sequence[Check], strict: bool) -> str:
    """The document: a check that fails is a ``failure``, one that is open is ``skipped`` with its reason.

    Of its times, all in seconds, the suite's is the length of the recording; a check takes none.
    """
    failed = [check.fails(strict) for check in checks]
    open_ = [check.outcome != HELD and not fails for check, fails in zip(checks, failed, strict=True)]
    counts = {
        "tests": str(len(checks)),
        "failures": str(sum(failed)),
        "errors": "0",
        "skipped": str(sum(open_)),
        "time": f"{(analysis.stop - analysis.start) / 1e9:.3f}",
    }
    root = Tree.Element("testsuites", counts)
    suite = Tree.SubElement(root, "testsuite", {"name": "frostline gate", **_began(analysis), **counts})
    names: Counter[str] = Counter()
    for check, fails, is_open in zip(checks, failed, open_, strict=True):
        where = {"classname": f"frostline.gate.{_text(check.role) or 'session'}"}
        # Without the pid: CI servers follow a case from run to run by its name.
        plain = f"{check.limit}: {check.role or check.process}"
        names[plain] += 1
        name = plain if names[plain] == 1 else f"{plain} #{names[plain]}"
        case = Tree.SubElement(suite, "testcase", {**where, "name": _text(name), "time": "0.000"})
        if fails or is_open:
            kind = "failure" if fails else "skipped"
            told = Tree.SubElement(case, kind, {"message": _text(summary(check)), "type": check.outcome})
            lines = [check.how]
            if check.worst is not None:
                lines += [f"worst: {check.worst.text}", *(f"do: {one}" for one in check.worst.todo)]
            told.text = "\n".join(_text(line) for line in lines if line)
        else:
            Tree.SubElement(case, "system-out").text = _text(summary(check))
    # Not Tree.indent: it leaves a cycle for the collector.
    for one in (root, suite):
        one.text = "\n"
    for one in (suite, *suite):
        one.tail = "\n"
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Tree.tostring(root, encoding="unicode") + "\n"


def _began(analysis: Analysis) -> dict[str, str]:
    """When the recording began, UTC in ISO 8601 without a zone, as the format wants it."""
    if not analysis.anchors:
        return {}
    unix = int(clock(analysis.anchors).unix(np.array([analysis.start]))[0])
    moment = datetime.datetime.fromtimestamp(unix // 1_000_000_000, datetime.timezone.utc)
    return {"timestamp": moment.replace(tzinfo=None).isoformat()}


def _text(text: str) -> str:
    """Without what XML cannot hold: titles of processes may hold anything."""
    return safe(text)
