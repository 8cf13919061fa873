"""The file in which each process under ``frostline cycles -- COMMAND`` tells what its passes reclaimed.

JSON, one object a line, each written at once, so that what a killed process wrote is whole up to its last
line.

::

    {"frostline_cycles": 1, "pid", "series", "interpreter", "forked", "looks_at"}     the first line
    {"why": "pass" | "exit" | "span", "at", ...}      one look: of a pass of the program's own, of one of ours
                                                      at its exit, or of all within a call of a span
    {"end": NS, "skipped", "tracemalloc"}             the interpreter's exit, after its last look

``at`` is ``time.monotonic_ns()``, ``skipped`` the passes so far that were not looked at since looks had
taken their share of the time, or since what was kept was as much as may be. The rest of a look is what
``heap.cycles.as_plain`` makes of it, and what ``agent.cycles`` adds.
"""

MAGIC = "frostline_cycles"
VERSION = 1
PREFIX, SUFFIX = "cycles-", ".jsonl"
#: Bytes that one process writes at most: a program that makes ever new kinds is not to fill the disk.
MOST = 32 * 1024 * 1024

#: What is looked at: full passes, all passes, or the first calls of each span.
FULL, ALL, SPANS = "full", "all", "spans"
#: What a look was at: a line's ``why``.
BY_PASS, BY_EXIT, BY_SPAN = "pass", "exit", "span"


def file_name(pid: int, series: int, interpreter: int) -> str:
    """Name of the file in the session folder; the same three numbers as its segments have."""
    return f"{PREFIX}{pid}-{series}-{interpreter}{SUFFIX}"


def setting(looks_at: str, calls: int, budget: float) -> str:
    """The value of FROSTLINE_CYCLES: what is looked at, so many calls of a span, so many seconds a look."""
    return f"{looks_at} {calls} {budget:g}"


def parse(text: str) -> "tuple[str, int, float]":
    """The three of ``setting``; the first is empty where the text is none."""
    looks_at, _, rest = text.partition(" ")
    calls, _, budget = rest.partition(" ")
    try:
        found = looks_at, max(1, int(calls)), max(0.0, float(budget))
    except ValueError:
        return "", 0, 0.0
    return found if looks_at in (FULL, ALL, SPANS) else ("", 0, 0.0)
