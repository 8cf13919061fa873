"""The pages of ``startup`` and ``ablate`` as readers meet them: by eye, keyboard and finger, on a phone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.analysis import analyse
from frostline.analysis.startup import start_ups
from frostline.commands._forest import page as forest
from frostline.commands._outcome import after
from frostline.recording import read_session
from frostline.recording.startup import read_imports
from frostline.report.html.startup import to_html
from tests import browser
from tests.experiment.test_judging import outcome
from tests.report.test_html import Page
from tests.report.test_page import TEXTS, contrast, needs_browser
from tests.synthetic import MS, Process, write_run

#: Packages, modules of each, and what each module adds.
PACKAGES, MODULES, OBJECTS = 12, 25, 300


def imports(folder: Path) -> str:
    """The page of a process with imports in imports, a full pass inside one, and a second process."""
    folder.mkdir()
    for pid in (4711, 4712):
        process = Process(pid=pid)
        process.add_identity("Worker", pid - 4711)
        process.add_mark(fmt.MARK_ATTACH, 0, b=5_001)
        process.add_state(0, (3, 0, 0))
        lines = [f"frostline-startup 1 {pid} {process.opened} 0 1"]
        at, count = 1, 0
        for number in range(PACKAGES):
            name = f"package_{number}" if number else "we<b>ird"
            lines.append(f"B {process.opened + at * MS} 1 {count} {name}")
            for module in range(MODULES):
                at += 1
                lines.append(f"B {process.opened + at * MS} 1 {count} {name}.module_{module}")
                at += 1 + module % 5
                count += OBJECTS * (1 + module % 3)
                lines.append(f"E {process.opened + at * MS} 1 {count} ")
            at += 1
            lines.append(f"E {process.opened + at * MS} 1 {count} ")
        process.add_pass(40 * MS, MS // 2, generation=2, count0=0, trigger_file=process.name("/srv/app.py"))
        lines.append(f"C {process.opened + (at + 1) * MS} 1 {count + 5_000} ")
        process.write(folder)
        log = folder / f"startup-{pid}-{process.opened}-0.imports"
        log.write_text("\n".join((*lines, "")))
    write_run(folder, ["serve"])
    found = start_ups(analyse(read_session(folder)), read_imports(folder), 0)
    assert len(found) == 2 and all(len(list(one.walk())) == PACKAGES * (MODULES + 1) for one in found)
    return to_html(found, "Frostline: start-up", "serve --model ./model")


def arms(folder: Path) -> str:
    """The page of an experiment with an arm of each verdict."""
    found = outcome({"Engine alone": 0.8, "all": 1.2})
    return forest(found, after(found))


PAGES = {"startup": imports, "ablation": arms}


@pytest.fixture(scope="module", params=sorted(PAGES))
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    path.write_text(PAGES[request.param](path.parent / "session"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tab() -> Iterator[browser.Page]:
    with browser.page() as opened:
        yield opened


# --- what needs no browser ------------------------------------------------------------
def test_it_loads_nothing_and_every_table_and_figure_has_a_name(file: Path) -> None:
    text = file.read_text()
    page = Page(text)
    assert page.addresses == [] and "default-src 'none'" in text
    assert not re.search(r"url\(|@import|<link|<iframe|<img", text)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        if tag in ("table", "figure") or attributes.get("role") in ("img", "region"):
            refers = attributes.get("aria-labelledby", "").split()
            assert attributes.get("aria-label") or (refers and set(refers) <= set(ids)), (tag, attributes)
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true" or attributes.get("role") == "img"
    assert ("html", {"lang": "en"}) in page.elements
    assert any(a.get("name") == "viewport" for tag, a in page.elements if tag == "meta")
    assert {a.get("scope") for tag, a in page.elements if tag == "th"} <= {"col", "row"}
    tags = {tag for tag, _ in page.elements}
    assert {"header", "main", "footer", "table"} <= tags


def test_what_a_module_calls_itself_is_text(tmp_path: Path) -> None:
    text = imports(tmp_path / "s")
    assert "we&lt;b&gt;ird" in text and "we<b>ird" not in text


# --- in a browser ---------------------------------------------------------------------
#: Every text of a drawing against the box that it stands in, or else the page: what is under 4.5; and what is
#: drawn of shapes against the page, under 3.
DRAWN = """(() => {
  const rgb = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const ground = rgb(getComputedStyle(document.body).backgroundColor);
  const texts = [...document.querySelectorAll("svg text")].map((text) => {
    const box = text.parentNode.tagName === "g" && text.parentNode.querySelector("rect");
    const under = box ? rgb(getComputedStyle(box).fill) : ground;
    return [rgb(getComputedStyle(text).fill), under, text.textContent];
  });
  const shapes = [...document.querySelectorAll("svg circle, svg .span, svg .one")].map((shape) => {
    const style = getComputedStyle(shape);
    return [rgb(shape.tagName === "circle" ? style.fill : style.stroke), ground, shape.outerHTML];
  });
  return [texts, shapes];
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
    wide, whole = tab.do("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= whole
    ground = tab.do("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(17, 22, 28)")
    count, faint = tab.do(TEXTS)
    assert count > 30 and faint == []
    texts, shapes = tab.do(DRAWN)
    assert texts
    for least, drawn in ((4.5, texts), (3, shapes)):
        for ink, under, what in drawn:
            assert contrast(tuple(ink), tuple(under)) >= least, what
    # A drawing keeps a size at which it can be read, and is moved where it is wider than the page.
    least = tab.do(
        """Math.min(...[...document.querySelectorAll("svg text")].map((text) =>
        parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
    )
    assert least >= 10


@needs_browser
def test_everything_can_be_reached_by_keyboard_and_is_seen_to_be(tab: browser.Page, file: Path) -> None:
    tab.size(1280)
    tab.open(file)
    reached: list[str] = []
    for _ in range(400):
        tab.key("Tab")
        what = tab.do(
            "document.activeElement === document.body ? '' : document.activeElement.id ||"
            " document.activeElement.className || document.activeElement.tagName"
        )
        if not what:
            break
        assert tab.do("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        reached.append(what)
    counted = tab.do(
        "['.wide', '.scroll'].map((one) => document.querySelectorAll(one).length)",
    )
    assert [reached.count("wide"), reached.count("scroll")] == counted and counted[0] >= 1


@needs_browser
def test_on_paper_it_is_light(tab: browser.Page, file: Path, tmp_path: Path) -> None:
    tab.size(1280)
    try:
        tab.call(
            "Emulation.setEmulatedMedia",
            media="print",
            features=[{"name": "prefers-color-scheme", "value": "dark"}],
        )
        tab.open(file)
        assert tab.do(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        ) == ["rgb(255, 255, 255)", "rgb(22, 32, 43)"]
        assert tab.do("[...document.querySelectorAll('.told')].every((p) => !p.getClientRects().length)")
    finally:
        tab.call("Emulation.setEmulatedMedia", media="", features=[])
    tab.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


# --- the icicle ------------------------------------------------------------------------
@pytest.fixture(scope="module")
def icicle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("icicle") / "startup.html"
    path.write_text(imports(path.parent / "session"), encoding="utf-8")
    return path


TOLD = "document.querySelector('.told').textContent"
HERE = "document.querySelector('.here title').textContent.split('\\n').join('; ')"


@needs_browser
def test_an_icicle_tells_by_keyboard_and_by_finger_what_a_pointer_is_told(
    tab: browser.Page, icicle: Path
) -> None:
    tab.size(400)
    tab.open(icicle)
    tab.do("document.querySelector('.scroll').focus()")
    assert re.match(r"Worker dp\d .*: start-up took .* added <=[1-9][\d,]+ tracked objects", tab.do(TOLD))
    heard = [tab.do(TOLD)]
    for key, depth in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowRight", 2), ("ArrowUp", 1)):
        tab.key(key)
        heard.append(tab.do(TOLD))
        assert tab.do(HERE) == heard[-1] and tab.do("document.querySelectorAll('.here').length") == 1
        top = tab.do("document.querySelector('.here rect').y.baseVal.value")
        assert top == depth * 19, (key, top)
        # On a phone it is wider than the page: the box is moved into view.
        assert tab.do(
            """(() => {
            const box = document.querySelector('.here').getBoundingClientRect();
            const view = document.querySelector('.scroll').getBoundingClientRect();
            return box.left < view.right && box.right > view.left; })()"""
        )
    assert len(set(heard[:4])) == 4 and re.search(r"module_\d+; .* ms; .* objects at most", heard[2])
    tab.key("Home")
    assert tab.do(TOLD) == heard[0]
    tab.key("ArrowUp")
    assert tab.do(TOLD) == heard[0]
    tab.do(
        """[...document.querySelectorAll('.scroll g')].find((g) => g.textContent.includes('package_7'))
        .dispatchEvent(new MouseEvent('click', {bubbles: true}))"""
    )
    assert tab.do(TOLD).startswith("package_7")
    assert tab.failures() == []


@needs_browser
def test_every_box_of_an_icicle_can_be_reached_by_arrows(tab: browser.Page, icicle: Path) -> None:
    """Up, and along each level: no box that is drawn stays silent."""
    tab.size(1280)
    tab.open(icicle)
    tab.do("document.querySelector('.scroll').focus()")
    seen, total = tab.do(
        """(() => {
        const place = document.querySelector('.scroll'), told = document.querySelector('.told');
        const press = (key) => place.dispatchEvent(new KeyboardEvent('keydown', {key}));
        const boxes = [...place.querySelectorAll('g')], seen = new Set();
        const here = () => boxes.indexOf(place.querySelector('.here'));
        for (let level = 0; level < 3; level++) {
          for (const key of ['ArrowLeft', 'ArrowRight'])
            for (let n = 0; n < boxes.length; n++) { seen.add(here()); press(key); }
          let before = -1;
          while (before !== here()) { before = here(); press('ArrowLeft'); }
          for (let n = 0; n < boxes.length; n++) { const at = here(); press('ArrowDown');
            if (here() !== at) break; press('ArrowRight'); }
        }
        return [seen.size, boxes.length]; })()"""
    )
    assert seen == total > PACKAGES
