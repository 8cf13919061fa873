"""The page: complete in itself, safe to open. ``test_page.py`` opens it in a browser."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis import analyse
from frostline.recording import read_session
from frostline.report.html import to_html
from frostline.report.html.figures import SHADED, SINGLED, ZOOM_POINTS, figures, thinned
from tests.report.test_text import EVIL, server
from tests.synthetic import MS, Process, write_run

#: Elements that have no end tag.
VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """Texts by element, addresses, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.addresses: list[str] = []
        #: (tag, attributes) in order.
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        found = [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]
        self.addresses += [address for address in found if not address.startswith("#")]
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    @property
    def drawn(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.texts["script"][0])
        return found


def unpack(field: dict[str, str]) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(field["data"]), f"<{field['type']}")


def test_the_verdict_and_the_command_come_first_and_every_table_is_there(tmp_path: Path) -> None:
    text = to_html(server(tmp_path))
    page = Page(text)
    assert page.texts["h1"] == ["The collector explains 3 of the 3 slow steps."]
    command = "frostline run --policy freeze --ready-url URL -- uvicorn app:app"
    assert " ".join(page.texts["span"]).startswith(command)
    order = [
        "explains 3 of the 3",
        "<strong>Next.",
        "<figure",
        ">Processes</h2>",
        ">Slow steps:",
        ">Full passes:",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    kinds = [figure["kind"] for figure in page.drawn]
    assert kinds[:2] == ["timeline", "steps"] and {"zoom", "histogram", "utilisation"} <= set(kinds)


def test_it_loads_nothing_and_tells_the_browser_so(tmp_path: Path) -> None:
    text = to_html(server(tmp_path))
    page = Page(text)
    assert page.addresses == []
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|<link|<iframe|<img", text)


def test_what_a_target_calls_itself_is_text_and_nothing_else(tmp_path: Path) -> None:
    role = f"</script><script>alert(1)</script><img src=x>{EVIL}"
    page = Page(to_html(server(tmp_path, role=role)))
    assert len(page.texts["script"]) == 3  # the data and two of ours
    assert page.addresses == []
    assert any("</script>" in lane["name"] for lane in page.drawn[0]["lanes"])
    shown = "".join(page.texts["td"])
    assert "<img src=x>" in shown and "\x1b" not in shown and "\u202e" not in shown


def test_a_slow_step_is_drawn_red_and_its_second_shaded(tmp_path: Path) -> None:
    drawn = figures(server(tmp_path))
    steps = next(figure for figure in drawn if figure["kind"] == "steps")
    assert sorted(unpack(steps["length"])[unpack(steps["touched"]) == 1]) == [85, 85, 85]
    assert not steps["uneven"] and "logarithmic" not in steps["caption"]
    zoom = next(figure for figure in drawn if figure["kind"] == "zoom")
    assert list(unpack(zoom["pauseLength"])) == [80, 80]  # half a second apart: both are in the second
    inside = unpack(zoom["start"])
    assert zoom["low"] < inside.min() and inside.max() < zoom["high"]


def test_steps_of_which_one_dwarfs_the_rest_have_a_logarithmic_scale(tmp_path: Path) -> None:
    steps = next(f for f in figures(server(tmp_path, longest=2_000)) if f["kind"] == "steps")
    assert steps["uneven"] and steps["caption"].endswith("The scale is logarithmic.")


def paused(folder: Path, pauses: int) -> dict[str, Any]:
    """The figure of utilisation of a process with pauses of 40 ms and 60 ms between them."""
    folder.mkdir()
    process = Process(pid=10)
    for i in range(pauses):
        process.add_pass(1_000 * MS + i * 100 * MS, 40 * MS)
    process.add_state(10_000 * MS, (0, 0, 0), closing=True)
    process.write(folder)
    drawn = figures(analyse(read_session(folder)))
    return next(figure for figure in drawn if figure["kind"] == "utilisation")


def test_bmu_is_drawn_where_a_longer_window_has_less_and_never_falls(tmp_path: Path) -> None:
    figure = paused(tmp_path / "many", 20)
    (line,) = figure["lines"]
    windows, shares, bounded = (unpack(one) for one in (figure["x"], line["values"], line["bounded"]))
    at = {round(window): i for i, window in enumerate(windows.tolist())}
    assert shares[at[40]] == 0 and shares[at[100]] == 60
    # Of the windows drawn, that of 126 ms holds most of a second pause, and is the worst from 100 ms on.
    assert bounded[at[100]] == shares[at[126]] and 47 < bounded[at[100]] < 48
    known = ~np.isnan(shares)
    assert np.all(bounded[known] <= shares[known]) and np.all(np.diff(bounded[known]) >= 0)
    assert "BMU of 100 ms: 47.7 % (python (pid 10))" in figure["caption"]
    (alone,) = paused(tmp_path / "one", 1)["lines"]
    assert "bounded" not in alone  # nowhere lower: one line says both


def test_an_empty_session_has_a_page(tmp_path: Path) -> None:
    from frostline.analysis import analyse
    from frostline.recording import read_session

    write_run(tmp_path, ["true"])
    Page(to_html(analyse(read_session(tmp_path))))


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), min_size=1, max_size=600),
    st.integers(2, 20),
    st.randoms(use_true_random=False),
)
def test_thinning_keeps_order_extremes_and_what_is_singled_out(
    points: list[tuple[int, int]], columns: int, random: Any
) -> None:
    start = np.array([at for at, _ in points], np.int64)
    value = np.array([length for _, length in points], np.int64)
    singled = np.array([random.random() < 0.05 for _ in points], bool)
    kept = thinned(start, value, singled, columns)
    assert len(set(kept.tolist())) == len(kept)
    assert np.all(np.diff(start[kept]) >= 0)
    assert value[kept].max() == value.max() and value[kept].min() == value.min()
    assert set(np.flatnonzero(singled)) <= set(kept)
    assert len(kept) <= max(4 * columns, 2 * columns + int(singled.sum()))


def test_of_many_singled_out_the_largest_are_kept() -> None:
    n = 10 * SINGLED
    value = np.arange(n)
    kept = thinned(np.arange(n), value, np.ones(n, bool), columns=10)
    assert np.all(np.isin(np.arange(n - SINGLED, n), kept))
    assert len(kept) <= SINGLED + 20


def test_of_a_step_as_long_as_the_recording_the_page_stays_small(tmp_path: Path) -> None:
    """A stream of an hour lies over every pass of every process: what is shaded in its second is bounded."""
    for number in range(SHADED + 3):
        process = Process(pid=100 + number)
        process.add_identity("Worker", number)
        for i in range(4_000):
            process.add_pass(i * 20 * MS, 6 * MS + number, generation=0, flags=0)
        if not number:
            for i in range(4):
                process.add_span("stream", i, 80_000 * MS, kind=fmt.SPAN_ASYNC)
                process.add_span("stream", i, MS, kind=fmt.SPAN_ASYNC)
        process.write(tmp_path)
    drawn = figures(analyse(read_session(tmp_path)))
    zoom = next(figure for figure in drawn if figure["kind"] == "zoom")
    assert len(unpack(zoom["pauseStart"])) == ZOOM_POINTS
    assert len(zoom["elsewhere"]) == SHADED and zoom["caption"].endswith(", 2 more, which are not drawn.")
    names = [one["name"] for one in zoom["elsewhere"]]
    assert f"Worker dp{SHADED + 2} (pid {100 + SHADED + 2})" in names  # whose passes took most
    assert len(json.dumps(drawn)) < 1_500_000
