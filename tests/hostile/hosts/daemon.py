"""The double fork of a daemon: a new session, descriptors closed, the grandchild works on."""

import contextlib
import gc
import os

readable, writable = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in range(256):
        if descriptor != writable:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    os.open(os.devnull, os.O_RDWR)
    os.dup2(0, 1)
    os.dup2(0, 2)
    os.chdir("/")
    os.umask(0)
    for _ in range(20_000):
        gc.collect(0)
    os.write(writable, b"%d" % os.getpid())
    os._exit(0)
os.close(writable)
os.wait()
with os.fdopen(readable) as file:
    pid = file.read()
print("grandchild done", pid.isdecimal())
with open("child", "w") as out:
    out.write(pid)
