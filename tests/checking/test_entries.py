"""Which entry points are found, and which of them serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import checking
from frostline.checking import Config
from tests.checking.trees import checked, found, missing, written

#: name -> (source of app.py, the entries that must be found: kind and name)
FOUND = {
    "process": (
        "import multiprocessing\ndef f(): ...\nmultiprocessing.Process(target=f)",
        {("process", "app:f")},
    ),
    "of a context": (
        "import multiprocessing as mp\ndef f(): ...\nctx = mp.get_context('spawn')\n"
        "ctx.Process(target=f, args=())",
        {("process", "app:f")},
    ),
    "of an unknown context": ("def g(ctx):\n    ctx.Process(target=f)\ndef f(): ...", {("process", "app:f")}),
    "positional": (
        "from multiprocessing import Process\ndef f(): ...\nProcess(None, f)",
        {("process", "app:f")},
    ),
    "partial": (
        "from multiprocessing import Process\nfrom functools import partial\ndef f(x): ...\n"
        "Process(target=partial(f, 1))",
        {("process", "app:f")},
    ),
    "static method": (
        "from multiprocessing import Process\nclass A:\n    @staticmethod\n    def main(): ...\n"
        "Process(target=A.main)",
        {("process", "app:A.main")},
    ),
    "bound method": (
        "from multiprocessing import Process\nclass A:\n    def start(self):\n"
        "        Process(target=self.main).start()\n    def main(self): ...",
        {("process", "app:A.main")},
    ),
    "through a helper": (
        "import multiprocessing\ndef spawn(name, target, *args):\n"
        "    return multiprocessing.get_context('spawn').Process(target=target, name=name, args=args)\n"
        "def f(): ...\ndef g(): ...\nspawn('f', f)\nspawn('g', target=g)",
        {("process", "app:f"), ("process", "app:g")},
    ),
    "through two helpers": (
        "from multiprocessing import Process\ndef inner(fn): Process(target=fn).start()\n"
        "class Pool2:\n    def add(self, what): inner(what)\n    def go(self): self.add(f)\ndef f(): ...",
        {("process", "app:f")},
    ),
    "one of two": (
        "from multiprocessing import Process\ndef f(): ...\ndef g(): ...\ntarget = f if f else g\n"
        "Process(target=target)",
        {("process", "app:f"), ("process", "app:g")},
    ),
    "from a table": (
        "from multiprocessing import Process\ndef f(): ...\ndef g(): ...\nT = {'f': f, 'g': g}\n"
        "for name in T:\n    Process(target=T[name])",
        {("process", "app:f"), ("process", "app:g")},
    ),
    "in a comprehension": (
        "from multiprocessing import Process\ndef f(): ...\ndef g(): ...\n"
        "ps = [Process(target=t) for t in (f, g)]",
        {("process", "app:f"), ("process", "app:g")},
    ),
    "process class": (
        "from multiprocessing import Process\nclass W(Process):\n    def run(self): ...",
        {("process class", "app:W.run")},
    ),
    "process class of a context": (
        "import multiprocessing\nclass W(multiprocessing.get_context('spawn').Process):\n"
        "    def run(self): ...",
        {("process class", "app:W.run")},
    ),
    "torch": (
        "import torch.multiprocessing as mp\ndef f(rank): ...\nmp.spawn(f, nprocs=2)",
        {("process", "app:f")},
    ),
    "pool initializer": (
        "from concurrent.futures import ProcessPoolExecutor\ndef f(): ...\n"
        "ProcessPoolExecutor(2, initializer=f)",
        {("pool", "app:f")},
    ),
    "multiprocessing pool": (
        "import multiprocessing as mp\ndef f(): ...\nmp.get_context('fork').Pool(2, f)",
        {("pool", "app:f")},
    ),
    "pool without one": (
        "import multiprocessing\ndef g():\n    multiprocessing.Pool(3)",
        {("pool", "app:g")},
    ),
    "main block": (
        "import uvicorn\ndef main():\n    uvicorn.run('app:x')\nif __name__ == '__main__':\n    main()",
        {("main block", "app:<main>")},
    ),
    "a server nobody calls": ("import uvicorn\ndef up():\n    uvicorn.run('x:y')", {("server", "app:up")}),
    "its outermost caller": (
        "import uvicorn\ndef up():\n    uvicorn.run('x:y')\ndef cli():\n    up()",
        {("server", "app:cli")},
    ),
    "uvicorn server": (
        "import uvicorn\nasync def up():\n    server = uvicorn.Server(uvicorn.Config('x:y'))\n"
        "    await server.serve()",
        {("server", "app:up")},
    ),
    "derived server": (
        "import uvicorn\nclass S(uvicorn.Server): ...\ndef up(): S(None).run()",
        {("server", "app:up")},
    ),
    "asyncio": (
        "import asyncio\nasync def up():\n    await asyncio.start_server(print, 'x', 1)",
        {("server", "app:up")},
    ),
    "aiohttp": (
        "from aiohttp import web\ndef up():\n    web.run_app(web.Application())",
        {("server", "app:up")},
    ),
    "gunicorn": (
        "from gunicorn.app.base import BaseApplication\nclass A(BaseApplication): ...\ndef up(): A().run()",
        {("server", "app:up")},
    ),
    "grpc": (
        "import grpc\nasync def up():\n    s = grpc.aio.server()\n    await s.start()",
        {("server", "app:up")},
    ),
    "http.server": (
        "from http.server import HTTPServer\ndef up():\n    HTTPServer(('', 1), None).serve_forever()",
        {("server", "app:up")},
    ),
    "a method of something unknown": (
        "async def up(runtime):\n    await runtime.endpoint('x').serve_endpoint(print)",
        {("server", "app:up")},
    ),
    "dynamo": ("from dynamo.llm import run_input\nasync def up(): await run_input()", {("server", "app:up")}),
    "lifespan": (
        "from fastapi import FastAPI\nfrom contextlib import asynccontextmanager\n@asynccontextmanager\n"
        "async def life(app):\n    yield\napp = FastAPI(lifespan=life)",
        {("ASGI application", "app:life")},
    ),
    "lifespan in a factory": (
        "from fastapi import FastAPI\nasync def life(app):\n    yield\ndef make():\n"
        "    return FastAPI(lifespan=life)",
        {("ASGI application", "app:life")},
    ),
    "application alone": (
        "from starlette.applications import Starlette\napp = Starlette()",
        {("ASGI application", "app:<module>")},
    ),
    "on_event": (
        "from fastapi import FastAPI\napp = FastAPI()\n@app.on_event('startup')\ndef up(): ...",
        {("ASGI application", "app:up")},
    ),
    "ray actor": ("import ray\n@ray.remote(num_cpus=1)\nclass A: ...", {("Ray actor", "app:A")}),
    "ray actor by call": ("import ray\nclass A: ...\nB = ray.remote(A)", {("Ray actor", "app:A")}),
    "ray serve": ("from ray import serve\n@serve.deployment\nclass D: ...", {("Ray deployment", "app:D")}),
    "celery": ("from celery import Celery\napp = Celery('x')", {("Celery application", "app:<module>")}),
}

#: Source that begins no process and serves nothing.
NOTHING = {
    "psutil": "import psutil, os\npsutil.Process(os.getpid())",
    "subprocess": "import subprocess\nsubprocess.run(['x'])",
    "asyncio subprocess": "import asyncio\nasync def f():\n    await asyncio.create_subprocess_exec('x')",
    "thread": "import threading\ndef f(): ...\nthreading.Thread(target=f).start()",
    "thread pool": "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(initializer=print)",
    "thread pool of multiprocessing": "from multiprocessing.pool import ThreadPool\nThreadPool(3)",
    "dead code": "import multiprocessing\ndef f(): ...\nif False:\n    multiprocessing.Process(target=f)",
    "dead server": "import uvicorn\ndef up():\n    return\n    uvicorn.run('x:y')",
    "another run": "import subprocess, asyncio\nasync def m(): ...\nif __name__ == '__main__':\n"
    "    asyncio.run(m())",
    "class of that name": "class Process:\n    def __init__(self, x): ...\nProcess(1)",
    "ray task": "import ray\n@ray.remote\ndef f(): ...",
    "main block that serves nothing": "def main(): ...\nif __name__ == '__main__':\n    main()",
    "text": "x = 'multiprocessing.Process(target=f); uvicorn.run(app)'",
}


@pytest.mark.parametrize("name", FOUND)
def test_found(tmp_path: Path, name: str) -> None:
    source, entries = FOUND[name]
    result = checked(tmp_path, {"app.py": source})
    assert found(result) == entries
    assert missing(result) == {entry for _, entry in entries}  # none of them applies anything


@pytest.mark.parametrize("name", NOTHING)
def test_not_found(tmp_path: Path, name: str) -> None:
    result = checked(tmp_path, {"app.py": NOTHING[name]})
    assert not result.entries and not result.findings


def test_a_base_that_installs_and_an_entry_that_overrides_it(tmp_path: Path) -> None:
    """A6's trap, in the three forms that it takes."""
    base = """
        import frostline, uvicorn
        from multiprocessing import Process
        class Base(Process):
            def run(self):
                frostline.install()
                self.work()
            def work(self): ...
        class Server:
            def serve(self):
                frostline.install()
                frostline.startup_complete()
                uvicorn.run("x:y")
        class Spawner:
            def start(self):
                Process(target=self.main).start()
            def main(self):
                frostline.install()
    """
    derived = """
        import uvicorn
        from base import Base, Server, Spawner
        class Good(Base):
            def work(self): print()
        class Better(Base):
            def run(self): super().run()
        class Bad(Base):
            def run(self): self.work()
        class GoodServer(Server):
            def serve(self):
                super().serve()
        class BadServer(Server):
            def serve(self):
                uvicorn.run("x:y")
        class GoodSpawner(Spawner): ...
        class BadSpawner(Spawner):
            def main(self): print()
    """
    result = checked(tmp_path, {"base.py": base, "derived.py": derived})
    wrong = {finding.entry: finding for finding in result.findings}
    assert "derived:Bad.run" in wrong and "derived:BadServer.serve" in wrong
    assert any("BadSpawner" in name for name in wrong)
    assert len(wrong) == 3
    assert wrong["derived:Bad.run"].elsewhere


