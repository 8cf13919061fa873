"""The second blind corpus, part 4: the standard library's own cycles, weak references, ctypes,
C iterators, containers."""

from __future__ import annotations

import collections
import ctypes
import functools
import inspect
import itertools
import selectors
import threading
import types
import weakref
from unittest import mock
from xml.dom import minidom
from xml.parsers import expat

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# statsd, sentry, launchdarkly: a timer to flush the batch that keeps the timer
class MetricsBatch:
    def __init__(self) -> None:
        self.metrics: list = []
        self._flush_timer = threading.Timer(30.0, self.flush_metrics)

    def flush_metrics(self) -> None:
        self.metrics.clear()

    def shut_down(self) -> None:
        self._flush_timer.cancel()


@program("threads", "MetricsBatch", "_flush_timer", "Timer", "flush_metrics", at("def flush_metrics"))
def timer_that_is_only_cancelled():
    MetricsBatch().shut_down()


@program.twin
def timer_that_is_cancelled_and_dropped():
    batch = MetricsBatch()
    batch.shut_down()
    batch._flush_timer = None


# caches: a weak reference, whose callback is a method of the one that keeps it
class SharedModel:
    pass


MODEL = SharedModel()


class ModelWatch:
    def __init__(self) -> None:
        self.alive = True
        self._model_ref = weakref.ref(MODEL, self.model_died)

    def model_died(self, reference) -> None:
        self.alive = False


@program(
    "weakref", "ModelWatch", "_model_ref", ("weakref", "ReferenceType"), "model_died", at("def model_died")
)
def watch_called_back_by_its_own_reference():
    ModelWatch()


@program.twin
def watch_that_drops_its_reference():
    ModelWatch()._model_ref = None


# "it is a WeakKeyDictionary, so it cannot leak": its value holds the key, and the key the dictionary
class Engine:
    def __init__(self) -> None:
        self.dialects: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


class CompiledDialect:
    def __init__(self, engine: Engine) -> None:
        self.for_engine = engine


@program("weakref", "Engine", "dialects", "WeakKeyDictionary", "CompiledDialect", "for_engine")
def weak_key_held_by_its_value():
    engine = Engine()
    engine.dialects[engine] = CompiledDialect(engine)


@program.twin
def weak_key_not_held_by_its_value():
    engine = Engine()
    engine.dialects[engine] = CompiledDialect(None)


# numpy.ctypeslib, pyusb: ctypes.cast() enters what it casts in the keep-alive dict of that object itself
FrameBuffer = ctypes.c_ubyte * 24
BytePointer = ctypes.POINTER(ctypes.c_ubyte)


@program("ctypes", "c_ubyte_Array_24", ("_objects", "b_objects", "cast"))
def buffer_that_is_cast():
    ctypes.cast(FrameBuffer(), BytePointer)


@program.twin
def buffer_by_address():
    ctypes.addressof(FrameBuffer())


# subprocess and server loops of one's own: a selector refers to its map, which refers to it, until close()
@program("standard library", "SelectSelector", "_map", "_SelectorMapping", "_selector")
def selector_that_is_not_closed():
    selectors.SelectSelector().get_map()


@program.twin
def selector_that_is_closed():
    with selectors.SelectSelector() as selector:
        selector.get_map()


# a test suite of some thousand mocks
@program("standard library", "MagicMock")
def client_that_is_a_magic_mock():
    mock.MagicMock(name="client")


@program.twin
def client_that_is_a_namespace():
    types.SimpleNamespace(name="client")


# minidom: parents, children and documents know each other until unlink()
def order_document() -> minidom.Document:
    document = minidom.Document()
    document.appendChild(document.createElement("order")).appendChild(document.createElement("item"))
    return document


@program("standard library", "Element", "childNodes", ("parentNode", "ownerDocument"))
def document_that_is_not_unlinked():
    order_document().toxml()


@program.twin
def document_that_is_unlinked():
    with order_document() as document:
        document.toxml()


# xmltodict, plistlib, feed readers: an expat parser whose handlers are methods of the object that keeps it
class PlistReader:
    def __init__(self) -> None:
        self.tags: list = []
        self._machine = expat.ParserCreate()
        self._machine.StartElementHandler = self.open_tag

    def open_tag(self, name: str, attributes: dict) -> None:
        self.tags.append(name)

    def read(self, text: str) -> list:
        self._machine.Parse(text, True)
        return self.tags


@program("parser", "PlistReader", "_machine", "xmlparser", "open_tag", at("def open_tag"))
def expat_handler_of_its_owner():
    PlistReader().read("<plist><dict/></plist>")


@program.twin
def expat_handler_taken_away():
    reader = PlistReader()
    reader.read("<plist><dict/></plist>")
    reader._machine.StartElementHandler = None


# API clients: pages by a chain of C iterators, at whose end a closure asks the client
class Paginator:
    def __init__(self, total: int) -> None:
        self.total = total
        self._pages = None

    def pages(self):
        def fetch_page(number: int) -> range:
            return range(10 * number, min(10 * number + 10, self.total))

        self._pages = itertools.takewhile(len, map(fetch_page, itertools.count()))
        return self._pages


@program("C iterators", "Paginator", "_pages", "takewhile", "map", at("def fetch_page"))
def pages_read_in_part():
    next(Paginator(25).pages())


@program.twin
def pages_let_go():
    paginator = Paginator(25)
    next(paginator.pages())
    paginator._pages = None


# dependency injection, rpc: the arguments of a later call are bound, self among them, and kept on self
class DeferredJob:
    def __init__(self) -> None:
        self.call_plan = None

    def execute(self, retries: int) -> int:
        return retries

    def plan(self) -> None:
        self.call_plan = inspect.signature(DeferredJob.execute).bind(self, 5)


@program("inspect", "DeferredJob", "call_plan", "BoundArguments", "arguments")
def job_among_its_bound_arguments():
    DeferredJob().plan()


@program.twin
def job_that_forgets_its_plan():
    job = DeferredJob()
    job.plan()
    job.call_plan = None


# jinja2: a scope of the template in which the scope itself can be named
class RenderScope(collections.ChainMap):
    pass


SITE = {"site": "shop"}


@program("collections", "RenderScope", "maps", "this_scope")
def scope_with_a_name_for_itself():
    scope = RenderScope({}, SITE)
    scope["this_scope"] = scope


@program.twin
def scope_with_a_name_for_its_keys():
    scope = RenderScope({}, SITE)
    scope["this_scope"] = sorted(scope)
