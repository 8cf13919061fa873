"""Frozen garbage is counted to the object, whatever its shape, and what is reachable stays (D6)."""

from __future__ import annotations

import json
import subprocess

from tests.interpreters import SOURCE, Interpreter, every_interpreter

#: Random graphs of objects with two references each; some are roots. Frozen with all their garbage, then more
#: objects are hung into them. Says of each what was expected and what was found.
GRAPHS = """
import gc, json, random, sys, weakref
sys.path.insert(0, sys.argv[1])
from frostline.heap import permanent

class Node:
    __slots__ = ("a", "b", "__weakref__")
    def __init__(self): self.a = self.b = None

roots = []

def reachable():
    seen, todo = set(), list(roots)
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            todo += (one.a, one.b)
    return seen

def build(chance, nodes):
    fresh = [Node() for _ in range(chance.randrange(1, 60))]
    for one in fresh:
        one.a, one.b = chance.choice(nodes + fresh), chance.choice(fresh)
    for one in chance.sample(nodes, len(nodes) // 4):
        one.b = chance.choice(fresh)  # hangs new ones on old ones
    nodes += fresh

def one_graph(seed):
    chance = random.Random(seed)
    roots.clear()
    gc.unfreeze()
    gc.collect()
    nodes = []
    build(chance, nodes)
    roots[:] = chance.sample(nodes, chance.randrange(0, 3) % (len(nodes) + 1))
    gc.freeze()
    frozen = {id(one) for one in nodes}
    if seed % 2:
        build(chance, nodes)
    refs = [(id(one), weakref.ref(one)) for one in nodes]
    del nodes
    gc.collect()  # of what is not frozen only what hangs on the frozen is left
    alive = {number for number, ref in refs if ref() is not None}
    kept = reachable()
    dead = alive - kept
    found = permanent.garbage(2.0, "__main__:Node")
    left = {number for number, ref in refs if ref() is not None}
    late = dead - frozen
    right = gc.get_freeze_count() > 0 and not gc.garbage and not gc.get_debug() and gc.isenabled()
    return [
        [len(dead), len(late), len(alive & kept), sorted(kept) == sorted(left), True],
        [found.dead, found.later if found.found else 0, found.live, True, right],
    ]

print(json.dumps([one_graph(seed) for seed in range(60)]))
"""


@every_interpreter
def test_as_much_as_nothing_leads_to(interpreter: Interpreter) -> None:
    done = subprocess.run(
        [interpreter.executable, "-c", GRAPHS, str(SOURCE)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    graphs = json.loads(done.stdout)
    for seed, (expected, seen) in enumerate(graphs):
        assert seen == expected, seed
    # They are not all alike: some leave garbage, some keep objects, some have garbage of later.
    for place in range(3):
        assert any(expected[place] for expected, _ in graphs)
        assert any(not expected[place] for expected, _ in graphs)
