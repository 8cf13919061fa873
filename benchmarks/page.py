"""The HTML page of a large session: time to build, size, and when a reader can use it in Chromium."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests import browser
from tests.synthetic import MS, Process, write_run

from benchmarks.common import Interpreter, Result, command, load
from benchmarks.synthetic import make

STEPS, PASSES = 1_000_000, 200_000
MOST_BYTES = 8 * 1024**2
MOST_SECONDS = 20.0
MOST_USABLE = 3.0
MOST_SORT = 1.0
ROUNDS = 3
#: Of a session with long tables.
PROCESSES, LABELS = 300, 30

#: Milliseconds from the start of the navigation until figures are drawn and painted; then from a
#: click on the head of the longest table until the sorted rows are painted, and the same for a key
#: that zooms the first figure.
USED = """(async () => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await painted();
  const usable = performance.now();
  const tables = [...document.querySelectorAll("table")];
  tables.sort((a, b) => b.rows.length - a.rows.length);
  let at = performance.now();
  tables[0].querySelectorAll("th button")[1].click();
  tables[0].offsetHeight;
  await painted();
  const sorted = performance.now() - at;
  const figure = document.getElementById("figure-0");
  at = performance.now();
  figure.dispatchEvent(new KeyboardEvent("keydown", {key: "+", bubbles: true}));
  await painted();
  return {usable, sorted, zoomed: performance.now() - at, rows: tables[0].rows.length,
          drawn: Number(document.documentElement.dataset.drawn)};
})()"""


def measure(interpreter: Interpreter) -> list[Result]:
    found = []
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as folder:
        session = Path(folder, "session")
        session.mkdir()
        make(session, STEPS + PASSES, (STEPS + PASSES) // PASSES)
        what = f"{STEPS:,} steps and {PASSES:,} passes of 4 processes"
        found += _one(session, what, "")
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as folder:
        session = Path(folder, "session")
        session.mkdir()
        _many(session)
        what = f"{PROCESSES} processes with {LABELS} labels each"
        found += _one(session, what, f", {PROCESSES} processes")
    return found


def _many(session: Path) -> None:
    """What makes tables long: processes, and labels in each."""
    for number in range(PROCESSES):
        process = Process(pid=10_000 + number)
        process.add_identity("Worker", number)
        process.add_state(0, (3, 0, 0))
        for i in range(LABELS * 5):
            process.add_span(f"label {i % LABELS}", i * 20 * MS, (i % 7 + 1) * MS)
        for i in range(20):
            process.add_pass(i * 150 * MS, (i % 9 + 1) * MS, generation=i % 3)
        process.add_state(3_100 * MS, (10, 7, 6), closing=True)
        process.write(session)
    write_run(session, ["server"])


def _one(session: Path, what: str, which: str) -> list[Result]:
    page = session / "page.html"
    used = command("report", str(session), "--html", str(page))
    size = page.stat().st_size if page.exists() else -1
    good = used.code == 0 and size > 10_000
    how = f"{what}; {used.how}; {load()}"
    found = [
        Result(
            f"seconds to a page{which}",
            f"{used.seconds:.1f} s",
            f"{MOST_SECONDS:.0f} s",
            good and used.within(MOST_SECONDS),
            how,
        ),
        Result(
            "size of it",
            f"{size / 2**20:.2f} MiB",
            f"{MOST_BYTES / 2**20:.0f} MiB",
            good and size <= MOST_BYTES,
            how,
        ),
    ]
    if not browser.CHROMIUM or size < 0:
        return [*found, Result("usable in Chromium", "", f"{MOST_USABLE:.0f} s", None, "no Chromium here")]
    seen = [_opened(page) for _ in range(ROUNDS)]
    # The best of a few: what the page costs, not what else ran on the machine.
    names = ("usable", "sorted", "zoomed", "cpu")
    usable, sorting, zoomed, cpu = (min(one[name] for one in seen) / 1e3 for name in names)
    # On a machine that is busy the wall clock says nothing of the page; more CPU than the bound does.
    fits = True if usable <= MOST_USABLE else None if cpu <= MOST_USABLE else False
    every = ", ".join(f"{one['usable'] / 1e3:.2f}" for one in seen)
    return [
        *found,
        Result(
            "usable in Chromium",
            f"{usable:.2f} s",
            f"{MOST_USABLE:.0f} s",
            fits,
            f"headless, best of {ROUNDS} opens ({every} s): from the navigation to the second frame after "
            f"all is drawn; {cpu:.2f} s CPU of its main thread; {load()}",
        ),
        Result(
            "its longest table sorted, its timeline zoomed",
            f"{sorting:.2f} s, {zoomed:.2f} s",
            f"{MOST_SORT:.0f} s each",
            max(sorting, zoomed) <= MOST_SORT,
            f"{seen[0]['rows']:.0f} rows; from the click, or the key, to the second frame after it",
        ),
    ]


def _opened(page: Path) -> dict[str, float]:
    with browser.page() as tab:
        tab.size(1280)
        tab.call("Performance.enable", timeDomain="threadTicks")
        tab.open(page)
        seen: dict[str, float] = tab.do(USED)
        measured = {one["name"]: one["value"] for one in tab.call("Performance.getMetrics")["metrics"]}
        seen["cpu"] = measured["TaskDuration"] * 1e3
        assert not tab.failures()
        return seen
