"""The recording's layout: constants and field tables, no I/O.

Imported inside the target, so it imports nothing. Everything that reads or
writes a recording takes its offsets from here, and ``docs/format.md`` is
generated from these tables (``python -m frostline.format.describe``).

All integers are little-endian. Times are ``time.monotonic_ns()``, nanoseconds
of CLOCK_MONOTONIC: one clock for every process of a Linux host.
"""

MAGIC = b"FROSTLN\n"
VERSION = 1

SUFFIX = ".flr"
HEADER_SIZE = 4096
#: The first segment of a series, all four regions in one file.
FIRST_SEGMENT_SIZE = 64 * 1024
#: Later segments hold one region each; each is larger than the last, to this bound.
#: Reserving 1 MiB on tmpfs costs about 0.2 ms; 16 MiB would be a pause of its own.
GROWN_SEGMENT_SIZES = (128 * 1024, 512 * 1024, 1024 * 1024)

# --- segment header -----------------------------------------------------------------
#: (name, struct code, meaning). MAGIC is written last, so a header without it is unfinished.
HEADER_FIELDS = (
    ("magic", "8s", "MAGIC"),
    ("version", "I", "format version"),
    ("header_size", "I", "bytes before the first region"),
    ("pid", "I", "process id in its own pid namespace"),
    ("parent", "I", "parent's process id when the series was opened"),
    ("series", "Q", "monotonic ns at opening; with pid, the series' name"),
    ("segment", "I", "number of this segment in its series, from 0"),
    ("interpreter", "I", "interpreter id, 0 for the main one"),
    ("pid_namespace", "Q", "inode of /proc/self/ns/pid, 0 if unreadable"),
    ("process_start", "Q", "field 22 of /proc/self/stat, clock ticks since boot"),
    ("anchor_monotonic", "Q", "monotonic ns, halfway between the two reads around anchor_realtime"),
    ("anchor_realtime", "Q", "realtime ns since the epoch"),
    ("anchor_error", "Q", "half the distance of those two reads, ns"),
    ("hexversion", "I", "sys.hexversion of the interpreter"),
    ("build", "I", "BUILD_* flags"),
    ("regions", "I", "how many entries of the region table are used"),
    ("text_size", "I", "bytes used of the text area"),
)
HEADER = "<" + "".join(code for _, code, _ in HEADER_FIELDS)

BUILD_FREE_THREADED = 1
BUILD_DEBUG = 2

#: Region table at REGION_TABLE: MAX_REGIONS entries.
REGION_TABLE = 256
MAX_REGIONS = 4
REGION_FIELDS = (
    ("kind", "I", "REGION_*"),
    ("record_size", "I", "bytes a record, its commit word included"),
    ("offset", "Q", "first byte of the first record"),
    ("capacity", "Q", "records that fit"),
)
REGION = "<" + "".join(code for _, code, _ in REGION_FIELDS)
REGION_PASSES = 1
REGION_SPANS = 2
REGION_MARKS = 3
REGION_NAMES = 4
REGION_LABELS = {
    REGION_PASSES: "passes",
    REGION_SPANS: "spans",
    REGION_MARKS: "marks",
    REGION_NAMES: "names",
}