def test_a_process_that_serves_must_reach_the_boundary_too(tmp_path: Path) -> None:
    source = """
        import frostline, uvicorn
        from multiprocessing import Process
        def front():
            frostline.install()
            uvicorn.run("x:y")
        def engine():
            frostline.install()
        Process(target=front)
        Process(target=engine)
    """
    result = checked(tmp_path, {"app.py": source})
    (finding,) = result.findings
    assert finding.entry == "app:front" and "frostline.startup_complete()" in finding.message
    assert "frostline.install()" not in finding.message
    assert finding.calls == ("app:front", "uvicorn.run")
    assert {entry.name: entry.serves for entry in result.entries} == {"app:front": True, "app:engine": False}
    assert not checked(tmp_path, {}, Config(require_serving=())).findings


def test_a_parent_does_not_stand_for_its_child(tmp_path: Path) -> None:
    source = """
        import frostline, uvicorn
        from multiprocessing import Process
        def child(): ...
        def main():
            frostline.install()
            frostline.startup_complete()
            Process(target=child).start()
            uvicorn.run("x:y")
        if __name__ == "__main__":
            main()
    """
    assert missing(checked(tmp_path, {"app.py": source})) == {"app:child"}


def test_the_application_may_apply_it_in_its_lifespan(tmp_path: Path) -> None:
    source = """
        import frostline
        from fastapi import FastAPI
        from contextlib import asynccontextmanager
        frostline.install()
        @asynccontextmanager
        async def life(app):
            frostline.startup_complete()
            yield
            frostline.shutdown()
        app = FastAPI(lifespan=life)
    """
    result = checked(tmp_path, {"app.py": source})
    assert not result.findings and found(result) == {("ASGI application", "app:life")}


