"""Draws what a command printed to a terminal as an SVG: the README's picture.

script -qec "stty cols 110; frostline report DIR" /dev/null |
    python tools/picture.py TITLE LINES > docs/report.svg
"""

from __future__ import annotations

import io
import sys

from rich.console import Console
from rich.text import Text


def main() -> None:
    title, lines = sys.argv[1], int(sys.argv[2])
    printed = sys.stdin.read().replace("\r\n", "\n").split("\n")[:lines]
    width = max(len(Text.from_ansi(line).plain) for line in printed)
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for line in printed:
        console.print(Text.from_ansi(line), soft_wrap=True)
    sys.stdout.write(console.export_svg(title=title))


if __name__ == "__main__":
    main()
