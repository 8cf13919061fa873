"""What a caller waits for over an RPC returns something (A2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline.checking import Config
from tests.checking.trees import checked

WORKER = "import frostline\nclass W:\n    def warm(self):\n{body}\n"


@pytest.mark.parametrize(
    ("call", "body", "reported"),
    [
        ("n = engine.collective_rpc('warm')", "        print()", True),
        ("n = await_(engine.collective_rpc('warm'))", "        return None", True),
        ("n = engine.collective_rpc('warm')", "        return 1", False),
        ("engine.collective_rpc('warm')", "        print()", False),
        ("engine.collective_rpc('warm')", "        frostline.startup_complete()", True),
        ("engine.collective_rpc('warm')", "        return frostline.startup_complete()", False),
        ("engine.collective_rpc('warm', non_block=True)", "        frostline.startup_complete()", False),
        ("n = engine.collective_rpc('other')", "        print()", False),
        ("n = engine.collective_rpc('warm')", "        raise NotImplementedError", False),
        ("n = engine.collective_rpc('warm')", "        yield 1", False),
        ("n = engine.collective_rpc('warm')", "        if n:\n            return 1\n        return", False),
        ("n = engine.collective_rpc('warm')", "        return\n        return 1", True),
    ],
)
def test_what_a_caller_waits_for_returns_something(
    tmp_path: Path, call: str, body: str, reported: bool
) -> None:
    files = {"worker.py": WORKER.format(body=body), "engine.py": f"def go(engine):\n    {call}\n"}
    result = checked(tmp_path, files)
    assert [finding.slug for finding in result.findings] == ["returns-nothing"] * reported
    if reported:
        (finding,) = result.findings
        assert (finding.path, finding.line) == ("worker.py", 3) and "engine.py:2" in finding.message


def test_rpc_names_are_configurable(tmp_path: Path) -> None:
    files = {
        "worker.py": WORKER.format(body="        frostline.startup_complete()"),
        "engine.py": "def go(e):\n    e.call('warm').get()\n",
    }
    assert not checked(tmp_path, files).findings
    assert len(checked(tmp_path, {}, Config(rpc=("call",))).findings) == 1
    assert not checked(tmp_path, {}, Config(rpc=())).findings
