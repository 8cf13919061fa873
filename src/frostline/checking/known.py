"""What libraries call the start of a server or of a process."""

from __future__ import annotations

import ast
import re

#: Calls of ours that do what a required one does.
SAME = {"frostline.install": "frostline.apply", "frostline.startup_complete": "frostline.rpc_freeze"}
#: Calls that serve until they end, by their dotted name; ``()`` stands for what a call returned.
_SERVERS = re.compile(
    r"""
    uvicorn\.(main\.)?run
    | uvicorn\.(server\.|main\.)?Server\(\)\.(serve|run|main_loop|_serve)
    | hypercorn\.(asyncio|trio|run)\.(serve|run) | hypercorn\.run\.run
    | granian\.(server\.)?Granian\(\)\.serve
    | gunicorn\.app\.\w+\.\w+\(\)\.run
    | asyncio\.(start_server|start_unix_server)
    | (asyncio\.\w+\(\)|uvloop\.\w+\(\)|\w+_event_loop\(\))\.(create_server|create_unix_server)
    | aiohttp\.web\.(run_app|_run_app) | aiohttp\.web\.(TCPSite|UnixSite|SockSite)\(\)\.start
    | (waitress\.serve|werkzeug\.serving\.run_simple|bjoern\.run|cheroot\.wsgi\.Server\(\)\.start)
    | (http\.server|socketserver|wsgiref\.simple_server|xmlrpc\.server)\.\w+\(\)(\.\w+\(\))?\.serve_forever
    | grpc\.(aio\.)?server\(\)\.start
    | ray\.serve\.run | dynamo\.(llm|_core)\.run_input
    | sanic\.Sanic\(\)\.(run|serve)
    | flask\.Flask\(\)\.run | quart\.Quart\(\)\.(run|run_task)
    | tornado\.(httpserver\.HTTPServer|web\.Application)\(\)\.(listen|start)
    """,
    re.X,
)
#: Last names of the calls that start a server, make a process, or set up what serves.
SERVER_CALLS = {
    "run", "serve", "main_loop", "_serve", "start_server", "start_unix_server", "create_server",
    "create_unix_server", "run_app", "_run_app", "start", "run_simple", "serve_forever", "run_task", "listen",
    "serve_endpoint", "run_input",
}  # fmt: skip
#: Methods that serve, whatever they are called on: what that is is often made by compiled code.
SERVING_METHODS = {"serve_endpoint", "serve_forever"}
PROCESS_CALLS = {
    "Process", "SpawnProcess", "ForkProcess", "ForkServerProcess", "BaseProcess", "Pool",
    "ProcessPoolExecutor", "spawn", "start_processes", "get_reusable_executor",
}  # fmt: skip
SETUP_CALLS = {"FastAPI", "Starlette", "Litestar", "Celery"}
#: The text that a module must hold for any of those, or an actor, to be in it.
WORDS = re.compile(
    rb"\b(uvicorn|hypercorn|granian|gunicorn|start_server|start_unix_server|create_server|create_unix_server"
    rb"|aiohttp|waitress|werkzeug|bjoern|cheroot|serve_forever|serve_endpoint|run_input|grpc|ray|sanic|flask|quart|tornado|\w*Server"
    rb"|\w*Process|Pool|ProcessPoolExecutor|spawn|start_processes|get_reusable_executor|lifespan|on_startup"
    rb"|on_event|FastAPI|Starlette|Litestar|Celery|worker_process_init)\b"
)
_ALIASED = re.compile(
    rb"\b(" + b"|".join(sorted(name.encode() for name in SERVER_CALLS | PROCESS_CALLS | SETUP_CALLS))
    + rb")\s+as\s+(\w+)"
)  # fmt: skip


def call_names(text: bytes) -> set[str]:
    """The last names under which a module may make one of those calls."""
    aliases = {alias.decode("utf-8", "replace") for _, alias in _ALIASED.findall(text)}
    return aliases | SERVER_CALLS | PROCESS_CALLS | SETUP_CALLS