def test_a_server_in_the_tree_starts_its_own_application(tmp_path: Path) -> None:
    source = """
        import frostline, uvicorn
        from fastapi import FastAPI
        app = FastAPI()
        def main():
            frostline.install()
            frostline.startup_complete()
            uvicorn.run(app)
        if __name__ == "__main__":
            main()
    """
    result = checked(tmp_path, {"app.py": source})
    assert not result.findings and found(result) == {("main block", "app:<main>")}


def test_celery_and_gunicorn_by_their_hooks(tmp_path: Path) -> None:
    result = checked(
        tmp_path,
        {
            "tasks.py": "from celery import Celery\nfrom celery.signals import worker_process_init\n"
            "import frostline\n"
            "app = Celery('x')\n@worker_process_init.connect\ndef up(**_):\n    frostline.install()",
            "gunicorn.conf.py": "import frostline\ndef post_fork(server, worker):\n    frostline.install()\n"
            "def post_worker_init(worker):\n    frostline.startup_complete()",
        },
    )
    assert not result.findings
    assert {kind for kind, _ in found(result)} == {"Celery application", "Gunicorn configuration"}


def test_an_actor_runs_what_is_called_on_it(tmp_path: Path) -> None:
    source = """
        import frostline, ray
        class Base:
            def run(self): frostline.install()
            @staticmethod
            def main(): frostline.install()
        @ray.remote
        class Called(Base): ...
        @ray.remote
        class Made:
            def __init__(self): frostline.install()
        @ray.remote
        class Other(Base):
            def run(self): ...
        ray.get(Called.remote().run.remote())
    """
    assert missing(checked(tmp_path, {"app.py": source})) == {"app:Other"}


