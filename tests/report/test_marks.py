"""Doubts and losses stand beside the numbers that they touch, in the text and on the page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis import Analysis, Doubt
from frostline.analysis.doubtmodel import TOUCHES
from frostline.recording import Loss
from frostline.report import Block, Line, Table, plain, report
from frostline.report import marks as m
from frostline.report.html import to_html
from frostline.report.tables import tables
from tests.analysis import test_host
from tests.report import test_idle_report
from tests.report.doubted import BUILDS, NAME, one, serving
from tests.report.test_text import on_80_columns, server
from tests.synthetic import write_helper

SOURCE = Path(m.__file__).resolve().parents[1]
BENCH = "bench.json"
#: (section, whose row, column); the latter two are empty for the title of a table, and for a line.
Place = tuple[str, str, str]
#: Beside the titles of what is said of one process's passes and another one's time.
ACROSS = {(m.SLOW, "", ""), (m.GAPS, "", ""), (m.LONGEST_GAPS, "", "")}
PASSES = {(m.PROCESSES, NAME, "passes"), (m.PASSES, NAME, "count")}
SPANS = {(m.PROCESSES, NAME, "spans"), (m.STEPS, NAME, "count"), (m.GAPS, NAME, "gaps")}
#: Doubt -> everywhere where it stands in the report of its session.
STANDS: dict[str, set[Place]] = {
    "dead-collector": PASSES,
    "froze-nothing": {(m.FREEZING, NAME, "objects")},
    "frozen-garbage": {(m.FREEZING, NAME, "objects")},
    "no-boundary": {(m.PROCESSES, NAME, "policy")},
    "processes-missed": {(m.RESTS, "", ""), *ACROSS},
    "attached-late": {(m.PROCESSES, NAME, "recorded")},
    "looked-at": {(m.STEPS, NAME, "max")},
    "passes-lost": PASSES,
    "spans-lost": SPANS,
    "records-damaged": PASSES | SPANS,
    "segment-missing": PASSES | SPANS,
    "files-damaged": PASSES | SPANS,
    "other-callbacks": {
        (m.PROCESSES, NAME, "longest ms"),
        (m.PROCESSES, NAME, "paused"),
        (m.PASSES, NAME, "callbacks ms"),
        (m.LONGEST, "", ""),
    },
    "slow-walk": {(m.FULL, NAME, "pause ms")},
    "free-threaded": PASSES,
    "incremental": {(m.PASSES, NAME, "walked"), (m.FULL, NAME, "walked")},
    "span-refused": {(m.STEPS, "", "")},
    "span-unused": {(m.STEPS, "", "")},
    "still-running": {(m.RESTS, "", "")},
    "clocks": ACROSS,
    "requests-late": {(m.REQUESTS, BENCH, "ms")},
    "requests-own": {(m.REQUESTS, BENCH, "ms")},
    "requests-closed-loop": {(m.REQUESTS, BENCH, "p99"), (m.REQUESTS, BENCH, "max")},
    "requests-outside": {(m.REQUESTS, BENCH, "count")},
    "requests-unread": {(m.REQUESTS, BENCH, "count")},
    "requests-clock": {(m.REQUESTS, BENCH, "touched"), (m.JOINED, BENCH, "touched")},
}


def placed(blocks: list[Block], letter: str) -> set[Place]:
    """Where a letter stands."""
    found: set[Place] = set()
    for block in blocks:
        if isinstance(block, Line):
            if letter in block.letters:
                found.add((block.section, "", ""))
            continue
        if letter in block.noted:
            found.add((block.section, "", ""))
        found |= {
            (block.section, block.whose[r][0], block.columns[c])
            for (r, c), letters in block.letters.items()
            if letter in letters
        }
    return found


def letter_of(analysis: Analysis, slug: str) -> str:
    (note,) = [note for note in m.notes(analysis) if note.slug == slug and not note.loss]
    return note.letter


class Cells(HTMLParser):
    """A page's tables by title: rows of cells, each its text and where its links lead; links elsewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, list[str]]]]] = {}
        self.titles: dict[str, list[str]] = {}
        self.paragraphs: list[list[str]] = []
        self.described: set[str] = set()
        self.ids: set[str] = set()
        self._title = ""
        self._in: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "wbr", "br"):
            return
        self._in.append(tag)
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        if tag == "h2":
            self._title = ""
        elif tag == "tr":
            self.tables.setdefault(self._title, []).append([])
        elif tag == "td":
            self.tables[self._title][-1].append(("", []))
        elif tag in ("p", "figcaption"):
            self.paragraphs.append([])
        elif tag == "a" and (values.get("href") or "").startswith("#doubt-"):
            where = str(values["href"])[1:]
            assert values["aria-describedby"] == where and values["aria-label"] == where.replace("-", " ")
            self.described.add(where)
            if "td" in self._in:
                self.tables[self._title][-1][-1][1].append(where)
            elif "h2" in self._in:
                self.titles.setdefault(self._title, []).append(where)
            else:
                self.paragraphs[-1].append(where)

    def handle_endtag(self, tag: str) -> None:
        self._in.pop()

    def handle_data(self, data: str) -> None:
        if "sup" in self._in:
            return
        if self._in[-1:] == ["h2"]:
            self._title += data
        elif "td" in self._in:
            text, links = self.tables[self._title][-1][-1]
            self.tables[self._title][-1][-1] = (text + data, links)


