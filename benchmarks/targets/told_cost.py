"""What a span costs a call, and what it costs more where it tells stage and batch size.

Prints one line of JSON: for each kind the nanoseconds a call, a list of rounds; and how many tracked
objects more there are after them.
"""

import gc
import json
import sys
import time

from frostline import probe
from frostline.format import REGION_SPANS
from frostline.probe.telling import teller
from frostline.probe.wrappers import timed

CALLS = 4_000
ROUNDS = int(sys.argv[1])


class SchedulerOutput:
    """Of vLLM's what the reader looks at: 64 requests, one token each."""

    def __init__(self) -> None:
        self.num_scheduled_tokens = {str(i): 1 for i in range(64)}
        self.scheduled_new_reqs: list[object] = []
        self.total_num_scheduled_tokens = 64
        self.scheduled_spec_decode_tokens: dict[str, list[int]] = {}


def schedule(scheduler: object, output: SchedulerOutput) -> SchedulerOutput:
    return output


def time_calls(call: "object", output: SchedulerOutput) -> int:
    begun = time.thread_time_ns()  # CPU time: others run on this machine
    for _ in range(CALLS):
        call(None, output)  # type: ignore[operator]
    return time.thread_time_ns() - begun


def main() -> None:
    recorder = probe.recorder_of_this_process()
    assert recorder is not None
    target = "vllm.v1.core.sched.scheduler:Scheduler.schedule"
    label = recorder.name_id("schedule")
    kinds = {
        "bare": schedule,
        "span": timed(schedule, recorder.record_span, label, 0),
        "told": timed(schedule, recorder.record_span, label, 0, teller(recorder, target)),
    }
    output = SchedulerOutput()
    rounds: dict[str, list[float]] = {kind: [] for kind in kinds}
    names = list(kinds)
    gc.collect()
    gc.disable()
    before = 0
    for number in range(ROUNDS + 2):
        turned = names[number % len(names) :] + names[: number % len(names)]
        for kind in turned:
            took = time_calls(kinds[kind], output) / CALLS
            if number >= 2:
                rounds[kind].append(took)
        if number == 1:
            before = len(gc.get_objects())
    kept = len(gc.get_objects()) - before
    series = recorder.series
    assert series is not None and series.regions[REGION_SPANS] is not None
    print(json.dumps({"rounds": rounds, "kept": kept, "calls": 2 * CALLS * ROUNDS}))


main()
