"""Small source trees, written and checked."""

from __future__ import annotations

import textwrap
from pathlib import Path

from frostline import checking
from frostline.checking import Config, Result

SERVE = "import uvicorn\ndef app(): ...\n"


def written(folder: Path, files: dict[str, str]) -> Path:
    """Writes files, each dedented; packages get their ``__init__.py`` from the dictionary alone."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def checked(folder: Path, files: dict[str, str], config: Config | None = None) -> Result:
    return checking.check(written(folder, files), config or Config())


def missing(result: Result) -> set[str]:
    """The entries that do not reach a call."""
    return {finding.entry for finding in result.findings if finding.slug == "unreached"}


def found(result: Result) -> set[tuple[str, str]]:
    """Kind and name of the entries."""
    return {(entry.kind, entry.name) for entry in result.entries}
