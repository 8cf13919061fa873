"""What CI servers take for JUnit XML: elements, attributes, their types, and sums that are right."""

from __future__ import annotations

import re
import xml.etree.ElementTree as Tree

_COUNT, _SECONDS = re.compile(r"\d+"), re.compile(r"\d+\.\d{3}")
_ANY, _TIME = re.compile(r"(?s).+"), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_COUNTS = {"tests": _COUNT, "failures": _COUNT, "errors": _COUNT, "skipped": _COUNT, "time": _SECONDS}
#: Element -> (attributes it must have, those it may have, elements in it).
_ELEMENTS: dict[str, tuple[dict[str, re.Pattern[str]], dict[str, re.Pattern[str]], set[str]]] = {
    "testsuites": (_COUNTS, {}, {"testsuite"}),
    "testsuite": ({"name": _ANY, **_COUNTS}, {"timestamp": _TIME}, {"testcase"}),
    "testcase": (
        {"classname": _ANY, "name": _ANY, "time": _SECONDS}, {}, {"failure", "skipped", "system-out"},
    ),
    "failure": ({"message": _ANY, "type": _ANY}, {}, set()),
    "skipped": ({"message": _ANY, "type": _ANY}, {}, set()),
    "system-out": ({}, {}, set()),
}  # fmt: skip


def check(text: str) -> Tree.Element:
    """Fails where a reader would stumble; returns the suite."""
    root = Tree.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, inside = _ELEMENTS[element.tag]
        assert set(must) <= set(element.attrib) <= set(must) | set(may), element.attrib
        for name, value in element.attrib.items():
            assert {**must, **may}[name].fullmatch(value), (name, value)
        assert {one.tag for one in element} <= inside
        if inside:
            assert not (element.text or "").strip()
    (suite,) = root
    cases = list(suite)
    for element in (root, suite):
        assert int(element.attrib["tests"]) == len(cases)
        assert int(element.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(element.attrib["skipped"]) == sum(case.find("skipped") is not None for case in cases)
    assert all(len(case) == 1 for case in cases)
    names = [(case.attrib["classname"], case.attrib["name"]) for case in cases]
    assert len(set(names)) == len(names), "two cases of one name are one to a CI server"
    return suite
