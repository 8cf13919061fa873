"""Passes outside the main thread: finalizers of what a pass reclaims run in its thread (case 42)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline.analysis.pauses import Pauses
from frostline.recording import Series


@dataclass(frozen=True)
class ThreadPasses:
    """The passes that ran in one thread that is not the main one."""

    #: Native id; 0 where no full pass or mark of it told.
    tid: int
    count: int
    full: int
    total: int
    longest: int
    reclaimed: int


def native_ids(series: Series) -> dict[int, int]:
    """The native id of each thread, by the index that passes and spans hold; as far as it was told."""
    at, passes = series.threads, series.passes
    tids = {at[m.thread]: m.tid for m in series.marks if m.tid and m.thread in at}
    full = passes["generation"] == 2
    for thread, tid in zip(passes["thread"][full].tolist(), passes["tid"][full].tolist(), strict=True):
        if tid:
            tids.setdefault(thread, tid)
    return tids


def outside_main(series: Series, pauses: Pauses) -> tuple[ThreadPasses, ...]:
    """One entry a thread, the one that reclaimed most first; empty where the main thread is not known."""
    passes = series.passes
    if not len(passes):
        return ()
    full = passes["generation"] == 2
    tids = native_ids(series)
    main = {thread for thread, tid in tids.items() if tid == series.pid}
    threads = np.unique(passes["thread"]).tolist()
    known = main or any(m.tid == series.pid for m in series.marks)
    if not known or set(threads) <= main:
        return ()
    # By columns: a server of a thread a request has thousands of them.
    thread = passes["thread"].astype(np.int64)
    longest = np.zeros(int(thread.max()) + 1, np.int64)
    np.maximum.at(longest, thread, pauses.length)
    count, full_count = np.bincount(thread), np.bincount(thread, full)
    total, reclaimed = np.bincount(thread, pauses.length), np.bincount(thread, passes["collected"])
    found = [
        ThreadPasses(
            tid=tids.get(one, 0),
            count=int(count[one]),
            full=int(full_count[one]),
            total=int(total[one]),
            longest=int(longest[one]),
            reclaimed=int(reclaimed[one]),
        )
        for one in threads
        if one not in main
    ]
    return tuple(sorted(found, key=lambda one: (-one.reclaimed, -one.total)))
