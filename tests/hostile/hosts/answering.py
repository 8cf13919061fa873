"""Waits in one of the ways that servers wait, until its standard input ends."""

import asyncio
import gc
import os
import select
import signal
import sys
import threading

mode = sys.argv[1]
mine: list = []


def say_ready() -> None:
    print("ready", flush=True)


def read() -> None:
    say_ready()
    sys.stdin.read()


def work() -> None:
    """Allocates and collects all the time, so that requests land inside passes."""
    say_ready()
    while not select.select([0], [], [], 0)[0]:
        rows = [[number] for number in range(2000)]
        rows.append(rows)
        gc.collect(1)


def loop() -> None:
    async def main() -> int:
        running = asyncio.get_running_loop()
        ended = asyncio.Event()
        running.add_reader(0, ended.set)
        running.add_signal_handler(signal.SIGUSR1, lambda: None)
        say_ready()
        ticks = 0
        while not ended.is_set():
            await asyncio.sleep(0.001)
            ticks += 1
        return ticks

    assert asyncio.run(main()) >= 0


def wakeup() -> None:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    signal.signal(signal.SIGUSR1, lambda signum, frame: mine.append(signum))
    say_ready()
    while True:
        ready = select.select([0, readable], [], [])[0]
        if readable in ready:
            os.read(readable, 4096)
        if 0 in ready:
            break
    signal.set_wakeup_fd(-1)


def thread() -> None:
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), done.set())).start()
    say_ready()
    done.wait()


def after() -> None:
    """The host takes SIGURG for itself, after us."""
    signal.signal(signal.SIGURG, lambda signum, frame: mine.append(signum))
    read()


globals()[mode]()
print(
    "mine", bool(mine), "before", bool(sys.modules.get("host_handler") and sys.modules["host_handler"].seen)
)