#: Live words (unsigned 64-bit, each stored by one aligned write), segment 0 only.
WORDS = 512
WORD_FIELDS = (
    ("request", "number of the last request, written last by the caller"),
    ("opcode", "OP_* of that request"),
    ("arg0", "argument, two's complement"),
    ("arg1", "argument"),
    ("arg2", "argument"),
    ("reply", "number of the last request answered, written last by the target"),
    ("status", "REPLY_*"),
    ("result", "result of the request, two's complement"),
    ("state", "STATE_*: what the recorder is doing"),
    ("off_reason", "OFF_*: why it is off"),
    ("off_errno", "errno behind off_reason, 0 if none"),
    ("lost_passes", "passes seen and not recorded"),
    ("lost_spans", "spans seen and not recorded"),
    ("lost_marks", "marks and names not recorded"),
    ("dropped_spans", "recorded spans removed by the retention limit inside the target"),
    ("retention", "bytes this process may keep, 0 for no limit"),
    ("boundary", "monotonic ns of the last boundary, 0 if none"),
    ("closed", "monotonic ns of an orderly close, 0 while open"),
    ("nested", "requests begun while another was being answered"),
    ("handler", "1 while the control handler is installed"),
    ("line_state", "LINE_STATE_*: what the policy follow is doing"),
    ("line_budget", "follow: B, objects that a full pass may walk"),
    ("line_kept", "follow: H, objects that the last walk of the whole heap kept"),
    ("line_frozen", "follow: F, objects frozen since, deaths not counted since the last count"),
    ("line_alpha", "follow: alpha, thousandths"),
    ("line_limit", "follow: objects in the oldest generation at which the next full pass is made"),
    ("line_own_ns", "follow: CPU ns of its own callback in stops, where it counted or judged"),
    ("line_own_longest_ns", "follow: the longest of these"),
)
WORD = {name: WORDS // 8 + i for i, (name, _) in enumerate(WORD_FIELDS)}

#: Text area: UTF-8 lines ``key<TAB>value``; backslash, tab and newline in values escaped.
TEXT = 1024
TEXT_SIZE = HEADER_SIZE - TEXT

# --- records ------------------------------------------------------------------------
# Each record ends in its commit word, slot + 1, written last: nothing else says that a
# record is complete. A zero commit word before a committed slot is a record that was
# being written (or lost with its writer).

#: A pass of the collector. Passes of generations 0 and 1 fill only the first PASS_YOUNG_FIELDS
#: fields (and others, begin, end where other tools' callbacks are there); PASS_FULL says that all
#: are filled. The tid of a young pass is found by its thread in marks and full passes.
PASS_FIELDS = (
    ("start", "Q", "'start' reached us: the stop begins as the process feels it"),
    ("stop", "Q", "'stop' reached us: the pass is over"),
    ("thread", "Q", "threading.get_ident() of the thread it ran in"),
    ("collected", "q", "objects reclaimed"),
    ("count0", "i", "gc.get_count()[0] at 'start'"),
    ("count1", "i", "gc.get_count()[1]"),
    ("count2", "i", "gc.get_count()[2]"),
    ("generation", "B", "0, 1, 2, as the interpreter names it"),
    ("flags", "B", "PASS_*"),
    ("others", "H", "other callbacks in gc.callbacks"),
    ("tid", "I", "native id of the thread"),
    ("uncollectable", "I", "objects found uncollectable"),
    ("threshold0", "i", "gc.get_threshold()[0] at 'start'"),
    ("threshold1", "i", "gc.get_threshold()[1]"),
    ("threshold2", "i", "gc.get_threshold()[2]"),
    ("trigger_file", "I", "name id of the interrupted frame's file, 0 if unknown"),
    ("trigger_line", "I", "its line"),
    ("trigger_function", "I", "name id of its function"),
    ("candidates", "q", "objects walked, as the interpreter says (3.15), else -1"),
    ("duration", "d", "seconds, as the interpreter says (3.15), else -1"),
    ("begin", "Q", "'start' reached our last callback: the others have run; 0 if none"),
    ("end", "Q", "'stop' reached our last callback: the stop ends; 0 if none. Written after the commit word"),
)
PASS_YOUNG_FIELDS = 8
PASS_SIZE = 128
PASS_FULL = 1  # every field is filled
PASS_EXPLICIT = 2  # inside a recorded gc.collect() call
PASS_DISABLED = 4  # gc.isenabled() was false at 'start'
PASS_FROSTLINE = 8  # started by Frostline itself (boundary, control)
PASS_NOT_FIRST = 16  # another callback stands before ours: start is late by its time

SPAN_FIELDS = (
    ("start", "Q", "begin"),
    ("stop", "Q", "end"),
    ("thread", "Q", "threading.get_ident() at the end"),
    ("label", "I", "name id"),
    ("kind", "H", "SPAN_*"),
    ("flags", "H", "SPAN_FLAG_*"),
    ("value0", "q", "a batch size where the flags say so, else the program's own number; -1 if none"),
    ("value1", "q", "a name id where the flags say so, else the program's own number; -1 if none"),
    ("task", "Q", "id of the asyncio task or of the two-call token, 0 if none"),
)
SPAN_SIZE = 64
SPAN_SYNC = 1  # one thread ran it from begin to end
SPAN_ASYNC = 2  # a coroutine: others ran in between
SPAN_GENERATOR = 3
SPAN_SPLIT = 4  # begin and end were two calls
SPAN_FLAG_ERROR = 1  # it ended by an exception
SPAN_FLAG_PRESET = 2  # wrapped by a preset

MARK_FIELDS = (
    ("time", "Q", "when it happened, or began"),
    ("stop", "Q", "when it ended; equal to time for an instant"),
    ("kind", "I", "MARK_*"),
    ("flags", "I", "MARK_FLAG_*"),
    ("thread", "Q", "threading.get_ident()"),
    ("tid", "I", "native thread id"),
    ("file", "I", "name id of the caller's file, 0 if none"),
    ("line", "I", "its line"),
    ("function", "I", "name id of its function"),
    ("a", "q", "by kind"),
    ("b", "q", "by kind"),
    ("c", "q", "by kind"),
    ("d", "q", "by kind"),
    ("e", "q", "by kind"),
)
MARK_SIZE = 96
# 18 was to name threads. Nothing ever wrote it.
(
    MARK_ATTACH, MARK_CLOSE, MARK_FORK, MARK_EXEC, MARK_FREEZE, MARK_THAW, MARK_THRESHOLD, MARK_COLLECT,
    MARK_ENABLE, MARK_DISABLE, MARK_BOUNDARY, MARK_POLICY, MARK_STATE, MARK_IDENTITY, MARK_WRAPPED,
    MARK_REFUSED, MARK_REINSTALLED, _, MARK_OTHER_CALLBACK, MARK_DEAD_COLLECTOR, MARK_FORKED, MARK_LINE,
    MARK_PROMOTED, MARK_LOOK, MARK_ALLOCATED, MARK_CENSUS,
) = range(1, 27)  # fmt: skip
MARK_KINDS = (
    (MARK_ATTACH, "attach", "recording begins; a = ns lived before (attached to), b = objects tracked + 1"),
    (MARK_CLOSE, "close", "recording ends in an orderly way"),
    (MARK_FORK, "fork", "this process forked (parent's side)"),
    (MARK_EXEC, "exec", "this process replaces its program"),
    (
        MARK_FREEZE,
        "freeze",
        "gc.freeze(); a = objects frozen since the start, -1 if not counted; b = 1 + requests open at a splice of ours or at the program's own, 0 if nobody tells of requests; c = 1 + gc.get_count()[0] just before the program's own, 0 if not read",
    ),
    (MARK_THAW, "thaw", "gc.unfreeze(); a = objects thawed, -1 if not counted"),
    (MARK_THRESHOLD, "threshold", "gc.set_threshold(); a, b, c = new thresholds"),
    (
        MARK_COLLECT,
        "collect",
        "explicit gc.collect(); a = generation, b = what it returned, -1 if it raised, c = passes that ran inside the call",
    ),
    (MARK_ENABLE, "enable", "gc.enable() that changed the state"),
    (MARK_DISABLE, "disable", "gc.disable() that changed the state"),
    (MARK_BOUNDARY, "boundary", "start-up ended; a = 1 program, 2 supervisor, 3 integration"),
    (MARK_POLICY, "policy", "a policy came into force; a = name id of its text"),
    (
        MARK_STATE,
        "state",
        "one generation's state, at attach and at close: a = generation, b = collections, c = collected, d = uncollectable, e = count. a = 3: thresholds in b, c, d and enabled in e. a = 4: b = freeze count (-1 if not counted), c = other callbacks, d = debug flags",
    ),
    (
        MARK_IDENTITY,
        "identity",
        "a = name id of role (0 none), b = rank (-1 none), c = where it is from (IDENTITY_*)",
    ),
    (MARK_WRAPPED, "wrapped", "a span was put on a callable; a = name id of target, b = name id of label"),
    (MARK_REFUSED, "refused", "a span could not be put on; a = name id of target, b = name id of the reason"),
    (MARK_REINSTALLED, "reinstalled", "the host had removed our callback; put back"),
    (MARK_OTHER_CALLBACK, "callback", "another callback is in gc.callbacks; a = name id of what it is"),
    (
        MARK_DEAD_COLLECTOR,
        "dead collector",
        "the collector does not run in this process: it was forked inside a pass",
    ),
    (
        MARK_FORKED,
        "forked",
        "this process is a fork; a = parent pid, b = parent's series, c = ns since the fork began, 0 if unknown",
    ),
    (
        MARK_LINE,
        "line",
        "what a policy did and why; a = LINE_*, b = objects meant, c = F, d = H, e = the credit that F may reach",
    ),
    (
        MARK_PROMOTED,
        "promoted",
        "a census of generation 1 just before a gen-1 pass, one mark a type; a = name id of the type (0: it was empty), b = objects of it among c looked at, of d there, e = ns that it took",
    ),
    (
        MARK_ALLOCATED,
        "allocated",
        "of objects in generation 1 at a census (the mark promoted of the same time), by what tracemalloc says; file and line = where they were allocated, a = name id of the type (0: none is known), b = objects of it from there among c asked about, of which d are not known, e = ns that asking took",
    ),
    (MARK_LOOK, "look", "stopped for a look at its heap; a = 0 census, 1 cycles, 2 who holds what, 3 audit"),
    (
        MARK_CENSUS,
        "census",
        "the tracked heap, several marks of one time. The first: a = 0, b = objects, c = freeze count, d = one in so many was looked at (0: none was, b = why), e = when (CENSUS_*). Then one a type: a = its name id, b = objects, c = slots, d = bytes, e = of them in generation 2",
    ),
)
#: Values of the line mark's ``a``, in words in ``meanings``.
(
    LINE_MOVED, LINE_WHOLE_HEAP, LINE_EXHAUSTED, LINE_RESTORED, LINE_GUARD, LINE_BUDGET_RAISED, LINE_OVER_BURST,
    LINE_OVER_GARBAGE, LINE_OVER_YIELD, LINE_OVER_EXHAUSTED, LINE_DEADLINE, LINE_SWITCHED_OFF, LINE_MEASURED,
    LINE_WAITS, LINE_OVER_WAITED, LINE_AWAITS, LINE_TOLD,
) = range(1, 18)  # fmt: skip
MARK_FLAG_LATE = 1  # told by a supervisor: requests may have been in flight
MARK_FLAG_SPLICE = 2  # frozen without a collect before
MARK_FLAG_OURS = 4  # Frostline did it
MARK_FLAG_SKIPPED = 8  # an explicit collect that did nothing: a pass was running
MARK_FLAG_CLOSING = 16  # a state taken at close

IDENTITY_PROGRAM = 1
IDENTITY_TITLE = 2
IDENTITY_MULTIPROCESSING = 3
IDENTITY_MODULE = 4

NAME_FIELDS = (
    ("id", "I", "number that other records use; 0 is never used"),
    ("flags", "H", "NAME_*"),
    ("length", "H", "bytes used of text"),
    ("text", "240s", "UTF-8; of a longer text the end"),
)
NAME_SIZE = 256
NAME_TRUNCATED = 1

RECORDS = (
    (REGION_PASSES, PASS_SIZE, PASS_FIELDS),
    (REGION_SPANS, SPAN_SIZE, SPAN_FIELDS),
    (REGION_MARKS, MARK_SIZE, MARK_FIELDS),
    (REGION_NAMES, NAME_SIZE, NAME_FIELDS),
)
PASS = "<" + "".join(code for _, code, _ in PASS_FIELDS)
#: As the recorder packs them: one call, the commit word last.
PASS_PACKED = PASS + "8xQ"
PASS_YOUNG_PACKED = "<QQQqiiiB75xQ"
SPAN = "<" + "".join(code for _, code, _ in SPAN_FIELDS)
MARK = "<" + "".join(code for _, code, _ in MARK_FIELDS)
NAME = "<" + "".join(code for _, code, _ in NAME_FIELDS)

#: Regions of the first segment: (kind, record size, capacity). Their sum is FIRST_SEGMENT_SIZE.
FIRST_REGIONS = (
    (REGION_NAMES, NAME_SIZE, 40),
    (REGION_MARKS, MARK_SIZE, 64),
    (REGION_PASSES, PASS_SIZE, 128),
    (REGION_SPANS, SPAN_SIZE, 448),
)

# --- live words' values -------------------------------------------------------------
STATE_OPENING, STATE_RECORDING, STATE_CLOSED, STATE_OFF = range(4)

LINE_STATE_NONE, LINE_STATE_FOLLOWS, LINE_STATE_WAITS, LINE_STATE_EXHAUSTED = range(4)

(
    OFF_NONE, OFF_SPACE, OFF_FOLDER, OFF_PERMISSION, OFF_ERROR, OFF_FREE_THREADED, OFF_REMOVED,
) = range(7)  # fmt: skip

# --- control ------------------------------------------------------------------------
OP_PING = 1
OP_FREEZE = 2
OP_THAW = 3
OP_COLLECT = 4
OP_TUNE = 5
OP_BOUNDARY = 6
OP_POLICY = 7
POLICY_NONE, POLICY_ACTS, POLICY_WAITS, POLICY_FROZEN, POLICY_SPLICED, POLICY_INHERITED, POLICY_PAST = range(
    7
)
#: What a freeze that was asked for answers: not counted, and whether the policy walks the heap later on.
FREEZE_STAYS, FREEZE_PUT_RIGHT = -1, -2
OP_DETACH = 8
#: What a detach has undone, and what of ours stays, bit by bit.
DETACH_THAWED, DETACH_THRESHOLDS, DETACH_SPANS, DETACH_STAND_INS, DETACH_HANDLER = 1, 2, 4, 8, 16
DETACH_OWN_POLICY = 32
REPLY_NONE, REPLY_DONE, REPLY_BUSY, REPLY_ERROR, REPLY_UNKNOWN, REPLY_REFUSED = range(6)

# --- files --------------------------------------------------------------------------
#: In the session folder: a symbolic link to the folder of active segments (tmpfs).
ACTIVE_LINK = "active"


def segment_name(pid: int, series: int, interpreter: int, segment: int) -> str:
    """File name of one segment; the same in the active folder and in the session folder."""
    return f"{pid}-{series}-{interpreter}.{segment:04d}{SUFFIX}"


# --- redaction ----------------------------------------------------------------------
SECRET_WORDS = ("key", "token", "secret", "password", "passwd", "pwd", "credential", "auth", "cookie", "dsn")
REDACTED = "[redacted]"


def redact(arguments: "list[str]") -> "list[str]":
    """A command line that may be shown to strangers.

    Hidden: the value after an option or before-``=`` name with a secret word in it,
    user-info in URLs, and anything that follows ``Bearer`` or ``Basic``.
    """
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        if hide_next and not argument.startswith("--"):
            shown.append(REDACTED)
            hide_next = False
            continue
        hide_next = False
        name, equals, value = argument.partition("=")
        if _secret(name) and equals and value and " " not in name and "://" not in name:
            shown.append(name + "=" + REDACTED)
            continue
        if argument.startswith("-") and not equals and _secret(argument):
            hide_next = True
        shown.append(_without_credentials(argument))
    return shown


def _secret(name: str) -> bool:
    words = name.lower().replace("-", "_").replace(".", "_").split("_")
    return any(word.endswith(secret) for word in words for secret in SECRET_WORDS)


def _without_credentials(text: str) -> str:
    at = text.find("://")
    while at >= 0:
        rest = text[at + 3 :]
        end = min((i for i in (rest.find(c) for c in "/?# \"'") if i >= 0), default=len(rest))
        user, sign, host = rest[:end].rpartition("@")
        if sign and user:
            text = text[: at + 3] + REDACTED + "@" + host + rest[end:]
        query = text.find("?", at)
        if query >= 0:
            parts = text[query + 1 :].split("&")
            text = text[: query + 1] + "&".join(_hidden_value(part) for part in parts)
        at = text.find("://", at + 3)
    for scheme in ("Bearer ", "Basic ", "bearer ", "basic "):
        before, found, _ = text.partition(scheme)
        if found:
            text = before + found + REDACTED
    return text


def _hidden_value(part: str) -> str:
    name, equals, value = part.partition("=")
    return name + "=" + REDACTED if equals and value and _secret(name) else part
