"""Is interrupted at random instants while it does little but collect; counts what reaches it.

Another process sends the signals one by one and says when each has been sent, so none is in
flight when it is counted. What a signal handler raises inside a callback, the interpreter swallows.
"""

import fcntl
import gc
import os
import random
import signal
import sys
import termios


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
seen = 0
collect = gc.collect


def sent() -> int:
    """How many have been sent. Nothing is taken out of the pipe: an exception may land anywhere."""
    return int.from_bytes(fcntl.ioctl(sent_read, termios.FIONREAD, bytes(4)), "little")


number = 0
asked = False
settled = False
while not settled:
    try:
        while number < times:
            if not asked:
                os.write(go_write, b"x")
                asked = True
            while sent() <= number:
                for _ in range(100):
                    collect(0)
            asked = False  # before the number: one signal more is harmless, one less would be waited for
            number += 1
        for _ in range(1000):
            pass  # what comes a little late comes here
        # One more than was asked for may be under way: an exception that came between asking and counting.
        signal.signal(signum, signal.SIG_IGN)
        settled = True
    except wanted:
        seen += 1
os.close(go_write)
os.wait()
with open("lost", "w") as file:
    file.write(f"{times - seen} {len(ignored)}")
print("done", len(gc.callbacks) >= 0)
