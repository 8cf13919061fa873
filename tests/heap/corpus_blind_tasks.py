"""The blind corpus, part two: data classes, modules, threads, asyncio (see corpus_blind.py)."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# --- dataclasses and trees ------------------------------------------------------------------------
@dataclass
class Folder:
    name: str
    parent: Folder | None = None
    children: list[Folder] = field(default_factory=list)


@program("dataclasses", "Folder", "parent", "children")
def a_tree_with_parents():
    root = Folder("root")
    root.children.append(Folder("child", root))


@program.twin
def a_tree_without_parents():
    root = Folder("root")
    root.children.append(Folder("child"))


@dataclass(slots=True)
class Span:
    name: str
    following: Span | None = None
    previous: Span | None = None


@program("dataclasses", "Span", "following", "previous")
def a_doubly_linked_list_of_slots():
    first = Span("a")
    first.following = Span("b", previous=first)


@program.twin
def a_singly_linked_list():
    Span("a", following=Span("b"))


class Layer:
    """The shape of torch's Module: children in a dict, hooks in another."""

    def __init__(self):
        self.__dict__["_modules"] = {}
        self._forward_hooks = {}

    def __setattr__(self, name, value):
        if isinstance(value, Layer):
            self._modules[name] = value
        else:
            self.__dict__[name] = value

    def __getattr__(self, name):
        return self.__dict__["_modules"][name]


class Attention(Layer):
    pass


class Decoder(Layer):
    def save_output(self, *_):
        pass


@program("modules", "Decoder", "_modules", "attention", "Attention", "_forward_hooks", "method save_output")
def a_module_hooks_its_child():
    decoder = Decoder()
    decoder.attention = Attention()
    decoder.attention._forward_hooks[0] = decoder.save_output


@program.twin
def a_module_hooks_and_removes():
    decoder = Decoder()
    decoder.attention = Attention()
    decoder.attention._forward_hooks[0] = decoder.save_output
    del decoder.attention._forward_hooks[0]


# --- threads --------------------------------------------------------------------------------------
class Lease:
    def __init__(self):
        self.timer = threading.Timer(60, self.expire)

    def expire(self):
        pass


@program("threads", "Lease", "timer", "Timer", "function", "method expire")
def a_timer_that_was_cancelled():
    lease = Lease()
    lease.timer.start()
    lease.timer.cancel()
    lease.timer.join()


@program.twin
def a_timer_that_is_let_go():
    lease = Lease()
    lease.timer.start()
    lease.timer.cancel()
    lease.timer.join()
    lease.timer = None


class BackgroundJob:
    future: Future[None]

    def work_hard(self):
        raise OSError("disk")


@program(
    "threads", "BackgroundJob", "future", "Future", "_exception", "OSError", "work_hard", at("def work_hard")
)
def a_job_that_failed_in_a_pool():
    job = BackgroundJob()
    with ThreadPoolExecutor(1) as pool:
        job.future = pool.submit(job.work_hard)


@program.twin
def a_job_that_did_not():
    job = BackgroundJob()
    with ThreadPoolExecutor(1) as pool:
        job.future = pool.submit(os.getpid)
    job.future.result()


# --- asyncio --------------------------------------------------------------------------------------
class StepFailed(Exception):
    pass


class Pump:
    task: asyncio.Task[None]

    async def run_steps(self):
        raise StepFailed("step")

    async def rest(self):
        return None


@program("asyncio", "Pump", "task", "Task", "StepFailed", "run_steps", at("async def run_steps"))
def a_task_that_failed():
    async def main():
        pump = Pump()
        pump.task = asyncio.ensure_future(pump.run_steps())
        await asyncio.wait([pump.task])
        pump.task.exception()

    asyncio.run(main())


@program.twin
def a_task_that_ended():
    async def main():
        pump = Pump()
        pump.task = asyncio.ensure_future(pump.rest())
        await asyncio.wait([pump.task])

    asyncio.run(main())


class Upload:
    def on_uploaded(self, _):
        pass


@program("asyncio", "Upload", "ready", "Future", "method on_uploaded")
def a_future_nobody_resolves():
    async def main():
        upload = Upload()
        upload.ready = asyncio.get_running_loop().create_future()
        upload.ready.add_done_callback(upload.on_uploaded)

    asyncio.run(main())


@program.twin
def a_future_that_is_resolved():
    async def main():
        upload = Upload()
        upload.ready = asyncio.get_running_loop().create_future()
        upload.ready.add_done_callback(upload.on_uploaded)
        upload.ready.set_result(None)

    asyncio.run(main())
