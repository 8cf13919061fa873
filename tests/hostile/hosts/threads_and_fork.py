"""Threads that allocate while the main thread forks, under whatever -W says."""

import gc
import os
import sys
import threading
import warnings

stop = threading.Event()


def churn() -> None:
    while not stop.is_set():
        rows = [[number] for number in range(500)]
        rows.append(rows)


threads = [threading.Thread(target=churn) for _ in range(3)]
for thread in threads:
    thread.start()
codes = []
warned = 0
for number in range(int(sys.argv[1])):
    try:
        pid = os.fork()
    except DeprecationWarning:
        warned += 1
        continue
    if pid == 0:
        for _ in range(10):
            gc.collect(0)
        os._exit(number % 7)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
print(codes, warned, [str(w) for w in warnings.filters[:1]])
