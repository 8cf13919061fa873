"""The file of the collector's own two numbers, as the helper of ``frostline run`` reads them (D4).

Before 3.15 an interpreter does not tell how much its gen-1 passes left since the last full pass
(pending), nor, in any version, what it compares that with (total). Both decide when the next full pass
starts. The helper reads them from the process's memory, from outside; the process takes no part in it.

A file is MAGIC, then records of one size each. A tail that is shorter than a record was being written.
"""

MAGIC = b"FROSTCN1"
PREFIX = "counts-"
SUFFIX = ".flc"

FIELDS = (
    ("before", "Q", "monotonic ns before the read"),
    ("after", "Q", "monotonic ns after it"),
    ("process_start", "Q", "field 22 of /proc/PID/stat: with pid, whose numbers these are"),
    ("pid", "I", "process id in its own pid namespace"),
    ("count0", "i", "gc.get_count()[0]"),
    ("count1", "i", "gc.get_count()[1]"),
    ("count2", "i", "gc.get_count()[2]"),
    ("total", "q", "long_lived_total: objects that the last full pass left"),
    ("pending", "q", "long_lived_pending: what gen-1 passes have left since then"),
)
RECORD = "<" + "".join(code for _, code, _ in FIELDS)
SIZE = 56
