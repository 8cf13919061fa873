"""Loads on a start-up heap, run in a target of any version; prints what was counted as one line of JSON.

python loads.py LOAD RULE HEAP SESSIONS [SCALE]. RULE: stock, once (freeze at the boundary), obvious (freeze
after each full pass that reclaimed next to nothing: the rule that is ruinous), each with thresholds behind
a colon if need be, or a policy of Frostline.
Nothing here looks at a clock.
"""

import gc
import json
import sys

SESSION_OBJECTS = 8


class Leaf:
    """Dies when its session's cycle is reclaimed."""

    reclaimed = 0

    def __del__(self) -> None:
        Leaf.reclaimed += 1


class Session:
    """A reference cycle of SESSION_OBJECTS tracked objects, attribute dictionary not counted."""

    __slots__ = ("history", "leaf", "me", "state")

    def __init__(self) -> None:
        self.me = [self]
        self.leaf = Leaf()
        self.history: object = [[0], [1], [2]]
        self.state = {"session": self.me}


class Counter:
    """Counts what full passes walk, in front of every other callback."""

    def __init__(self) -> None:
        self.walked = self.longest = self.passes = 0
        self.garbage = self.dead = 0
        self.on = True
        #: Passes that walked over B + P1. The policy's own walks of the whole heap are none of these.
        self.over = 0

    def __call__(self, phase: str, info: "dict[str, int]") -> None:
        if phase == "start" or info["generation"] != 2 or not self.on:
            return
        walked = info.get("candidates", -1)
        if walked < 0:
            walked = len(gc.get_objects()) + info["collected"]
        line = line_of()
        if line is not None and line.busy:
            return
        self.passes += 1
        self.walked += walked
        self.longest = max(self.longest, walked)
        if line is not None:
            self.over += walked > line.budget + line.period()

    def died(self) -> None:
        self.dead += 1
        self.garbage = max(self.garbage, self.dead - Leaf.reclaimed)


ENGINE = None
counter = Counter()


def line_of() -> "object":
    """The state of ``follow``, None under another rule."""
    return getattr(ENGINE.keeper(), "line", None) if ENGINE is not None else None


def boundary(rule: str) -> None:
    """Start-up has ended."""
    rule, _, thresholds = rule.partition(":")
    if thresholds:
        gc.set_threshold(*map(int, thresholds.split("/")))
    if rule == "stock":
        return
    if rule in ("once", "obvious"):
        gc.collect()
        gc.freeze()
        gc.collect()
        return
    import frostline

    frostline.startup_complete()


def obvious(phase: str, info: "dict[str, int]") -> None:
    if phase == "stop" and info["generation"] == 2:
        survivors = len(gc.get_objects())
        if info["collected"] <= 0.05 * (survivors + info["collected"]):
            gc.freeze()


