"""A session as it is now: every Python process of it, and what is in force there."""

import os
from typing import NamedTuple

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.format import meanings
from frostline.reach import counters, facts, files, missed, proc, sealing, segments
from frostline.reach.files import Note
from frostline.reach.segments import SegmentName

#: Segments by pid, series and interpreter.
_Series = dict[tuple[int, int, int], list[str]]
#: Forks of forks that are followed back.
_GENERATIONS = 8
_TOLD_BY = {1: "by the program", 2: "told", 3: "by an integration"}


class Line(NamedTuple):
    """What ``follow`` is doing in a process, from its live words."""

    #: In words: following, waiting, credit exhausted.
    state: str
    exhausted: bool
    #: B, objects that a full pass may walk.
    budget: int
    #: H, objects that the last walk of the whole heap kept.
    kept: int
    #: F, objects frozen since, deaths since the last count not counted.
    frozen: int
    alpha: float
    #: Objects in the oldest generation at which the next full pass is made.
    limit: int
    #: CPU milliseconds of the policy's own work in stops, and the longest: the passes do not hold it.
    own_ms: float
    own_longest_ms: float


class Row(NamedTuple):
    """One process."""

    pid: int
    name: str
    alive: bool
    exit: "int | None"
    recorded: bool
    reason: str
    detail: str
    python: str
    policy: str
    thresholds: str
    freeze: str
    boundary: str
    #: None where ``follow`` is not in force, or its boundary has not come.
    line: "Line | None"
    #: What the policy waits for and nobody has told so far: "steps", "requests", or nothing.
    awaits: str
    #: What the next full pass waits for, as the process's own counters have it now; empty if unreadable.
    next_full: str = ""


class Overview(NamedTuple):
    """A session."""

    path: str
    #: Whether a process of it lives.
    live: bool
    helper: str
    rows: list[Row]
    notes: list[str]


def read(session: str) -> Overview:
    """Reads what the helper saw and what the processes wrote.

    Raises:
        FrostlineError: ``no-session`` if there is nothing of ours in the folder.
    """
    path = os.path.realpath(session)
    helpers = files.read_notes(path, "helper-")
    runs = files.read_notes(path, "run-")
    series = _series(path)
    if not helpers and not runs and not series:
        raise FrostlineError(
            "no-session",
            f"{session} holds no session" if os.path.isdir(session) else f"there is no folder {session}",
            "Name the folder that `frostline run` wrote (its -o)."
            + (f" Of a pid: frostline ping {session}" if session.isdigit() else ""),
        )
    this_boot = not runs or any(run.text("boot_id") in ("", proc.boot_id()) for run in runs)
    rows: list[Row] = []
    told: set[tuple[int, int]] = set()
    answers: dict[int, str] = {}
    for helper in helpers:
        for entry in helper.notes("boundary"):
            answers[entry.number("pid")] = f"{entry.text('reply')}: {entry.text('detail')}"
    unseen = _not_seen_yet(helpers, series)
    for helper in helpers:
        for entry in helper.notes("processes"):
            if not entry.true("python"):
                continue
            pid = entry.number("pid")
            opened = {*entry.numbers("series"), *unseen.get((pid, entry.number("start_ticks")), ())}
            mine = {key: paths for key, paths in series.items() if key[0] == pid and key[1] in opened}
            # In another pid namespace the process calls itself by another number.
            mine = mine or {key: paths for key, paths in series.items() if key[1] in opened}
            told.update((key[0], key[1]) for key in mine)
            rows.append(_row(entry, mine, this_boot, answers, helper, series))
    for key, paths in series.items():
        if (key[0], key[1]) not in told:
            rows.append(_row_of_series(paths, this_boot, series))
    rows = [row._replace(next_full=_next_full(row, series)) if row.alive else row for row in rows]
    rows.sort(key=lambda row: (not row.alive, row.pid))
    # Programs that are no Python count too: what they start belongs to the session.
    live = any(row.alive for row in rows) or any(
        _alive(entry.number("pid"), entry.number("start_ticks"), this_boot)
        for helper in helpers
        for entry in helper.notes("processes")
        if entry.true("alive")
    )
    helper_state, notes = _helper_state(helpers, live)
    notes += awaited(rows)
    if helpers and not rows:
        notes.append(f"no Python process {'has been seen yet' if live else 'was seen: nothing to record'}")
    return Overview(path, live, helper_state, rows, notes)


