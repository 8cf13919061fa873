"""Forks while another thread is inside a pass: the child's collector is dead for good."""

import gc
import os
import sys
import threading

inside, leave = threading.Event(), threading.Event()


def callback(phase: str, info: dict) -> None:
    if phase == "start" and threading.current_thread() is not threading.main_thread():
        inside.set()
        leave.wait()


gc.callbacks.append(callback)
thread = threading.Thread(target=gc.collect, args=(int(sys.argv[1]),))
thread.start()
inside.wait()
readable, writable = os.pipe()
pid = os.fork()
if pid == 0:
    gc.callbacks.remove(callback)
    before = gc.get_stats()[0]["collections"]
    for _ in range(20_000):
        loop: list = []
        loop.append(loop)
    del loop
    found, passes = gc.collect(), gc.get_stats()[0]["collections"] - before
    text = f"child: collect() {found}, passes {passes}, {gc.isenabled()}"
    os.write(writable, text.encode())
    os._exit(0)
os.waitpid(pid, 0)
print(os.read(readable, 1000).decode())
leave.set()
thread.join()
gc.callbacks.remove(callback)
loop = []
loop.append(loop)
del loop
print("parent: collect()", gc.collect() > 0)
with open("child", "w") as file:
    file.write(str(pid))
