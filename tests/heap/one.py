"""Runs the corpus in one interpreter: prints a JSON object a case, ``{"name", "made", "clean"}``."""

import gc
import json
import sys

sys.path.insert(0, sys.argv[1])

from frostline.heap.cycles import as_plain, cycles_of
from frostline.heap.saved import let_go, saved_pass

sys.path.insert(0, sys.argv[2])
import corpus


def look(act, times):
    gc.collect()
    for _ in range(times):
        act()
    saved = saved_pass()
    told = as_plain(cycles_of(saved))
    let_go(saved)
    assert not saved.objects and not gc.garbage
    assert not gc.get_debug()
    return told


gc.disable()
for name, (make, clean, _) in corpus.MADE.items():
    clean()
    make()
    print(json.dumps({"name": name, "made": look(make, 10), "clean": look(clean, 10)}))
assert corpus.Hostile.called == 0, "code of the program's ran"