def test_console_scripts_that_serve(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "pyproject.toml": "[project.scripts]\nserve = 'pkg.cli:serve'\nlist = 'pkg.cli:show'\n",
            "src/pkg/__init__.py": "",
            "src/pkg/cli.py": "import uvicorn\ndef serve():\n    uvicorn.run('x:y')\ndef show(): ...",
        },
    )
    result = checking.check(tmp_path, checking.load(tmp_path))
    assert found(result) == {("console script", "pkg.cli:serve (serve)")}


def test_a_target_that_is_not_known_is_said(tmp_path: Path) -> None:
    source = (
        "import multiprocessing, sys\nmultiprocessing.Process(target=TABLE[sys.argv[1]])\n"
        "multiprocessing.Process(**TABLE)\nmultiprocessing.Process(target=sys.exit)"
    )
    notes = checked(tmp_path, {"app.py": source}).notes
    assert [note.partition(": a process runs ")[0] for note in notes] == ["app.py:2", "app.py:3", "app.py:4"]
    assert "not known" in notes[0] and "not known" in notes[1] and "sys.exit" in notes[2]


def test_a_pool_may_be_given_the_call_itself(tmp_path: Path) -> None:
    source = """
        import functools, frostline
        from concurrent.futures import ProcessPoolExecutor
        ProcessPoolExecutor(initializer=frostline.install)
        ProcessPoolExecutor(initializer=functools.partial(frostline.install, role="x"))
        ProcessPoolExecutor(initializer=frostline.shutdown)
    """
    assert missing(checked(tmp_path, {"app.py": source})) == {"frostline.shutdown"}


def test_servers_may_be_added(tmp_path: Path) -> None:
    source = """
        import their.rpc
        from multiprocessing import Process
        def a(): their.rpc.listen_here()
        def b(line): line.answer_all()
        def c(): own()
        def own(): ...
        def d(): their.rpc.other()
        for one in (a, b, c, d):
            Process(target=one)
    """
    config = Config(servers=("their.rpc.listen_here", "answer_all", "app.own"))
    result = checked(tmp_path, {"app.py": source}, config)
    assert {entry.name for entry in result.entries if entry.serves} == {"app:a", "app:b", "app:c"}
