"""Draws the top of a session's page, light and dark: the README's pictures.

    python -m tools.page SESSION docs/page

writes ``docs/page-light.png`` and ``docs/page-dark.png``. Needs Chromium. The README's are of a recording of
the program that it shows, on a machine that did nothing else.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests import browser

from frostline.analysis import analyse
from frostline.recording import read_session
from frostline.report.html import to_html

#: CSS pixels.
WIDTH = 1200
#: What the picture keeps of the page: the verdict, and of these kinds of figure the first, side by side (B8).
KINDS = ("steps", "zoom")
_KEEP = """(() => {
  const kinds = %s;
  const shown = kinds.map(kind => document.querySelector(`figure.${kind}`)).filter(Boolean);
  for (const figure of document.querySelectorAll("figure")) {
    if (shown.includes(figure)) figure.style.gridColumn = "auto"; else figure.remove();
  }
  for (const other of document.querySelectorAll("nav, footer, main > :not(#figures), #keys")) other.remove();
  window.dispatchEvent(new Event("resize"));
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
    () => done(document.documentElement.scrollHeight))));
})()"""


def main() -> None:
    session, stem = Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder, browser.page() as tab:
        file = Path(folder, "page.html")
        file.write_text(to_html(analyse(read_session(session))), encoding="utf-8")
        for scheme in ("light", "dark"):
            tab.size(WIDTH)
            tab.scheme(scheme)
            tab.open(file)
            tab.size(WIDTH, int(tab.do(_KEEP % list(KINDS))))
            picture = Path(f"{stem}-{scheme}.png")
            tab.picture(picture)
            print(f"{picture}: {picture.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
