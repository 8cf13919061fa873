"""A parent of threads, each with a forked worker on a pipe, and a housekeeper thread: pool.py SETTINGS."""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from acts import Acts, Log, Steps, faults_of, now, work

import frostline

THREADS = 3


def worker(settings: dict[str, Any], acts: Acts, number: int, line: Connection) -> None:
    role = f"worker {number}"
    frostline.install(role=role)
    acts.log.role = role
    acts.scratch += f".{number}"
    steps = Steps(settings["log"], role)
    while (step := line.recv()) >= 0:
        begin = now()
        with frostline.span("job"):
            work()
            for cause, ms in faults_of(settings["plan"], step, role):
                acts.do(cause, ms, step=step)
        steps.note("job", begin)
        line.send(step)
    steps.write()


class Parent:
    def __init__(self, settings: dict[str, Any], acts: Acts) -> None:
        self.settings, self.acts = settings, acts
        self.steps = Steps(settings["log"], "parent")
        self.guard = threading.Lock()
        self.asked, self.begun = threading.Event(), threading.Event()
        self.first = now()
        self.wanted: tuple[str, float, int] | None = None

    def housekeeper(self) -> None:
        """Does to the other threads what it is asked for; between faults it waits."""
        while True:
            self.asked.wait()
            self.asked.clear()
            if self.wanted is None:
                return
            cause, ms, step = self.wanted
            if cause == "lock":
                with self.guard:
                    self.begun.set()
                    begin = now()
                    self.acts._sleep(ms)
                    end = now()
                self.acts.log.fault("lock held by another thread", begin, end, False, step=step)
            else:
                self.begun.set()
                self.acts.do(cause, ms, step=step, thread="housekeeper")

    def dispatch(self, number: int, line: Connection) -> None:
        plan = self.settings["plan"]
        for turn in range(self.settings["steps"] // THREADS):
            step = turn * THREADS + number
            # By the clock, so that a fault that holds up one thread does not bring on the next thread's.
            time.sleep(max(0.0, (self.first - now()) / 1e9 + step * self.settings["apart"]))
            begin = now()
            with frostline.span("dispatch"):
                line.send(step)
                for cause, ms in faults_of(plan, step, "parent"):
                    self.acts.do(cause, ms, step=step)
                for cause, ms in faults_of(plan, step, "housekeeper"):
                    self.begun.clear()
                    self.wanted = cause, ms, step
                    self.asked.set()
                    self.begun.wait()
                with self.guard:
                    work(300)
                line.recv()
            self.steps.note("dispatch", begin)
        line.send(-1)


def main() -> None:
    settings = json.loads(sys.argv[1])
    frostline.install(role="parent")
    acts = Acts(Log(settings["log"], "parent"), settings["scratch"], settings["ballast"])
    fork = multiprocessing.get_context("fork")
    lines, children = [], []
    for number in range(THREADS):
        ours, theirs = fork.Pipe()
        child = fork.Process(target=worker, args=(settings, acts, number, theirs))
        child.start()
        lines.append(ours)
        children.append(child)
    parent = Parent(settings, acts)
    keeper = threading.Thread(target=parent.housekeeper)
    keeper.start()
    threads = [threading.Thread(target=parent.dispatch, args=pair) for pair in enumerate(lines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parent.wanted = None
    parent.asked.set()
    keeper.join()
    for child in children:
        child.join()
    parent.steps.write()


if __name__ == "__main__":
    main()
