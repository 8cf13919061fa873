"""One thread alone was hot: planted windows are found with sharp edges, others are not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frostline.reach.solo import WINDOW, Solo, Suspect
from frostline.reach.watch import History

MS = 1_000_000
LOOK = 5 * MS
MAIN, OTHER, IDLE = 10, 11, 12

#: What a thread does in a stretch of time: share on a CPU.
Life = list[tuple[int, float, float]]


def cpu_at(life: Life, column: int, at: int) -> int:
    """CPU time at an instant; ``life`` is (until, main's share, other's share)."""
    total, begun = 0.0, 0
    for until, *shares in life:
        total += (min(at, until) - begun) * shares[column]
        begun = until
        if at <= until:
            break
    return int(total)


def watch(life: Life, tick: int = 1, late: int = 0, idle_every: int = 10) -> list[Suspect]:
    """Looks every 5 ms; sums are known at ticks only; an idle thread is looked at every tenth time."""
    solo, found = Solo(), []
    end = life[-1][0]
    at, i = 10 * LOOK, 0
    while at < end:
        for column, tid in enumerate((MAIN, OTHER)):
            cpu = cpu_at(life, column, at // tick * tick)
            # A thread that runs is given a CPU in each millisecond, as far as these tests care.
            solo.sample(tid, at, cpu, 0, cpu // MS)
        if i % idle_every == 0:
            solo.sample(IDLE, at, 7, 0, 1)
        found += solo.tick(at)
        i += 1
        at += LOOK + (late if i % 7 == 0 else 0)
    return found + solo.finish()


@given(
    st.integers(400, 900),
    st.integers(90, 600),
    st.floats(0, 0.6),
    st.floats(0.25, 0.6),
    st.sampled_from((1, 4 * MS)),
    st.integers(0, 4 * MS),
)
def test_a_planted_window_is_found(
    start: int, length: int, main: float, other: float, tick: int, late: int
) -> None:
    """Before and after it the main thread and another share the process."""
    stop = start + length
    life = [(start * MS, main, other), (stop * MS, 1.0, 0.0), ((stop + 500) * MS, main, other)]
    (found,) = watch(life, tick, late)
    assert found.tid == MAIN
    allowed = found.blur + tick + 4 * MS
    assert abs(found.start - start * MS) <= allowed and abs(found.stop - stop * MS) <= allowed
    assert found.blur <= LOOK + late and found.share > 0.85
    assert [(one.tid, one.how) for one in found.waiters] == [(OTHER, "still")]


@given(st.floats(0.15, 0.7), st.floats(0.15, 1.0))
def test_where_two_share_there_is_none(main: float, other: float) -> None:
    assert watch([(2000 * MS, main, other)]) == []
    assert watch([(2000 * MS, 1.0, other)]) == []


@given(st.integers(1, 35))
def test_what_is_shorter_than_the_window_is_none(length: int) -> None:
    life = [(500 * MS, 0.1, 0.5), ((500 + length) * MS, 1.0, 0.0), (1000 * MS, 0.1, 0.5)]
    assert watch(life) == []


def test_two_windows_are_two() -> None:
    life = [(500 * MS, 0.1, 0.5), (700 * MS, 1.0, 0.0), (760 * MS, 0.1, 0.5), (1000 * MS, 1.0, 0.0)]
    found = watch([*life, (1500 * MS, 0.1, 0.5)])
    assert [round(one.length / (50 * MS)) for one in found] == [4, 5]


def test_another_thread_alone_is_found_as_well() -> None:
    (found,) = watch([(500 * MS, 0.3, 0.1), (800 * MS, 0.0, 1.0), (1300 * MS, 0.3, 0.1)])
    assert found.tid == OTHER and [one.tid for one in found.waiters] == [MAIN]


def test_who_waits_for_the_gil_and_who_for_a_cpu() -> None:
    solo, found = Solo(), []
    for i in range(200):
        at = i * LOOK
        hot = 100 <= i < 160
        solo.sample(MAIN, at, at if hot else 0 if i < 100 else 160 * LOOK, 0, i)
        # Worked, and then woke for a few microseconds at each look; was runnable all the time; slept.
        solo.sample(OTHER, at, min(i, 100) * LOOK // 3 + 5_000 * max(0, i - 100), 0, i)
        solo.sample(IDLE, at, 0, max(0, min(i, 160) - 100) * LOOK, 0)
        solo.sample(IDLE + 1, at, 0, 0, 0)
        # By a timer of its own, as a loop in C++ does: it woke so before, too, and waits for nobody.
        solo.sample(IDLE + 2, at, 5_000 * i, 0, i)
        # Slept on a queue before: that something woke it, and goes on to, is to wait.
        solo.sample(IDLE + 3, at, 5_000 * max(0, i - 100), 0, max(0, i - 100))
        # Three times as often as one that waits for the GIL can: messages come for it (ZeroMQ, in C++).
        solo.sample(IDLE + 4, at, 15_000 * max(0, i - 100), 0, 3 * max(0, i - 100))
        found += solo.tick(at)
    (one,) = found + solo.finish()
    assert {waiter.tid: waiter.how for waiter in one.waiters} == {
        OTHER: "gil",
        IDLE: "queue",
        IDLE + 3: "gil",
    }


def test_a_thread_that_ends_stays_in_the_windows_that_it_was_in() -> None:
    """Else a window in which two ran would look like one of one."""
    solo, found = Solo(), []
    for i in range(100):
        at = (i + 1) * LOOK
        solo.sample(MAIN, at, at, 0, i)
        if i < 50:
            solo.sample(OTHER, at, at, 0, i)
        elif i == 50:
            solo.ended(OTHER)
        found += solo.tick(at)
    (one,) = found + solo.finish()
    assert one.start >= 50 * LOOK - WINDOW // 2


def test_memory_is_bounded() -> None:
    solo = Solo()
    for i in range(20_000):
        solo.sample(MAIN, i * LOOK, 0, 0, 0)
        solo.tick(i * LOOK)
    assert len(solo.threads[MAIN].time) < 1_000


@given(st.floats(0, 1), st.integers(100, 900), st.integers(60, 800))
def test_what_a_main_thread_had_of_a_cpu_is_kept_for_the_end(share: float, start: int, length: int) -> None:
    """It had a share of one while a pass ran, and waited for the rest; before and after it slept."""
    kept, stop = History(), start + length
    for at in range(0, stop + 200, 5):
        ran = min(max(at, start), stop) - start
        kept.add(at * MS, int(ran * share * MS), int(ran * (1 - share) * MS))
    found = kept.shares(start * MS, stop * MS)
    assert found is not None
    # A look in 25 ms is kept, so that up to one at either end is of the time around it.
    edges = length / (length + 60)
    assert share * edges - 0.01 <= found[0] <= share + 0.01
    assert (1 - share) * edges - 0.01 <= found[1] <= 1 - share + 0.01


def test_of_a_time_that_was_not_watched_nothing_is_said() -> None:
    kept = History()
    assert kept.shares(0, MS) is None
    for at in range(1000, 2000, 5):
        kept.add(at * MS, 0, 0)
    assert kept.shares(900 * MS, 1_100 * MS) is None and kept.shares(1_900 * MS, 2_100 * MS) is None
    assert kept.shares(1_100 * MS, 1_900 * MS) == (0.0, 0.0)


def test_what_is_kept_is_bounded() -> None:
    kept = History()
    for i in range(1_000_000):
        kept.add(i * 30 * MS, i * MS, 0)
    assert len(kept) <= 300_000
    late = (999_000 * 30 * MS, 999_900 * 30 * MS)
    found = kept.shares(*late)
    assert found is not None and abs(found[0] - 1 / 30) < 0.001
