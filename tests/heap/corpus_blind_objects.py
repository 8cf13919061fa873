"""The blind corpus, part four: objects of C and ctypes (see corpus_blind.py)."""

from __future__ import annotations

import csv
import ctypes
import io
import itertools
import json
import pickle
import sqlite3
from collections import OrderedDict, deque
from xml.dom import minidom
from xml.parsers import expat

import blind

program = blind.Corpus()


# --- objects of C ---------------------------------------------------------------------------------
class Store:
    def __init__(self):
        self.database = sqlite3.connect(":memory:")
        self.database.row_factory = self.to_row

    def to_row(self, cursor, row):
        return row


class FeedReader:
    def __init__(self):
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self.on_start

    def on_start(self, name, attributes):
        pass


@program("C objects", "Store", "database", "Connection", "method to_row")
def a_row_factory():
    Store().database.execute("select 1").fetchall()


@program.twin
def a_row_factory_that_is_unset():
    store = Store()
    store.database.row_factory = None
    store.database.close()


@program("C objects", "FeedReader", "parser", "xmlparser", "method on_start")
def an_expat_handler():
    FeedReader().parser.Parse("<a/>", True)


@program.twin
def an_expat_handler_that_is_unset():
    FeedReader().parser.StartElementHandler = None


@program(
    "C objects", ("Document", "Element"), ("parentNode", "ownerDocument", "documentElement", "childNodes")
)
def a_minidom_document():
    minidom.parseString("<a><b/></a>")


@program.twin
def a_minidom_document_unlinked():
    minidom.parseString("<a><b/></a>").unlink()


class Api:
    def to_plain(self, value):
        return str(value)

    def read_chunk(self):
        return b""

    def is_known(self, value):
        return True


@program("C objects", "Api", "encoder", "JSONEncoder", "default", "method to_plain")
def an_encoder_of_its_own():
    api = Api()
    api.encoder = json.JSONEncoder(default=api.to_plain)


@program.twin
def an_encoder_for_one_call():
    json.dumps({"a": {1}}, default=Api().is_known)


@program("C objects", "Api", "chunks", "callable_iterator", "method read_chunk")
def an_iterator_over_a_method():
    api = Api()
    api.chunks = iter(api.read_chunk, "end")


@program.twin
def an_iterator_run_to_its_end():
    api = Api()
    api.chunks = iter(api.read_chunk, b"")
    list(api.chunks)


@program("C objects", "Api", "known", "chain", "filter", "method is_known")
def iterators_in_one_another():
    api = Api()
    api.known = itertools.chain(filter(api.is_known, [1]), ())


@program.twin
def iterators_that_are_spent():
    api = Api()
    api.known = list(itertools.chain(filter(api.is_known, [1]), ()))


class LineFeed:
    def __init__(self):
        self.rows = csv.reader(self)

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration


@program("C objects", "LineFeed", "rows", "reader")
def a_csv_reader_of_itself():
    list(LineFeed().rows)


@program.twin
def a_csv_reader_of_lines():
    list(csv.reader(["a,b"]))


class Sink(io.RawIOBase):
    def writable(self):
        return True


@program("C objects", "Sink", "text", "TextIOWrapper", "BufferedWriter")
def a_stream_that_wraps_itself():
    sink = Sink()
    sink.text = io.TextIOWrapper(io.BufferedWriter(sink))


@program.twin
def a_stream_that_is_detached():
    sink = Sink()
    sink.text = io.TextIOWrapper(io.BufferedWriter(sink))
    sink.text.detach().detach()


class Saver:
    def __init__(self):
        self.pickler = pickle.Pickler(io.BytesIO())
        self.pickler.dispatch_table = {complex: self.reduce_complex}

    def reduce_complex(self, value):
        return complex, (value.real, value.imag)


@program("C objects", "Saver", "pickler", "Pickler", "complex", "method reduce_complex")
def a_pickler_with_a_table():
    Saver()


@program.twin
def a_pickler_let_go():
    saver = Saver()
    del saver.pickler


class Backlog:
    def __init__(self):
        self.waiting = deque([BacklogItem(self)])
        self.by_name = OrderedDict()


class BacklogItem:
    __slots__ = ("backlog",)

    def __init__(self, backlog):
        self.backlog = backlog


@program("C objects", "Backlog", "waiting", "deque", "BacklogItem", "backlog")
def a_queue_of_items_that_know_it():
    Backlog()


@program.twin
def a_queue_that_is_emptied():
    Backlog().waiting.clear()


# --- ctypes ---------------------------------------------------------------------------------------
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


class Device:
    def on_event(self, code):
        return 0


class LinkNode(ctypes.Structure):
    pass


LinkNode._fields_ = [("next", ctypes.POINTER(LinkNode))]


@program("ctypes", "Device", "callback", "CFunctionType", "method on_event")
def a_ctypes_callback():
    device = Device()
    device.callback = CALLBACK(device.on_event)


@program.twin
def a_ctypes_callback_of_a_function():
    device = Device()
    device.callback = CALLBACK(abs)


@program("ctypes", "LinkNode")
def a_structure_that_points_to_itself():
    node = LinkNode()
    node.next = ctypes.pointer(node)


@program.twin
def a_structure_that_points_nowhere():
    LinkNode().next = ctypes.pointer(LinkNode())
