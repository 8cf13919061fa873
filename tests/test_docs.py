"""The documents say what the code says: message slugs, the format, both commands, no path of a machine."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.typed import lines, wrong

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "frostline"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: Calls whose first argument is a slug.
RAISES = {"FrostlineError", "usage", "Loss", "add", "Doubt"}


def slugs_in_code() -> set[str]:
    """Every slug that the code can print."""
    from frostline.reach.missed import REASONS

    found = set(REASONS)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            first = node.args[0]
            if name not in RAISES or not isinstance(first, ast.Constant) or not isinstance(first.value, str):
                continue
            if name == "add" and len(node.args) < 3:
                continue  # a set's
            if re.fullmatch(r"[a-z][a-z0-9-]+", first.value):
                found.add(first.value)
    return found


def documented() -> set[str]:
    """The names in the first column of docs/messages.md."""
    rows = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "docs/messages.md").read_text(), re.M)
    return {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}


def test_every_message_is_documented() -> None:
    assert slugs_in_code() - documented() == set()


def test_no_message_is_documented_that_nothing_can_say() -> None:
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    literals = set(re.findall(r"""["']([a-z0-9_-]+)["']""", source))
    spoken = literals | {word.replace("_", "-") for word in literals}
    assert documented() - spoken == set()


def test_no_message_sends_to_a_file_that_an_installed_frostline_does_not_have() -> None:
    """``frostline explain`` shows the documents everywhere. Docstrings are for those who read the source."""
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                assert not re.search(r"docs/[\w/-]+\.md", node.value), f"{path}:{node.lineno}"


def test_the_format_is_described_as_it_is() -> None:
    from frostline.format.describe import describe

    assert (ROOT / "docs/format.md").read_text() == describe(), "run `make docs`"


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_the_two_commands(command: str) -> None:
    assert command in (ROOT / "README.md").read_text()


def anchors(page: Path) -> set[str]:
    """Those of a page's headings, as a forge makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere() -> None:
    for page in PAGES:
        text = page.read_text()
        targets = re.findall(r"\]\(([^):]+)\)", text) + re.findall(r'(?:src|srcset)="([^":]+)"', text)
        for target in targets:
            name, _, anchor = target.partition("#")
            other = page.parent / name if name else page
            assert other.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(other), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_documents_tell_to_type_exists(page: Path) -> None:
    assert [found for line in lines(page.read_text()) if (found := wrong(line))] == []


def test_a_command_line_that_is_wrong_is_found() -> None:
    assert lines("`frostline report` and\n    frostline run -- x  # y\n") == [
        "frostline run -- x  # y",
        "frostline report",
    ]
    assert not any(map(wrong, ("frostline run -o a -- b --not-ours", "frostline freeze | thaw [--tree]")))
    assert wrong("frostline freze") == "there is no command 'freze'"
    assert wrong("frostline report --htlm FILE") == "report has no --htlm"


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    home = re.compile(rf"{re.escape(str(ROOT))}/|/{'root'}/\.|/{'home'}/[a-z]+/")
    for name in filter(None, tracked):
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".sh", "") and path.is_file():
            text = path.read_text(errors="replace")
            assert not home.search(text), name
