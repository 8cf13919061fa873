"""Is interrupted at random instants while it does little but collect; counts what reaches it.

Another process sends the signals one by one and says when each has been sent, so none is in
flight when it is counted. What a signal handler raises inside a callback, the interpreter swallows.
"""

import gc
import os
import random
import signal
import sys


class TimeIsUp(Exception):
    """What time-out decorators raise from SIGALRM."""


def on_alarm(signum: int, frame: object) -> None:
    raise TimeIsUp


signum = getattr(signal, sys.argv[1])
times = int(sys.argv[2])
if sys.argv[3] == "empty":
    gc.callbacks.append(lambda phase, info: None)
wanted: type = KeyboardInterrupt if signum == signal.SIGINT else TimeIsUp
if signum != signal.SIGINT:
    signal.signal(signum, on_alarm)
ignored: list = []
sys.unraisablehook = ignored.append
go_read, go_write = os.pipe()
sent_read, sent_write = os.pipe()
parent = os.getpid()
if os.fork() == 0:
    signal.signal(signum, signal.SIG_IGN)
    os.close(go_write)
    os.close(sent_read)
    dice = random.Random(7)
    while os.read(go_read, 1):
        for _ in range(dice.randrange(20_000)):
            pass
        os.kill(parent, signum)
        os.write(sent_write, b"x")
    os._exit(0)
os.close(go_read)
os.close(sent_write)
os.set_blocking(sent_read, False)
seen = 0
collect = gc.collect
for _ in range(times):
    waiting = True
    while waiting:
        try:
            if waiting is True:
                waiting = 1  # type: ignore[assignment]
                os.write(go_write, b"x")
            while True:
                for _ in range(100):
                    collect(0)
                try:
                    os.read(sent_read, 1)
                except BlockingIOError:
                    continue
                break
            waiting = False
        except wanted:
            seen += 1
os.close(go_write)
os.wait()
with open("lost", "w") as file:
    file.write(f"{times - seen} {len(ignored)}")
print("done", len(gc.callbacks) >= 0)