@pytest.fixture(scope="module", params=sorted(BUILDS))
def doubted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Analysis]]:
    folder = tmp_path_factory.mktemp("doubted")
    yield request.param, BUILDS[request.param](folder)


def named(place: Place, analysis: Analysis) -> Place:
    """The place in this session: one of them is of the process that runs the test."""
    section, who, column = place
    return section, analysis.processes[0].name if who == NAME else who, column


# --- each doubt -----------------------------------------------------------------------
def test_every_doubt_that_the_code_can_have_has_a_session_here() -> None:
    said: set[str] = set()
    for path in (SOURCE / "analysis").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Doubt":
                first = node.args[0]
                assert isinstance(first, ast.Constant)
                said.add(str(first.value))
    assert said == set(BUILDS) == set(STANDS)
    assert said <= set(TOUCHES)


def test_it_stands_where_the_numbers_are_that_it_touches(doubted: tuple[str, Analysis]) -> None:
    slug, analysis = doubted
    letter = letter_of(analysis, slug)
    assert placed(report(analysis), letter) == {named(place, analysis) for place in STANDS[slug]}


def test_the_text_has_its_letter_in_those_rows_and_with_its_words(doubted: tuple[str, Analysis]) -> None:
    slug, analysis = doubted
    letter = letter_of(analysis, slug)
    lines = list(plain(report(analysis)))
    told = [line for line in lines if line.startswith(f"  [{letter}] ") and line.endswith(f"[{slug}]")]
    assert len(told) == 1
    marked = [line for line in lines if re.search(rf"\[([a-z]+,)*{letter}(,[a-z]+)*\]", line)]
    assert len(marked) > 1
    for section, who, _ in STANDS[slug]:
        if who and section != m.REQUESTS:
            assert any(named((section, who, ""), analysis)[1] in line for line in marked), section


def test_the_page_links_the_same_cells_to_it_and_says_it_with_them(doubted: tuple[str, Analysis]) -> None:
    slug, analysis = doubted
    letter = letter_of(analysis, slug)
    link = f"doubt-{letter}"
    page = Cells(to_html(analysis))
    assert page.described <= page.ids and link in page.described
    for block in report(analysis):
        if not isinstance(block, Table):
            continue
        shown = block.filled()
        if letter in shown.noted:
            assert link in page.titles[shown.title]
        rows = page.tables[shown.title][1:]  # the first are its heads
        for (r, c), letters in shown.letters.items():
            assert rows[r][c][1] == [f"doubt-{one}" for one in letters]
            assert rows[r][c][0].strip() == (shown.rows[r][c] or shown.whose[r][0])
        for r, row in enumerate(rows):
            for c, (_, links) in enumerate(row):
                assert bool(links) == bool(shown.letters.get((r, c)))


def test_of_two_full_passes_only_the_one_that_was_off_the_cpu_is_marked(tmp_path: Path) -> None:
    analysis = BUILDS["slow-walk"](tmp_path)
    (table,) = [b for b in report(analysis) if isinstance(b, Table) and b.section == m.FULL]
    assert len(table.rows) == 2
    ((r, c),) = table.letters
    assert table.rows[r][c] == "3,000.0"


def test_of_two_processes_the_one_without_a_loss_has_no_letter(tmp_path: Path) -> None:
    serving(pid=12).write(tmp_path)
    analysis = one(serving(words={"lost_passes": 3}), tmp_path)
    (table,) = [b for b in report(analysis) if isinstance(b, Table) and b.section == m.PROCESSES]
    assert {table.whose[r][0] for r, _ in table.letters} == {NAME}


def test_a_loss_of_what_no_table_shows_stands_beside_the_process(tmp_path: Path) -> None:
    analysis = one(serving(words={"lost_marks": 2}), tmp_path)
    (note,) = m.notes(analysis)
    assert (note.slug, note.loss) == ("lost-marks", True)
    assert placed(report(analysis), note.letter) == {(m.PROCESSES, NAME, "process")}
    page = Cells(to_html(analysis))
    assert page.tables["Processes"][1][0][1] == [f"doubt-{note.letter}"]


def test_what_is_about_nobody_stands_beside_what_all_rests_on(tmp_path: Path) -> None:
    write_helper(tmp_path, [], warnings=["the clock was set"])
    analysis = one(serving(), tmp_path)
    (note,) = m.notes(analysis)
    assert note.slug == "helper-warning"
    assert placed(report(analysis), note.letter) == {(m.RESTS, "", "")}
    text = "\n".join(plain(report(analysis)))
    assert re.search(r"^1 process recorded, 0 missed, .* \[a\]$", text, re.MULTILINE)
    assert [f"doubt-{note.letter}"] in Cells(to_html(analysis)).paragraphs


