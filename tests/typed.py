"""Command lines as documents show them, held against the commands that there are."""

from __future__ import annotations

import functools
import importlib
import re

import click

from frostline.commands.main import COMMANDS

_LINE = re.compile(r"^ {4}(?:sudo |\$ )?(frostline .*)$", re.MULTILINE)
_SPAN = re.compile(r"`(frostline [^`]*)`")
#: One command, or several that go alike: `freeze | thaw | collect`.
_NAMES = re.compile(r"[a-z][a-z-]*(?:\s*\|\s*[a-z][a-z-]*)*")


@functools.cache
def options(command: str) -> frozenset[str]:
    """The options of a command, its subcommands' too, as they are typed."""
    place = COMMANDS[command][0]
    one: click.Command = getattr(importlib.import_module(place), place.rpartition(".")[2])
    parts = [one, *(one.commands.values() if isinstance(one, click.Group) else ())]
    return frozenset(text for part in parts for parameter in part.params for text in parameter.opts)


def lines(page: str) -> list[str]:
    """Each command line of ours in a page: in its code blocks, and in a line of text."""
    joined = page.replace("\\\n", " ")
    return [*_LINE.findall(joined), *(" ".join(text.split()) for text in _SPAN.findall(joined))]


def wrong(line: str) -> str:
    """What is wrong with a command line; empty if nothing is."""
    mine = re.split(r"\s#|\s--(?:\s|$)|[;&]|\s>\s", line)[0].removeprefix("frostline ").strip()
    found = _NAMES.match(mine)
    if found is None:  # of the group itself: --help
        return ""
    names = re.split(r"\s*\|\s*", found.group())
    for name in names:
        if name not in COMMANDS:
            return f"there is no command {name!r}"
    known = frozenset().union(*map(options, names)) | {"-h", "--help"}
    typed = re.findall(r"(?<!\S)\[?(--?[a-zA-Z][\w-]*)", mine[found.end() :])
    unknown = [word for word in typed if word not in known]
    return f"{found.group()} has no {', '.join(unknown)}" if unknown else ""