def _series(path: str) -> dict[tuple[int, int, int], list[str]]:
    """Segments by series, sealed or live."""
    listing: dict[SegmentName, str] = {}
    active = sealing.active_folder(path)
    for folder in (active, path) if active else (path,):
        listing.update(segments.listing(folder))
    found: dict[tuple[int, int, int], list[str]] = {}
    for name in sorted(listing):
        found.setdefault(name[:3], []).append(listing[name])
    return found


def _not_seen_yet(
    helpers: list[Note], series: dict[tuple[int, int, int], list[str]]
) -> dict[tuple[int, int], list[int]]:
    """Series that began after the helper's last look, by the pid and start in their headers."""
    seen = {number for h in helpers for entry in h.notes("processes") for number in entry.numbers("series")}
    found: dict[tuple[int, int], list[int]] = {}
    for key, paths in series.items():
        header = segments.read_header(paths[0]) if key[1] not in seen else None
        if header is not None:
            found.setdefault((header.pid, header.process_start), []).append(key[1])
    return found


def _alive(pid: int, start_ticks: int, this_boot: bool) -> bool:
    now = proc.stat(pid) if this_boot else None
    return now is not None and now.alive and now.start_ticks == start_ticks


def _row(
    entry: Note,
    series: dict[tuple[int, int, int], list[str]],
    this_boot: bool,
    answers: dict[int, str],
    helper: Note,
    everyone: _Series,
) -> Row:
    pid = entry.number("pid")
    alive = _alive(pid, entry.number("start_ticks"), this_boot)
    paths = series[max(series, key=lambda key: (key[2] == 0, key[1]))] if series else []
    known = facts.read(paths)
    words = segments.read_words(paths[0]) if paths else None
    reason, detail = entry.text("missed"), entry.text("detail")
    recorded = entry.true("recorded") or bool(series and not reason)
    if recorded and words is not None and words["state"] == layout.STATE_OFF:
        off = dict(meanings.OFF_REASONS).get(words["off_reason"], f"reason {words['off_reason']}")
        reason, detail = "off", off
    if recorded and words is not None and words["off_reason"] == layout.OFF_REMOVED:
        reason, detail = "detached", "by request, it lives on" if alive else "by request"
    return _made(
        pid,
        # Its own word first: a shell that ends in an exec may not have been looked at again.
        (known.header.text.get("argv") if known.header else None) or entry.texts("argv"),
        entry.text("title"),
        alive,
        entry.optional("exit"),
        recorded,
        reason,
        detail,
        known,
        _boundary(known, answers.get(pid), helper, alive),
        _inherits(known, everyone),
        _line(words),
    )


def _inherits(known: facts.Facts, everyone: _Series) -> bool:
    """Whether a forked child that froze nothing holds what its parent, or a parent's, had frozen by then."""
    for _ in range(_GENERATIONS):
        if known.forked is None:
            return False
        when, pid, number = known.forked
        known = facts.read(everyone.get((pid, number, 0), []), when)
        if known.frozen_since:
            return True
    return False


def _row_of_series(paths: list[str], this_boot: bool, everyone: _Series) -> Row:
    """A process that no helper saw: started with the environment alone, or too short."""
    known = facts.read(paths)
    header = known.header
    if header is None:
        parsed = segments.parse_name(os.path.basename(paths[0]))
        return _made(
            parsed.pid if parsed else 0,
            [],
            "",
            False,
            None,
            False,
            "damaged",
            "its header cannot be read",
            known,
            "",
            False,
            None,
        )
    alive = _alive(header.pid, header.process_start, this_boot)
    return _made(
        header.pid,
        header.text.get("argv", []),
        "",
        alive,
        None,
        True,
        "",
        "",
        known,
        _boundary(known, None, Note(), alive),
        _inherits(known, everyone),
        _line(segments.read_words(paths[0])),
    )


def _next_full(row: Row, everyone: _Series) -> str:
    mine = [key for key in everyone if key[0] == row.pid and key[2] == 0]
    header = segments.read_header(everyone[max(mine)][0]) if row.recorded and mine else None
    return counters.in_words(row.pid, header.hexversion, header.build) if header is not None else ""


def _line(words: "dict[str, int] | None") -> "Line | None":
    if words is None or not words["line_state"]:
        return None
    state = words["line_state"]
    return Line(
        dict(meanings.LINE_STATES).get(state, f"state {state}").partition(":")[0],
        state == layout.LINE_STATE_EXHAUSTED,
        words["line_budget"],
        words["line_kept"],
        words["line_frozen"],
        words["line_alpha"] / 1000,
        words["line_limit"],
        words["line_own_ns"] / 1e6,
        words["line_own_longest_ns"] / 1e6,
    )


