"""A wait for a CPU is never claimed to be longer than it was, whenever the host was looked at."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from frostline.analysis.hostcause import COLUMN
from frostline.format import host as layout
from frostline.gate.preempted import waited
from frostline.recording.host import Track

#: A thread's life: (what it does, microseconds).
LIFE = st.lists(
    st.tuples(st.sampled_from(("cpu", "queue", "asleep")), st.integers(1, 60_000)), min_size=3, max_size=30
)


@given(LIFE, st.lists(st.floats(0, 1), max_size=30), st.data())
def test_no_wait_is_claimed_that_was_not(
    life: list[tuple[str, int]], looks: list[float], data: st.DataObject
) -> None:
    edges = [0]
    for _, took in life:
        edges.append(edges[-1] + took)
    end = edges[-1]

    def at(when: int) -> dict[str, int]:
        """As the kernel counts: a wait when it is over, and a switch away when the thread goes to sleep."""
        i = min(bisect_right(edges, when) - 1, len(life) - 1)
        found = {"cpu": 0, "queue": 0, "asleep": 0}
        for n, (what, took) in enumerate(life[: i + 1]):
            inside = min(when, edges[n + 1]) - edges[n]
            found["cpu"] += inside if what == "cpu" else 0
            found["queue"] += took if what == "queue" and when >= edges[n + 1] else 0
            found["asleep"] += what == "asleep"
        return {
            "main_cpu_us": found["cpu"], "main_queue_us": found["queue"], "voluntary": found["asleep"],
        }  # fmt: skip

    # A pass begins and ends on a CPU. It does not sleep, unless a finalizer does.
    on_cpu = [n for n, (what, _) in enumerate(life) if what == "cpu"]
    assume(on_cpu)
    first = data.draw(st.sampled_from(on_cpu))
    reach = first
    while reach + 1 < len(life) and life[reach + 1][0] != "asleep":
        reach += 1
    last = data.draw(st.sampled_from([n for n in on_cpu if first <= n <= reach]))
    start = data.draw(st.integers(edges[first], edges[first + 1] - 1))
    stop = data.draw(st.integers(max(start + 1, edges[last] + 1), max(start + 1, edges[last + 1])))
    truth = sum(
        max(0, min(stop, edges[n + 1]) - max(start, edges[n]))
        for n, (what, _) in enumerate(life)
        if what == "queue"
    )
    times = sorted({0, end, *(int(look * end) for look in looks)})
    values = np.zeros((len(times), len(layout.PROCESS_FIELDS)), np.int64)
    for row, when in enumerate(times):
        for name, value in at(when).items():
            values[row, COLUMN[name]] = value
    # "Nothing changed" says nothing of a thread that waits all the time, so no two samples are called flat.
    track = Track(np.array(times, np.int64) * 1000, values, np.zeros(len(times) - 1, bool))
    found = waited(track, 1000 * start, 1000 * stop, True)
    assert found is not None and 0 <= found <= 1000 * truth
    # Of another thread the sums say nothing of this one.
    assert waited(track, 1000 * start, 1000 * stop, False) == 0


def test_samples_that_lie_at_its_ends_prove_all_of_it() -> None:
    values = np.zeros((2, len(layout.PROCESS_FIELDS)), np.int64)
    values[1, COLUMN["main_cpu_us"]], values[1, COLUMN["main_queue_us"]] = 30_000, 70_000
    track = Track(np.array([0, 100_000_000]), values, np.zeros(1, bool))
    assert waited(track, 0, 100_000_000, True) == 70_000_000
    assert waited(track, 0, 100_000_001, True) is None and waited(None, 0, 1, True) is None
