"""The page as readers meet it: by eye, by keyboard, by screen reader, on a phone, on paper."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.analysis import analyse
from frostline.recording import read_session
from frostline.report.html import page as html_page
from frostline.report.html import to_html
from tests import browser
from tests.report.test_html import Page
from tests.report.test_text import server
from tests.synthetic import MS, Process, write_helper, write_run

ASSETS = Path(html_page.__file__).parent / "assets"
needs_browser = pytest.mark.skipif(browser.CHROMIUM is None, reason="no Chromium here")


def busy(folder: Path) -> str:
    """A page with every kind of figure and with tables whose order is not that of any column."""
    folder.mkdir()
    for number in range(12):
        process = Process(pid=100 + number)
        process.add_identity("Worker", number)
        process.add_state(0, (3, 0, 0))
        for i in range(200):
            process.add_span("step", i * 10 * MS, (i * 7 % 11 + 1) * MS)
        for i in range(40):
            took = (number * 37 + i * 11) % 90 + 1
            process.add_pass(i * 50 * MS, took * MS // 10, generation=i % 3, tid=9)
        process.add_pass(2_100 * MS, (20 + number * 7 % 12) * MS, generation=2, count0=900, tid=9)
        process.add_span("step", 2_090 * MS, 60 * MS)
        process.add_mark(fmt.MARK_FREEZE, 1_500 * MS, a=-1)
        process.add_state(2_500 * MS, (20, 15, 14), closing=True)
        process.write(folder)
    write_helper(folder, [], warnings=["the clock was set"])
    return to_html(server(folder))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "page.html"
    path.write_text(busy(folder / "session"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tab(file: Path) -> Iterator[browser.Page]:
    with browser.page() as opened:
        yield opened


# --- what needs no browser ------------------------------------------------------------
def variables(css: str) -> dict[str, tuple[int, int, int]]:
    return {
        name: (int(value[:2], 16), int(value[2:4], 16), int(value[4:], 16))
        for name, value in re.findall(r"--([a-z0-9-]+): #([0-9a-f]{6})", css)
    }


def luminance(color: tuple[int, int, int]) -> float:
    """Relative luminance, WCAG 2.2."""
    shares = [c / 255 for c in color]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: tuple[int, int, int], b: tuple[int, int, int]) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_stands_out_from_the_ground(scheme: str) -> None:
    """WCAG 1.4.11: 3 for what a figure says, and 4.5 for texts."""
    light, dark = (ASSETS / "page.css").read_text().split("@media screen and (prefers-color-scheme: dark)", 1)
    colors = variables(light)
    if scheme == "dark":
        colors |= variables(dark.split("* {", 1)[0])
    back = colors["back"]
    for name in ("full", "middle", "young", "step", "good", *(f"c{i}" for i in range(7))):
        assert contrast(colors[name], back) >= 3, name
    for name in ("fore", "quiet", "link", "bad", "good", "unsure"):
        assert contrast(colors[name], back) >= 4.5, name
        if name != "link":
            assert contrast(colors[name], colors["panel"]) >= 4.5, name


def test_headings_are_in_order_and_every_table_and_figure_has_a_name(file: Path) -> None:
    page = Page(file.read_text())
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [
        (tag, a)
        for tag, a in page.elements
        if tag in ("table", "figure") or a.get("role") in ("img", "region") or tag in ("nav", "section")
    ]
    assert {tag for tag, _ in named} == {"table", "figure", "div", "nav", "section"}
    for tag, attributes in named:
        if tag == "section" and "aria-label" not in attributes:
            continue  # a group under its heading, no landmark
        refers = (
            attributes.get("aria-labelledby", "") + " " + attributes.get("aria-describedby", "")
        ).split()
        assert attributes.get("aria-label") or refers, (tag, attributes)
        assert set(refers) <= set(ids)
    for _, attributes in page.elements:
        assert attributes.get("href", "#figures")[1:] in ids
    assert [a["scope"] for tag, a in page.elements if tag == "th"] == ["col"] * sum(
        tag == "th" for tag, _ in page.elements
    )
    tags = [tag for tag, _ in page.elements]
    assert {"header", "nav", "main", "footer"} <= set(tags)
    assert ("html", {"lang": "en"}) in page.elements


# --- in a browser ---------------------------------------------------------------------
#: Every text against the ground that it stands on, as it is computed: what is under 4.5 (3 if large).
TEXTS = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const shares = [0.2126, 0.7152, 0.0722];
  const light = (c) => shares.reduce((sum, share, i) => sum + share * linear(c[i] / 255), 0);
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || /^(SCRIPT|STYLE|NOSCRIPT)$/.test(parent.tagName)) continue;
    if (!parent.getClientRects().length) continue;
    const style = getComputedStyle(parent);
    let ground = [255, 255, 255, 0];
    for (let e = parent; e && !ground[3]; e = e.parentElement)
      ground = rgba(getComputedStyle(e).backgroundColor);
    const a = light(rgba(style.color)), b = light(ground);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    count++;
    if (ratio < (large ? 3 : 4.5)) found.push([walker.currentNode.data.slice(0, 40), ratio]);
  }
  return [count, found.slice(0, 5)];
})()"""


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400, 320])
def test_it_is_drawn_without_an_error_and_fits_and_can_be_read(
    tab: browser.Page, file: Path, width: int, scheme: str
) -> None:
    tab.size(width)
    tab.scheme(scheme)
    tab.open(file)
    assert tab.failures() == []
    drawn, canvases = tab.do(
        "[document.documentElement.dataset.drawn, document.querySelectorAll('canvas').length]"
    )
    assert int(drawn) == canvases >= 6
    wide, whole = tab.do("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= whole
    ground = tab.do("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(17, 22, 28)")
    count, faint = tab.do(TEXTS)
    assert count > 300 and faint == []


COLUMN = """((title, column) => {
  const heading = [...document.querySelectorAll("h2")].find((h) => h.textContent.startsWith(title));
  const table = heading.parentElement.querySelector("table");
  const i = [...table.tHead.rows[0].cells].findIndex((c) => c.textContent === column);
  const head = table.tHead.rows[0].cells[i];
  const own = (cell) => [...cell.childNodes].filter((n) => n.className !== "marks")
    .map((n) => n.textContent).join("").trim();
  const rows = [...table.tBodies[0].rows].map((r) => [own(r.cells[0]), own(r.cells[i])]);
  return [head.getAttribute("aria-sort"), rows];
})"""


@needs_browser
def test_tables_sort_by_number_and_by_word_and_keep_whose_row_it_is(tab: browser.Page, file: Path) -> None:
    tab.size(1280)
    tab.open(file)

    def column(title: str, name: str) -> tuple[str, list[list[str]]]:
        sort, rows = tab.do(f"{COLUMN}({title!r}, {name!r})")
        return sort, rows

    def click(title: str, name: str) -> None:
        tab.do(
            f"""[...[...document.querySelectorAll("h2")].find((h) => h.textContent.startsWith({title!r}))
            .parentElement.querySelectorAll("th button")].find((b) => b.textContent === {name!r}).click()"""
        )

    before = column("Passes", "max")
    assert before[0] == "none"
    click("Passes", "max")
    sort, rows = column("Passes", "max")
    numbers = [float(cell.replace(",", "")) for _, cell in rows]
    assert sort == "descending" and numbers == sorted(numbers, reverse=True) and len(set(numbers)) > 10
    assert sorted(map(tuple, rows)) == sorted(map(tuple, before[1])) and all(name for name, _ in rows)
    click("Passes", "max")
    assert column("Passes", "max")[1] == rows[::-1] or len(set(numbers)) < len(numbers)
    click("Passes", "walked")  # what is unknown stands last, both ways
    for _ in range(2):
        cells = [cell for _, cell in column("Passes", "walked")[1]]
        unknown = [cell == "-" for cell in cells]
        assert unknown == sorted(unknown)
        click("Passes", "walked")
    # Most of these have a letter beside them, which is no part of the number.
    assert tab.do("document.querySelectorAll('td.right .marks').length") > 1
    click("Processes", "passes")
    assert [cell for _, cell in column("Processes", "passes")[1]] == ["41"] * 12 + ["3"]
    click("Processes", "process")
    names = [name for name, _ in column("Processes", "process")[1]]
    assert [int(n.split("dp")[1].split()[0]) for n in names if "Worker" in n] == list(range(12))
    assert tab.failures() == []


@needs_browser
def test_of_a_long_table_the_first_rows_are_shown_as_it_is_sorted_and_all_on_request(
    tab: browser.Page, tmp_path: Path
) -> None:
    for number in range(12):
        process = Process(pid=100 + number)
        for i in range(30):
            for k in range(2):
                process.add_span(
                    f"label {i}", (k * 30 + i) * 10 * MS, (number * 31 + i * 17) % 997 * MS // 100 + 1
                )
        process.write(tmp_path)
    write_run(tmp_path, ["server"])
    (tmp_path / "page.html").write_text(to_html(analyse(read_session(tmp_path))), encoding="utf-8")
    tab.size(1280)
    tab.open(tmp_path / "page.html")
    table = "[...document.querySelectorAll('h2')].find((h) => h.textContent === 'Steps').parentElement"
    count = f"{table}.querySelectorAll('tbody tr').length"
    assert tab.do(count) == 300
    assert tab.do(f"{table}.querySelector('p').textContent") == "300 of 360 rows, as sorted. Show all"
    tab.do(f"[...{table}.querySelectorAll('th button')].find((b) => b.textContent === 'max').click()")
    shown = [float(cell) for _, cell in tab.do(f"{COLUMN}('Steps', 'max')")[1]]
    tab.do(f"{table}.querySelector('p button').click()")
    every = [float(cell) for _, cell in tab.do(f"{COLUMN}('Steps', 'max')")[1]]
    assert len(every) == 360 and every == sorted(every, reverse=True) and every[:300] == shown
    assert tab.failures() == []


@needs_browser
def test_everything_can_be_reached_and_used_by_keyboard(tab: browser.Page, file: Path) -> None:
    tab.size(1280)
    tab.open(file)
    reached: list[str] = []
    for _ in range(4_000):
        tab.key("Tab")
        what = tab.do(
            "document.activeElement === document.body ? '' : document.activeElement.id ||"
            " document.activeElement.className || document.activeElement.tagName"
        )
        if not what:
            break
        reached.append(what)
        if what == "figure-0":
            script = "document.querySelector('#figure-0 canvas').toDataURL()"
            first = tab.do(script)
            tab.key("+")
            frames = "new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))"
            tab.do(frames)
            zoomed = tab.do(script)
            tab.key("0")
            tab.do(frames)
            assert zoomed != first and tab.do(script) == first
    figures = int(tab.do("document.documentElement.dataset.drawn"))
    assert reached.index("copy") < reached.index("figure-0") < reached.index("wide")
    assert {f"figure-{i}" for i in range(figures)} <= set(reached)
    assert reached.count("wide") == tab.do("document.querySelectorAll('table:not(.u-legend)').length")
    tab.do("document.querySelector('th button').focus()")
    tab.key("Enter")
    assert tab.do("document.activeElement.parentElement.getAttribute('aria-sort')") == "ascending"
    outline = tab.do("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@needs_browser
def test_a_letter_beside_a_number_leads_to_its_doubt_and_is_read_out_with_it(
    tab: browser.Page, file: Path
) -> None:
    tab.size(400)
    tab.open(file)
    tab.do("document.querySelector('main td .marks a').focus()")
    letter, where = tab.do("[document.activeElement.textContent, document.activeElement.hash]")
    assert where == f"#doubt-{letter}"
    # What the browser tells a screen reader.
    tab.call("DOM.enable")
    root = tab.call("DOM.getDocument")["root"]["nodeId"]
    node = tab.call("DOM.querySelector", nodeId=root, selector="main td .marks a")["nodeId"]
    (told,) = tab.call("Accessibility.getPartialAXTree", nodeId=node, fetchRelatives=False)["nodes"]
    doubt = tab.do(f"document.querySelector('{where}').textContent")
    assert told["name"]["value"] == f"doubt {letter}" and told["role"]["value"] == "link"
    assert " ".join(told["description"]["value"].split()) == " ".join(doubt.split())
    tab.key("Enter")
    assert tab.do("document.querySelector(':target').id") == f"doubt-{letter}"
    shown = tab.do("document.querySelector(':target').getBoundingClientRect().top")
    assert 0 <= shown <= 900
    assert tab.failures() == []


@needs_browser
def test_on_paper_it_is_light_and_no_figure_is_wider_than_the_page(
    tab: browser.Page, file: Path, tmp_path: Path
) -> None:
    tab.size(1280)
    tab.scheme("dark")
    tab.open(file)
    tab.do(
        "addEventListener('beforeprint', () => { window.onPaper ="
        " [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
        " Math.max(...[...document.querySelectorAll('canvas')]"
        " .map((c) => c.getBoundingClientRect().width))]; })"
    )
    tab.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    ground, ink, widest = tab.do("window.onPaper")
    assert (ground, ink) == ("rgb(255, 255, 255)", "rgb(22, 32, 43)") and widest <= 700
    assert tab.do("document.documentElement.className") == ""
    assert tab.failures() == []
    tab.scheme("light")


@needs_browser
def test_it_works_without_javascript(tab: browser.Page, file: Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(file)
        root = tab.call("DOM.getDocument")["root"]["nodeId"]
        seen = tab.call("DOM.getOuterHTML", nodeId=root)["outerHTML"]
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "need JavaScript" in seen and "<td" in seen and "<canvas" not in seen