def _made(
    pid: int,
    argv: list[str],
    title: str,
    alive: bool,
    exit_code: "int | None",
    recorded: bool,
    reason: str,
    detail: str,
    known: facts.Facts,
    boundary: str,
    inherits: bool,
    line: "Line | None",
) -> Row:
    version = known.header.hexversion if known.header else 0
    python = f"{version >> 24}.{version >> 16 & 255}.{version >> 8 & 255}" if version else ""
    thresholds = ",".join(map(str, known.thresholds)) if known.thresholds else ""
    if thresholds and not known.enabled:
        thresholds += " (disabled)"
    if known.dead_collector:
        thresholds += " (collector dead: forked inside a pass)"
    freeze = ""
    if recorded:
        freeze = "inherited" if inherits else "no"
        by = ("by Frostline" if known.frozen_by_us else "by the program") + ", spliced" * known.spliced
        if known.frozen_since:
            freeze = by
        elif known.thawed:
            # shutdown() thaws last: a "no" would say that the freeze never was.
            freeze = f"thawed, was {by}"
    return Row(
        pid,
        facts.name(known.identity, argv, title),
        alive,
        exit_code,
        recorded,
        reason,
        detail,
        python,
        known.policy if recorded else "",
        thresholds,
        freeze,
        boundary,
        line,
        known.awaits if recorded else "",
    )


def _boundary(known: facts.Facts, answer: "str | None", helper: Note, alive: bool) -> str:
    if known.boundary:
        return _TOLD_BY.get(known.boundary_by, "told") + ", late" * known.boundary_late
    if answer is not None:
        return answer
    waiting = helper.text("waiting_for")
    if not waiting or helper.note("ready").number("at_ns"):
        return ""
    return f"pending: --ready-{waiting}" if alive else "never came"


_AWAITED = {
    "steps": (
        "frostline.step() has not been called so far",
        "Until then the collector works there as without a policy: call it once a step, on every rank.",
    ),
    "requests": (
        "no end of a request and no idle moment has been told so far",
        "Nothing is known to be idle there, and a full pass that is due waits for the deadline: put"
        " `with frostline.request():` around each request, or call frostline.idle() where there is nothing"
        " to do. Servers that Frostline knows tell it by themselves.",
    ),
}
#: Processes that are named at the most.
_NAMED = 5


def awaited(rows: list[Row]) -> list[str]:
    """A line for each policy that waits for what nobody tells; else it would be silent for ever."""
    found = []
    for what, (text, remedy) in _AWAITED.items():
        for policy in sorted({row.policy for row in rows if row.awaits == what}):
            mine = [row for row in rows if row.policy == policy and row.recorded]
            waiting = [f"{row.name} (pid {row.pid})" for row in mine if row.awaits == what]
            more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
            others = ""
            if len(waiting) < len(mine):
                others = f" (in {len(mine) - len(waiting)} others it has)"
            shown = ", ".join(waiting[:_NAMED])
            found.append(f"policy {policy}: {text} in {shown}{more}{others}. {remedy}")
    return found


def _helper_state(helpers: list[Note], live: bool) -> tuple[str, list[str]]:
    notes: list[str] = []
    if not all(helpers):
        notes.append("what a helper wrote cannot be read: it is damaged")
        helpers = [helper for helper in helpers if helper]
    for helper in helpers:
        notes += helper.texts("warnings") + helper.note("counters").texts("refused")
        ready = helper.note("ready")
        if ready and not ready.number("at_ns"):
            over = "READY never came" if helper.true("ended") else "READY has not come yet"
            notes.append(f"{over}: {ready.text('detail')}")
        for series, what in helper.note("dropped").items():
            counts = [(what.number(kind), kind) for kind in ("spans", "young_passes")]
            dropped = ", ".join(f"{count} {kind.replace('_', ' ')}" for count, kind in counts if count)
            notes.append(f"{series}: dropped by the limit: {dropped}")
    if not helpers:
        return "none", [*notes, "no helper watched this session: processes that were missed are not known"]
    if all(helper.true("ended") for helper in helpers):
        return "ended", notes
    if any(helper.number("pid_namespace") not in (0, proc.pid_namespace()) for helper in helpers):
        notes.append("recorded in another pid namespace: what is alive there cannot be told from here")
        return "elsewhere", notes
    running = any(
        not helper.true("ended") and _alive(helper.number("pid"), helper.number("start_ticks"), True)
        for helper in helpers
    )
    if running:
        return "watching" if live else "finishing", notes
    notes.append("the helper has gone before the command: processes that started later may be missing here")
    return "gone", notes


def explain(reason: str) -> tuple[str, str]:
    """What a reason means, and what to do about it."""
    return missed.REASONS.get(reason, ("", ""))