def grow(heap: int, sessions: int, scale: int) -> int:
    """A cache that only grows, from half the heap's size again, in 3,000 steps of a busy server."""
    step = max(1, heap * 9 // 16 // 3000)
    for number in range(3000 * scale):
        CACHE.append([[number, item] for item in range(step)])
        for _ in range(20):
            [[i] for i in range(8)]
    return 0


def short(heap: int, sessions: int, scale: int) -> int:
    """Request cycles that die young."""
    for _ in range(sessions * 6 * scale):
        Session()
        counter.died()
    return 0


def long(heap: int, sessions: int, scale: int) -> int:
    """Live cyclic sessions, each replaced after a while; never idle."""
    live = [Session() for _ in range(sessions)]
    for _ in range(10 * scale):
        for place in range(sessions):
            live[place] = Session()
            counter.died()
            check()
    KEEP.append(live)
    return sessions


def lru(heap: int, sessions: int, scale: int) -> int:
    """A bounded cache that turns over; acyclic, so deaths are by reference count."""
    cache: dict[int, list[list[int]]] = {}
    for number in range(sessions * 8 * scale):
        cache[number] = [[number, part] for part in range(4)]
        if len(cache) > sessions:
            del cache[number - sessions]
    return 0


def swap(heap: int, sessions: int, scale: int) -> int:
    """An engine that is dropped and rebuilt while others serve, three times."""
    for _ in range(3 * scale):
        engine = [Session() for _ in range(sessions)]
        for _ in range(sessions):
            [[i] for i in range(8)]
        check()
        for _ in engine:
            counter.died()
        del engine, _
    return 0


def stream(heap: int, sessions: int, scale: int, told: bool = True) -> int:
    """Answers that are put together token by token, ten at a time: thousands of objects a request, acyclic,
    that live until it ends and then die by reference count. Never idle; the shape of a front end that
    returns log-probabilities. ``told``: somebody tells of the requests.
    """
    from frostline.policy import moments

    width = max(1, sessions // 750)
    lengths = [300 + 37 * number % 200 for number in range(100)]
    answers: list[list[object]] = []
    wanted: list[int] = []
    begun = 0
    for _ in range(12_000 * scale):
        while len(answers) < 10:
            answers.append([])
            wanted.append(lengths[begun % 100])
            begun += 1
            if told:
                moments.enter()
        for answer in answers:
            answer.append([{"token": [part]} for part in range(width // 2)])
        answer = None
        for place in range(9, -1, -1):
            if len(answers[place]) >= wanted[place]:
                del answers[place], wanted[place]
                if told:
                    moments.leave()
    while told and answers:
        answers.pop()
        moments.leave()
    return 0


def untold(heap: int, sessions: int, scale: int) -> int:
    """The same, and nobody tells of the requests."""
    return stream(heap, sessions, scale, False)


def ripple(heap: int, sessions: int, scale: int) -> int:
    """Answers one after the other, each a little larger than a full pass waits for."""
    for _ in range(150 * scale):
        answer = []
        for part in range(sessions * 6 // 10):
            answer.append([[part]])
    return 0


def turn(heap: int, sessions: int, scale: int) -> int:
    """*stream*, and when it has ended, growth."""
    stream(heap, sessions, scale)
    step = max(1, heap // 1000)
    for number in range(700 * scale):
        CACHE.append([[number, item] for item in range(step)])
    return 0


HEAP: "list[object]" = []
CACHE: "list[object]" = []
KEEP: "list[object]" = []
_calls = 0


def check() -> None:
    """I1, by count, every so often."""
    global _calls
    _calls += 1
    if _calls % 4000 or ENGINE is None:
        return
    bound_now()


WORST = [0.0]


def bound_now() -> None:
    line = line_of()
    if line is None or not line.active:
        return
    held = gc.get_freeze_count() - line.start
    WORST[0] = max(WORST[0], held / ((1 + line.alpha) * line.kept + line.budget))


SHOWN = (
    "budget", "kept", "frozen", "alpha", "exhausted", "moves", "wholes", "guards", "judged", "lost",
    "spent_ns", "longest_ns", "broken", "measures", "patient", "all_looks", "look_ns", "longest_look_ns",
)  # fmt: skip


def main(load: str, rule: str, heap: int, sessions: int, scale: int = 1) -> None:
    global ENGINE
    if rule.startswith("follow"):
        from frostline.policy import engine, line

        line.SHARE = 0  # at safe points F is counted as often as it is wanted, however long that takes
        engine.adopt(rule)
        ENGINE = engine
    HEAP.extend([i] for i in range(heap))
    boundary(rule)
    gc.callbacks.insert(0, counter)
    if rule.startswith("obvious"):
        gc.callbacks.append(obvious)
    live = globals()[load](heap, sessions, scale)
    counter.on = False
    bound_now()
    line = line_of()
    result = {
        "version": ".".join(map(str, sys.version_info[:3])),
        "load": load,
        "rule": rule,
        "passes": counter.passes,
        "walked": counter.walked,
        "longest": counter.longest,
        "garbage": counter.garbage * SESSION_OBJECTS,
        "i1": WORST[0],
        "live": live,
        "over": counter.over,
    }
    if line is not None:
        result["line"] = {name: getattr(line, name) for name in SHOWN}
        result["line"]["period"] = line.period()
        dead = counter.dead - Leaf.reclaimed
        ENGINE.whole_heap()
        result["after"] = {"garbage": counter.dead - Leaf.reclaimed, "frozen": line.frozen, "before": dead}
        ENGINE.thaw(True)
        result["thawed"] = [gc.get_freeze_count() - line.start, gc.get_threshold()]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *map(int, sys.argv[5:]))
