"""Draws what a command printed to a terminal as an SVG: the README's picture.

script -qec "stty cols 110; frostline report DIR" /dev/null |
    python tools/picture.py TITLE LINES > docs/report.svg
"""

from __future__ import annotations

import io
import re
import sys

from rich.console import Console
from rich.text import Text


def main() -> None:
    title, lines = sys.argv[1], int(sys.argv[2])
    # What a progress bar leaves behind (cursor and erase sequences) is no part of the picture.
    text = re.sub(r"\x1b\[[?0-9;]*[A-LN-Za-ln-z]", "", sys.stdin.read()).replace("\r", "")
    printed = [line.rstrip() for line in text.split("\n")][:lines]
    width = max(len(Text.from_ansi(line).plain) for line in printed) + 2
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for line in printed:
        console.print(Text.from_ansi(line), soft_wrap=True)
    drawn = console.export_svg(title=title)
    # No fonts from the network: whatever is fixed-width where it is shown.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    drawn = drawn.replace("Fira Code, monospace", "ui-monospace, Consolas, DejaVu Sans Mono, monospace")
    sys.stdout.write(drawn)


if __name__ == "__main__":
    main()
