"""The boundary over a server's own RPC (A2): a number comes back, always."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path

import pytest

import frostline
from tests.embed.hosts import run, said
from tests.interpreters import Interpreter, every_interpreter

PIPE = """
import gc, multiprocessing, sys
import frostline

class Worker:
    def __init__(self):
        self.kept = [[number] for number in range(20_000)]

def serve(pipe, policy):
    # As engines do it: the callable is pickled, and the worker is its first argument.
    frostline.install(role="Worker", rank=0, policy=policy)
    worker = Worker()
    start = gc.get_freeze_count()
    while True:
        message = pipe.recv()
        if message is None:
            break
        function, arguments = message
        pipe.send((function(worker, *arguments), gc.get_freeze_count() - start))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, sys.argv[1] or None))
    process.start()
    def call(function, *arguments):
        ours.send((function, arguments))
        answer, frozen = ours.recv()
        assert type(answer) is int
        return answer, frozen
    def near(answer, frozen):
        # What is frozen and dies by its reference count between the two counts is no difference.
        return 0 <= answer - frozen < 500
    answer, frozen = call(frostline.rpc_freeze)
    print(near(answer, frozen), frozen > 20_000)
    answer, frozen = call(frostline.rpc_freeze, "second")
    print(near(answer, frozen), frozen > 20_000)
    print(call(frostline.rpc_thaw, "second")[0])
    answer, frozen = call(frostline.rpc_thaw)
    print(answer > 20_000, frozen)
    print(*call(frostline.rpc_thaw))
    ours.send(None)
    process.join()
    print(process.exitcode)
"""


@every_interpreter
def test_over_a_pipe(interpreter: Interpreter, tmp_path: Path) -> None:
    """Two owners: what is frozen is given back with the last; then nothing is left to give."""
    assert said(run(interpreter, tmp_path, PIPE, "freeze")) == [
        "True True",
        "True True",
        "0",
        "True 0",
        "0 0",
        "0",
    ]
    without = said(run(interpreter, tmp_path, PIPE, ""))
    assert without == ["True False", "True False", "0", "False 0", "0 0", "0"]


POOL = """
import concurrent.futures, functools, gc, multiprocessing
import frostline

def ready():
    frostline.install(role="Worker", policy="freeze")

def frozen():
    return gc.get_freeze_count()

def in_a_request():
    with frostline.request():
        return frostline.rpc_freeze()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context, initializer=ready) as pool:
        before = pool.submit(frozen).result()
        count = pool.submit(functools.partial(frostline.rpc_freeze, owner="pool")).result()
        print(count > 0, 0 <= count - (pool.submit(frozen).result() - before) < 500)
        print(pool.submit(in_a_request).result())
        print(pool.submit(frostline.rpc_thaw, None, "pool").result())
        print(pool.submit(frostline.rpc_thaw).result() > 0, pool.submit(frozen).result() - before)
"""


@every_interpreter
def test_through_a_pool(interpreter: Interpreter, tmp_path: Path) -> None:
    assert said(run(interpreter, tmp_path, POOL)) == ["True True", "-1", "0", "True 0"]


@pytest.mark.parametrize("function", [frostline.rpc_freeze, frostline.rpc_thaw])
def test_it_is_pickled_by_its_name(function: object) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        packed = pickle.dumps(function, protocol)
        assert pickle.loads(packed) is function and len(packed) < 100
    assert pickle.loads(pickle.dumps(functools.partial(frostline.rpc_freeze, owner="a"))).keywords == {
        "owner": "a"
    }
