"""Destructors that run and allocate while the interpreter is being taken apart: case 31."""

import gc
import sys
import threading
import types


class Late:
    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self, many: list = [None] * 5000, collect=gc.collect) -> None:
        rows = [[] for _ in many]
        rows.append(rows)
        collect()


threading._late = Late("threading")  # type: ignore[attr-defined]
sys.late = Late("sys")  # type: ignore[attr-defined]
module = types.ModuleType("late_module")
module.me = module  # type: ignore[attr-defined]
module.late = Late("module")  # type: ignore[attr-defined]
sys.modules["late_module"] = module
gc.set_threshold(50, 2, 2)
loop = Late("loop")
loop.me = loop  # type: ignore[attr-defined]


def forever() -> None:
    while True:
        rows = [[number] for number in range(100)]
        rows.append(rows)


if sys.argv[1] == "daemons":
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
print("end of main")
if sys.argv[1] == "raise":
    raise RuntimeError("the host's own")
if sys.argv[1] == "exit":
    sys.exit(9)
