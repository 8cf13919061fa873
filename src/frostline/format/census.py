"""The census mark's numbers: when one was taken, and why one was not. Imports nothing.

Apart from the layout's tables, since only ``--census`` and what reads it need them.
"""

ATTACH, BOUNDARY, CLOSE = range(3)
#: What ``--census`` and FROSTLINE_CENSUS take, by these numbers.
MOMENTS = ("attach", "boundary", "close")

SERVING, SHARED, RUNNING = range(1, 4)
#: Why none was taken.
REASONS = (
    (SERVING, "requests were in flight"),
    (SHARED, "a forked child in which no full pass has run: a list of what it shares would copy every page"),
    (RUNNING, "a pass was running"),
)
