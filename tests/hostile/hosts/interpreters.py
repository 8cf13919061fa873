"""Runs code in other interpreters of the same process."""

import gc
import sys

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters  # type: ignore[import-not-found,no-redef]

CODE = """
import gc
for _ in range(300):
    gc.collect(0)
loop = []
loop.append(loop)
del loop
assert gc.collect() >= 1
"""
others = [interpreters.create() for _ in range(3)]
for _ in range(3):
    for other in others:
        problem = interpreters.run_string(other, CODE)
        assert problem is None, problem
    gc.collect(0)
for other in others:
    interpreters.destroy(other)
print(len(others), "interpreters", sys.version_info >= (3, 10))
