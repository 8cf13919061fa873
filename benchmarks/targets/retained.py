"""Tracked objects after many passes and spans. Prints how many more there are, and of what type."""

import gc
import json
import sys

PASSES, SPANS = int(sys.argv[1]), int(sys.argv[2])


def tracked() -> "dict[str, int]":
    gc.collect()
    found: dict[str, int] = {}
    for one in gc.get_objects():
        name = type(one).__name__
        found[name] = found.get(name, 0) + 1
    return found


def many_passes(many: int) -> None:
    collect = real_collect
    for _ in range(many):
        collect(0)


def many_spans(many: int) -> None:
    for number in range(many):
        write(number, number + 1, label, 1, 0, -1, -1, 0)


from frostline import probe  # noqa: E402

recorder = probe.recorder_of_this_process()
assert recorder is not None
write = recorder.record_span
label = recorder.name_id("work")
real_collect = getattr(gc.collect, "__wrapped__", gc.collect)
# The first segments, both kinds of name and this code's own caches come before the count.
many_passes(20_000)
many_spans(30_000)
gc.collect()
before: dict[str, int] = {}  # stands in for the result: from 3.14 on a dictionary is tracked
before = tracked()
many_passes(PASSES)
many_spans(SPANS)
after = tracked()
more = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
gc.disable()
gc.collect()
first = gc.get_count()[0]
many_spans(300)  # inside one segment: no growth
drift = gc.get_count()[0] - first
print(
    json.dumps(
        {
            "more": more,
            "drift": drift,
            "off": recorder.series.words[__import__("frostline").format.WORD["off_reason"]],
        }
    )
)
