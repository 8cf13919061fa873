"""What a full pass does in an engine core while its prefix cache fills, by how blocks keep their tokens.

    token_storage.py KIND BLOCKS TRACKED REPEATS

The reference server's own scheduler, pool and heap; the model is left out: what it would sample is made up.
KIND ``one`` is the server's way, one array for all; ``lists`` and ``arrays`` put one back for each block, as
servers have them, empty from the start. Prints for each share of the pool that was computed: how many objects
a full pass walks, how many references it follows, and the least of REPEATS of them, ns of this thread's
processor time. The collector is off in between. TRACKED is the heap with an object for each block's tokens;
with ``one`` it is smaller by those.
"""

import gc
import json
import sys
import time
from array import array
from random import Random

from frostline.demo import blocks, heap
from frostline.demo.protocol import Sampled, Sampling, Submit
from frostline.demo.scheduler import Scheduler

#: Of the pool's blocks; over 1: as many as that were computed, so some were evicted.
SHARES = (0.0, 0.25, 0.5, 0.75, 0.99, 1.5)
#: Ids as a large model has them: in a list each is an object of its own, up to 256 they would be shared.
VOCABULARY = range(1_000, 128_000)
#: Blocks of a prompt, all of them full but the last.
PROMPT = 100


class Lists:
    """A list for each block."""

    def __init__(self, size):
        self.each = [[] for _ in range(size)]

    def put(self, block, tokens):
        self.each[block] = tokens.tolist()

    def get(self, block):
        return array("i", self.each[block])


class Arrays:
    """An array for each block."""

    def __init__(self, size):
        self.each = [array("i") for _ in range(size)]

    def put(self, block, tokens):
        self.each[block] = tokens

    def get(self, block):
        return self.each[block]


KINDS = {"one": blocks.BlockTokens, "lists": Lists, "arrays": Arrays}


def followed() -> int:
    """References that a full pass follows: all that the objects it walks refer to."""
    return sum(len(gc.get_referents(one)) for one in gc.get_objects())


def fill(scheduler: Scheduler, random: Random, request: int) -> None:
    """One request with a prompt of its own, answered by one token."""
    prompt = array("i", random.choices(VOCABULARY, k=PROMPT * blocks.BLOCK_TOKENS + 1))
    scheduler.add(Submit(request, prompt.tobytes(), 1, Sampling(0.0, 0, 0)))
    while scheduler.busy:
        pieces = scheduler.schedule()
        ended = [piece for piece in pieces if piece.sampling is not None]
        scheduler.update(pieces, [Sampled(piece.sequence, 256, 0.0, []) for piece in ended])
    scheduler.finished.clear()


def main(kind: str, size: int, tracked: int, repeats: int) -> None:
    gc.disable()
    blocks.BlockTokens = KINDS[kind]
    scheduler = Scheduler(blocks.BlockPool(size, cached=size))
    random = Random(12)
    fill(scheduler, random, -1)  # everything that is made once
    tracked -= size if kind == "one" else 0
    ballast = heap.fill("EngineCore", tracked / heap.TRACKED["EngineCore"])
    walked, references, pauses = array("q"), array("q"), array("q")
    computed = 0
    for share in SHARES:
        while computed < share * size:
            fill(scheduler, random, computed)
            computed += PROMPT
        gc.collect()
        best = 1 << 62
        for _ in range(repeats):
            begun = time.thread_time_ns()
            gc.collect()
            best = min(best, time.thread_time_ns() - begun)
        walked.append(len(gc.get_objects()))
        references.append(followed())
        pauses.append(best)
    named = sum(block.key is not None for block in scheduler.pool.blocks)
    result = {"shares": SHARES, "walked": list(walked), "references": list(references), "pause": list(pauses)}
    print(json.dumps(result | {"named": named, "ballast": len(ballast)}))


main(sys.argv[1], *map(int, sys.argv[2:]))