_PROCESS = re.compile(r"(^|\.)(Process|SpawnProcess|ForkProcess|ForkServerProcess|BaseProcess)$")
_OTHER_PROCESSES = ("psutil", "asyncio", "subprocess")
_POOL = re.compile(
    r"^(concurrent\.futures(\.process)?\.ProcessPoolExecutor|(multiprocessing|torch\.multiprocessing|billiard|"
    r"multiprocess)(\.\w+\(\))?\.(pool\.)?Pool|loky\.(ProcessPoolExecutor|get_reusable_executor))$"
)
_SPAWN = re.compile(r"^(torch\.multiprocessing(\.spawn)?\.(spawn|start_processes))$")
_TO_POOL = re.compile(
    r"(ProcessPoolExecutor\(\)\.(submit|map)|Pool\(\)\.(apply|apply_async|map|map_async|imap|imap_unordered"
    r"|starmap|starmap_async))$"
)
PROCESS_BASES = {
    f"{package}.{name}"
    for package in ("multiprocessing", "multiprocessing.process", "multiprocessing.context",
                    "torch.multiprocessing", "billiard", "billiard.process", "multiprocess")
    for name in ("Process", "SpawnProcess", "ForkProcess", "ForkServerProcess", "BaseProcess")
} | {"multiprocessing.get_context().Process", "torch.multiprocessing.get_context().Process"}  # fmt: skip
APPLICATIONS = {
    "fastapi.FastAPI", "fastapi.applications.FastAPI", "starlette.applications.Starlette",
    "litestar.Litestar",
}  # fmt: skip
ACTORS = {"ray.remote", "ray.remote()", "ray.actor.ActorClass"}
DEPLOYMENTS = {"ray.serve.deployment", "ray.serve.deployment()", "ray.serve.ingress()"}
CELERY_APPS = {"celery.Celery", "celery.app.base.Celery"}
CELERY_SIGNALS = {
    "celery.signals.worker_process_init.connect",
    "celery.signals.worker_process_init.connect()",
}
GUNICORN_FILES = {"gunicorn.conf.py", "gunicorn_conf.py", "gunicorn_config.py"}
GUNICORN_HOOKS = ("post_fork", "post_worker_init")


def starts_server(name: str) -> bool:
    """Whether a call of this name serves."""
    return _SERVERS.fullmatch(name) is not None


def is_process(name: str) -> bool:
    """Whether a call of this name makes a process of Python's."""
    return _PROCESS.search(name) is not None and name.split(".")[0] not in _OTHER_PROCESSES


def is_pool(name: str) -> bool:
    """Whether a call of this name makes a pool of processes."""
    return _POOL.match(name) is not None


def runs_elsewhere(name: str) -> bool:
    """Whether what is handed to a call of this name runs in a pool's process."""
    return _TO_POOL.search(name) is not None


def process_arguments(call: ast.Call, names: set[str]) -> list[ast.expr]:
    """The arguments that name what a new process will run.

    Args:
        names: what the called thing is, as far as it is known. ``ctx.Process(target=...)`` of an unknown
            ``ctx`` is recognised by its name and its keyword.
    """
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    found: list[ast.expr] = []
    if any(_SPAWN.match(name) for name in names):
        return [keywords["fn"]] if "fn" in keywords else call.args[:1]
    if any(is_pool(name) for name in names):
        if "initializer" in keywords:
            return [keywords["initializer"]]
        place = 2 if any(name.endswith("ProcessPoolExecutor") for name in names) else 1
        return call.args[place : place + 1]
    if _PROCESS.search(last) or any(_PROCESS.search(name) for name in names):
        if any(name.split(".")[0] in _OTHER_PROCESSES for name in names):
            return []
        if "target" in keywords:
            found.append(keywords["target"])
        elif len(call.args) >= 2 and any(_PROCESS.search(name) for name in names):
            found.append(call.args[1])
    return found
