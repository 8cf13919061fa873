"""``frostline explain``: what a message's name means and what to do, or a page of the documents."""

import difflib
import re
from pathlib import Path
from typing import NamedTuple

import click

import frostline
from frostline.commands.run import usage
from frostline.errors import FrostlineError

#: A row of docs/messages.md: names, meaning, and, not in every table, what to do.
_ROW = re.compile(r"^\|(?P<names>[^|]*`[^|]*)\|(?P<meaning>[^|]*)\|(?:(?P<remedy>[^|]*)\|)?\s*$")
_NAME = re.compile(r"`([a-z0-9-]+)(?::[^`]*)?`")
_HEADING = re.compile(r"^(#+) (.*)$")
_LINK = re.compile(r"\[[^\]]*\]\((?:[\w.-]+/)*([\w-]+)\.md(?:#[^)]*)?\)")


class Entry(NamedTuple):
    """One row of docs/messages.md."""

    section: str
    meaning: str
    remedy: str


@click.command(short_help="Say what a message's name means, or show a page of the documents.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def explain(names: tuple[str, ...]) -> None:
    """Say what the NAME in brackets behind a message means, and what to do about it.

    Or show a page of the documents (policies, limits, attach ...), or a part of one (follow, sync).
    Without NAME: which pages there are. Works offline.
    """
    folder = documents()
    pages = _pages(folder)
    if not names:
        click.echo("frostline explain NAME shows one of these pages, or what a message's name means:\n")
        for name, path in pages.items():
            click.echo(f"  {name:<12} {_title(path)}")
        return
    entries = _entries(pages["messages"].read_text(encoding="utf-8"))
    click.echo("\n\n".join(_found(name, entries, pages) for name in names))


def documents() -> Path:
    """The folder of the documents: the source tree's, else the installed package's.

    Raises:
        FrostlineError: ``no-documents``.
    """
    package = Path(frostline.__file__).resolve().parent
    tree = package.parent.parent
    places = [tree / "docs"] if (tree / "pyproject.toml").exists() else []
    for place in (*places, package / "docs"):
        if (place / "messages.md").is_file():
            return place
    raise FrostlineError(
        "no-documents",
        f"the documents are not in {package / 'docs'}",
        "Install Frostline again: they come with it.",
    )


def _found(given: str, entries: dict[str, list[Entry]], pages: dict[str, Path]) -> str:
    name = given.strip().strip("[]`").lower()
    page = name.removesuffix(".md").rpartition("/")[2]
    if name in entries:
        told = [_told(name, entry) for entry in entries[name]]
        if name in pages:
            told.append(f"There is a page of that name, too: frostline explain {name}.md")
        return "\n".join(told)
    if page in pages:
        return pages[page].read_text(encoding="utf-8").rstrip()
    for path in pages.values():
        section = _section(path.read_text(encoding="utf-8"), name)
        if section:
            return section
    # Policies that have no section of their own: `sync:N` is looked up as sync.
    kinds = _entries(pages["policies"].read_text(encoding="utf-8"))
    kind = re.split("[:,=]", name)[0]
    if kind in kinds and not kinds[kind][0].remedy:
        return f"{kind}: a policy\n  {_plain(kinds[kind][0].meaning)}\nThe page: frostline explain policies"
    close = difflib.get_close_matches(name, [*entries, *pages], n=3)
    remedy = f"Did you mean {' or '.join(close)}?" if close else "`frostline explain` lists the pages."
    raise usage("nothing-known", f"{given!r} is no message's name and no page", remedy)


def _told(name: str, entry: Entry) -> str:
    lines = [f"{name}: {entry.section[:1].lower()}{entry.section[1:]}", f"  {_plain(entry.meaning)}"]
    if entry.remedy:
        lines.append(f"  What to do: {_plain(entry.remedy)}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Links between the documents as what shows them here."""
    return _LINK.sub(r"`frostline explain \1`", text)


def _entries(text: str) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    section = ""
    for line in text.splitlines():
        heading = _HEADING.match(line)
        row = _ROW.match(line)
        if heading is not None:
            section = heading.group(2)
        elif row is not None:
            entry = Entry(section, row.group("meaning").strip(), (row.group("remedy") or "").strip())
            for name in _NAME.findall(row.group("names")):
                found.setdefault(name, []).append(entry)
    return found


def _section(text: str, name: str) -> str:
    """The part of a page under a heading of that name; empty if there is none."""
    found: list[str] = []
    level = 0
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading is not None and level and len(heading.group(1)) <= level:
            break
        if heading is not None and not level and heading.group(2).strip(" `").lower() == name:
            level = len(heading.group(1))
        if level:
            found.append(line)
    return "\n".join(found).rstrip()


def _pages(folder: Path) -> dict[str, Path]:
    """Name -> file; how-to pages among them."""
    every = [*folder.glob("*.md"), *(folder / "how-to").glob("*.md")]
    return {path.stem: path for path in sorted(every, key=lambda path: path.stem)}


def _title(path: Path) -> str:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return ""
