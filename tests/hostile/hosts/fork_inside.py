"""Forks where nobody should: in a finalizer, or in another tool's callback, so inside a pass."""

import gc
import os
import sys

children = []


def fork() -> None:
    if children:
        return
    pid = os.fork()
    if pid == 0:
        children.append(0)
        return  # the child goes on as a second copy of this program
    children.append(pid)


class Loop:
    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        fork()


def callback(phase: str, info: dict) -> None:
    if phase == sys.argv[1]:
        fork()


gc.collect()
if sys.argv[1] == "finalizer":
    Loop()
else:
    gc.callbacks.append(callback)
gc.collect()
if sys.argv[1] != "finalizer":
    gc.callbacks.remove(callback)
for _ in range(30):
    gc.collect(0)
if children == [0]:
    os._exit(3)
_, status = os.waitpid(children[0], 0)
print(os.waitstatus_to_exitcode(status))
with open("child", "w") as file:
    file.write(str(children[0]))
