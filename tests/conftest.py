"""Shared fixtures. Everything else lives beside the tests that use it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import interpreters

# No test of ours is timed: a busy machine is no failure.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

# A suite that is started in the background of a script inherits SIGINT ignored, and so would every
# target; what Ctrl-C does to them is among the things tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return "targets run on CPython " + ", ".join(map(str, interpreters.found()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line("targets ran on CPython " + ", ".join(map(str, interpreters.found())))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A developer who runs the suite under Frostline must not record it into their session."""
    for name in list(os.environ):
        if name.startswith("FROSTLINE_") and name != "FROSTLINE_PYTHONS":
            monkeypatch.delenv(name)
    yield


@pytest.fixture(autouse=True)
def _nothing_left_on_tmpfs(request: pytest.FixtureRequest) -> Iterator[None]:
    """A session that only the environment asked for keeps its live segments until somebody reports on it."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is None:
        return
    for place, folders, files in os.walk(folder):  # what goes away at this moment is passed over
        if "active" not in (*folders, *files):
            continue
        link = Path(place, "active")
        # The helper, at its end, may take it away at this moment.
        with contextlib.suppress(FileNotFoundError):
            if link.is_symlink() and link.readlink().name.startswith("frostline-"):
                shutil.rmtree(link.readlink(), ignore_errors=True)