def test_losses_of_one_name_have_one_letter_and_each_name_has_its_words(tmp_path: Path) -> None:
    analysis = one(serving(), tmp_path)
    losses = tuple(Loss("counts-damaged", f"number {i}", "x") for i in range(40))
    analysis = replace(analysis, losses=(*losses, Loss("helper-died", "it died", "y")))
    lines = list(plain(report(analysis)))
    at = lines.index("Not in the recording")
    assert lines[at + 1 : at + 8] == [
        *(f"  [a] number {i} (x) [counts-damaged]" for i in range(5)),
        "  [a] and 35 more of these, see --json",
        "  [b] it died (y) [helper-died]",
    ]
    assert to_html(analysis).count('id="doubt-') == 2


# --- laws -----------------------------------------------------------------------------
def test_every_kind_of_number_has_a_place_and_every_place_is_there(tmp_path: Path) -> None:
    """A column that is given another name would lose its letters."""
    assert {kind for kinds in TOUCHES.values() for kind in kinds} <= set(m.CELLS)
    analyses = [test_idle_report.session(tmp_path), server(tmp_path / "b")]
    (tmp_path / "h").mkdir()
    analyses.append(test_host.session(tmp_path / "h"))
    for i, slug in enumerate(("requests-late", "frozen-garbage")):
        (tmp_path / str(i)).mkdir()
        analyses.append(BUILDS[slug](tmp_path / str(i)))
    there: set[tuple[str, str]] = set()
    for analysis in analyses:
        for block in report(analysis):
            columns = block.columns if isinstance(block, Table) else ()
            there |= {(block.section, column) for column in ("", *columns)}
    wanted = {
        (section, column)
        for cells in m.CELLS.values()
        for section, columns in cells.items()
        for column in ("", *columns)
    }
    assert wanted - there == set()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = tmp_path_factory.mktemp("two")
    serving(pid=12).write(folder)
    return one(serving(), folder)


WHO = st.lists(st.sampled_from([NAME, "EngineCore dp0 (pid 12)", "nobody (pid 1)"]), max_size=3, unique=True)
DOUBTS = st.lists(
    st.builds(
        Doubt,
        slug=st.sampled_from([*TOUCHES, "one-of-tomorrow"]),
        text=st.text(max_size=20),
        about=WHO.map(tuple),
        at=st.lists(st.integers(0, 10**12), max_size=2).map(tuple),
    ),
    max_size=40,
)


@given(DOUBTS)
def test_no_doubt_is_left_out_and_none_stands_in_another_ones_row(two: Analysis, doubts: list[Doubt]) -> None:
    analysis = replace(two, doubts=tuple(doubts))
    found = m.notes(analysis)
    assert len({note.letter for note in found}) == len(found) == len(doubts)
    blocks = report(analysis)
    for note, doubt in zip(found, doubts, strict=True):
        stands = placed(blocks, note.letter)
        assert stands, doubt
        for section, who, _ in stands:
            assert not who or section == m.RESTS or who in doubt.about
    assert len(list(plain(blocks))) > len(doubts)


def test_letters_go_on_after_z() -> None:
    assert [m.letter(i) for i in (0, 25, 26, 27, 51, 52, 701, 702)] == [
        "a", "z", "aa", "ab", "az", "ba", "zz", "aaa",
    ]  # fmt: skip
    assert len({m.letter(i) for i in range(2_000)}) == 2_000


# --- as it is printed -----------------------------------------------------------------
def test_digits_stay_in_line_on_a_pipe_and_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(pid=12).write(tmp_path)
    analysis = one(serving(words={"lost_passes": 3}), tmp_path)
    (table,) = [b for b in report(analysis) if isinstance(b, Table) and b.section == m.PROCESSES]
    narrow = table.without(c for c in table.columns if c not in ("process", "passes"))
    title, head, *rows = list(plain([narrow]))[1:]
    assert title == "Processes" and head.split() == ["process", "passes"]
    assert sorted(row.split(") ", 1)[1].strip() for row in rows) == ["21", "[a,b] 21"]
    assert len({len(row) for row in rows}) == 1
    drawn = on_80_columns([narrow], monkeypatch)
    assert any(line.rstrip().endswith("[a,b] 21") for line in drawn)


def test_the_csv_names_the_doubts_of_each_run(tmp_path: Path) -> None:
    serving(pid=12).write(tmp_path)
    analysis = one(serving(words={"lost_passes": 3}), tmp_path)
    runs = next(table for table in tables(analysis) if table.file == "runs")
    (piece,) = runs.pieces
    names, doubts = piece["process"], piece["doubts"]
    assert isinstance(names, tuple) and isinstance(doubts, tuple)
    assert dict(zip(names, doubts, strict=True)) == {NAME: "passes-lost", "EngineCore dp0 (pid 12)": None}
