"""Replaces its own program again and again; the process id stays."""

import gc
import os
import sys

left = int(sys.argv[1])
for _ in range(10 + left):
    gc.collect(0)
print("link", left, len(gc.callbacks) > 5, flush=True)
if left:
    os.execv(sys.executable, [sys.executable, __file__, str(left - 1)])
