"""Runs a blind corpus in one interpreter: ``one_blind.py SOURCE HERE MODULE...``, a JSON object a program.

``{"name", "kind", "words", "made", "clean"}``, the last two what the detector says of ten runs of each.
"""

import gc
import importlib
import json
import sys
import warnings

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[2])

from frostline.heap.cycles import as_plain, cycles_of
from frostline.heap.saved import let_go, saved_pass


def look(act):
    act()
    gc.collect()
    for _ in range(10):
        act()
    saved = saved_pass()
    told = as_plain(cycles_of(saved))
    let_go(saved)
    del saved
    assert not gc.garbage
    assert not gc.get_debug()
    return told


warnings.simplefilter("ignore")  # coroutines that nobody awaits, databases that nobody closes: on purpose
gc.disable()
for part in sys.argv[3:]:
    for name, program in importlib.import_module(part).program.programs.items():
        row = {"name": name, "kind": program.kind, "words": program.words}
        print(json.dumps({**row, "made": look(program.make), "clean": look(program.clean)}))
