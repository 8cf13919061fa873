"""The blind corpus, part three: caches, generators, classes, contexts, logging (see corpus_blind.py)."""

from __future__ import annotations

import abc
import contextlib
import contextvars
import enum
import functools
import logging
import types
import weakref
from collections import namedtuple

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# --- caches ---------------------------------------------------------------------------------------
class Catalog:
    def price_of(self, name):
        return len(name)

    def size_of(self, name):
        return self.price_of(name)

    @functools.cached_property
    def view(self):
        return CatalogView(self)


class CatalogView:
    def __init__(self, catalog):
        self.catalog = catalog


@program("caches", "Catalog", "lookup", "lru_cache", ("method price_of", "price_of"))
def a_cache_for_each_instance():
    catalog = Catalog()
    catalog.lookup = functools.lru_cache(maxsize=None)(catalog.price_of)
    catalog.lookup("a")


@program.twin
def a_cache_of_plain_values():
    catalog = Catalog()
    catalog.lookup = functools.lru_cache(maxsize=None)(len)
    catalog.lookup("a")


@program("caches", "Catalog", "view", "CatalogView", "catalog")
def a_cached_property_that_looks_back():
    return Catalog().view.catalog


@program.twin
def a_view_made_anew():
    return CatalogView(Catalog()).catalog


# --- generators and coroutines --------------------------------------------------------------------
class Reader:
    def iter_rows(self):
        yield 1
        yield 2

    async def stream_tokens(self):
        yield 1

    async def wait_for_reply(self):
        await asking()


@types.coroutine
def asking():
    yield


@program("generators", "Reader", "rows", "generator", "iter_rows", at("def iter_rows"))
def a_generator_left_in_the_middle():
    reader = Reader()
    reader.rows = reader.iter_rows()
    next(reader.rows)


@program.twin
def a_generator_run_to_its_end():
    reader = Reader()
    reader.rows = reader.iter_rows()
    list(reader.rows)


@program("generators", "Reader", "reply", "coroutine", "wait_for_reply", at("async def wait_for_reply"))
def a_coroutine_that_waits_for_ever():
    reader = Reader()
    reader.reply = reader.wait_for_reply()
    reader.reply.send(None)


@program.twin
def a_coroutine_that_is_closed():
    reader = Reader()
    reader.reply = reader.wait_for_reply()
    reader.reply.send(None)
    reader.reply.close()


@program("generators", "Reader", "tokens", "stream_tokens", at("async def stream_tokens"))
def an_async_generator_never_begun():
    reader = Reader()
    reader.tokens = reader.stream_tokens()


@program.twin
def an_async_generator_dropped():
    Reader().stream_tokens()


# --- weak references and finalizers ---------------------------------------------------------------
class Pool:
    def __init__(self):
        self.connections = [Connection(self)]


class Connection:
    def __init__(self, pool):
        self.pool = pool

    def __del__(self):
        self.closed = True


class Watcher:
    def watch(self, other):
        self.reference = weakref.ref(other, lambda _: self.gone())

    def gone(self):
        pass


@program("finalizers", "Pool", "connections", "Connection", "pool")
def an_object_with_a_finalizer():
    Pool()


@program.twin
def a_pool_that_is_closed():
    Pool().connections.clear()


@program("weak references", "Watcher", "reference", "weakref", "<lambda>", at("self.reference ="))
def a_callback_of_a_weak_reference():
    Watcher().watch(Reader)


@program.twin
def a_weak_reference_without_callback():
    Watcher().reference = weakref.ref(Reader)


# --- classes made at run time ---------------------------------------------------------------------
class Registered(type):
    def __new__(meta, name, bases, namespace):
        made = super().__new__(meta, name, bases, namespace)
        made.options = Options(made)
        return made


class Options:
    def __init__(self, model):
        self.model = model


@program("classes", "LocalRow")
def a_class_in_a_function():
    class LocalRow:
        def __init__(self):
            super().__init__()

    LocalRow()


class GlobalRow:
    pass


@program.twin
def a_class_of_the_module():
    GlobalRow()


@program("classes", ("InvoiceModel", "Options"), "InvoiceModel")
def a_metaclass_notes_the_class():
    Registered("InvoiceModel", (), {})


@program.twin
def its_options_alone():
    Options(GlobalRow)


@program("classes", "PointOfCall")
def a_namedtuple_for_each_call():
    namedtuple("PointOfCall", "x y")(1, 2)


@program.twin
def a_simple_namespace():
    types.SimpleNamespace(x=1, y=2)


class Plugin(abc.ABC):  # noqa: B024
    pass


@program("classes", "VirtualPlugin")
def a_class_registered_with_an_abc():
    class VirtualPlugin:
        pass

    Plugin.register(VirtualPlugin)
    isinstance(VirtualPlugin(), Plugin)


@program.twin
def an_instance_asked_of_an_abc():
    isinstance(GlobalRow(), Plugin)


@program("classes", "StateOfCall")
def an_enum_for_each_call():
    enum.Enum("StateOfCall", "ON OFF")


@program.twin
def a_dict_of_states():
    return dict(ON=1, OFF=2)  # noqa: C408


# --- contexts -------------------------------------------------------------------------------------
current_request: contextvars.ContextVar[object] = contextvars.ContextVar("current_request", default=None)


class Request:
    pass


@program("contextvars", "Request", "context", "Context", "current_request")
def a_request_keeps_its_context():
    request = Request()
    request.context = contextvars.copy_context()
    request.context.run(current_request.set, request)


@program.twin
def a_request_in_a_context():
    request = Request()
    contextvars.copy_context().run(current_request.set, request)


class Session:
    def __init__(self):
        self.stack = contextlib.ExitStack()

    def close_session(self):
        pass


@program("contexts", "Session", "stack", "ExitStack", "_exit_callbacks", "method close_session")
def an_exit_stack_with_a_method():
    session = Session()
    session.stack.callback(session.close_session)


@program.twin
def an_exit_stack_that_is_closed():
    session = Session()
    session.stack.callback(session.close_session)
    session.stack.close()


# --- logging --------------------------------------------------------------------------------------
class JobHandler(logging.Handler):
    def __init__(self, job):
        super().__init__()
        self.job = job

    def emit(self, record):
        pass


class LoggedJob:
    def __init__(self):
        self.log = logging.Logger("job")
        self.log.addHandler(JobHandler(self))

    def wanted(self, record):
        return True


@program("logging", "LoggedJob", "log", "Logger", "handlers", "JobHandler", "job")
def a_handler_that_knows_its_job():
    LoggedJob().log.warning("x")


@program.twin
def a_handler_that_is_removed():
    job = LoggedJob()
    job.log.removeHandler(job.log.handlers[0])
