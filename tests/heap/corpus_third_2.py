"""The third blind corpus, part 2: c iterators, generators, asyncio, ctypes, buffers and files."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import email.feedparser
import functools
import io
import itertools

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


class Ledger:
    def __init__(self, entries):
        self.entries = entries

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        return self.entries[index]

    def latest(self):
        self.newest_first = reversed(self)
        return next(self.newest_first)


@program("C iterators", "Ledger", "newest_first", "reversed")
def reversed_iterator_kept_by_its_sequence():
    return Ledger([1, 2, 3]).latest()


@program.twin
def reversed_iterator_kept_apart():
    newest_first = reversed(Ledger([1, 2, 3]))
    return next(newest_first)


# A tokenizer with lookahead: tee over a map over a method.
class TokenStream:
    def __init__(self, text):
        self.ahead, self.behind = itertools.tee(map(self.classify, text.split()))

    def classify(self, word):
        return ("number" if word.isdigit() else "name", word)


def classify_word(word):
    return ("number" if word.isdigit() else "name", word)


class TokenStreamByFunction:
    def __init__(self, text):
        self.ahead, self.behind = itertools.tee(map(classify_word, text.split()))


@program("C iterators", "TokenStream", ("ahead", "behind"), "tee", "map", at("def classify"))
def tee_over_a_map_over_a_method():
    stream = TokenStream("a 1 b")
    return next(stream.ahead), next(stream.ahead), next(stream.behind)


@program.twin
def tee_over_a_map_over_a_function():
    stream = TokenStreamByFunction("a 1 b")
    return next(stream.ahead), next(stream.ahead), next(stream.behind)


# The connection broke off before the message ended: nobody calls close().
def read_mail(chunks, close):
    parser = email.feedparser.FeedParser()
    for chunk in chunks:
        parser.feed(chunk)
    if close:
        parser.close()


@program("generators", "FeedParser", "_parse", "_parsegen", "feedparser.py")
def feed_parser_never_closed():
    read_mail(["Subject: half\r\n\r\n", "of a mess"], close=False)


@program.twin
def feed_parser_closed():
    read_mail(["Subject: half\r\n\r\n", "of a mess"], close=True)


class PriceFeed:
    def __init__(self, symbols):
        self.symbols = symbols
        self.incoming = self.quotes()

    async def quotes(self):
        for symbol in self.symbols:
            yield symbol


async def quotes_of(symbols):
    for symbol in symbols:
        yield symbol


class PriceFeedByFunction:
    def __init__(self, symbols):
        self.symbols = symbols
        self.incoming = quotes_of(symbols)


@program("generators", "PriceFeed", "incoming", "quotes", at("async def quotes"))
def async_generator_never_started():
    return PriceFeed(["A", "B"]).symbols


@program.twin
def async_generator_of_a_function():
    return PriceFeedByFunction(["A", "B"]).symbols


# An ExitStack on an object, on which the object's own context manager waits to be left.
class Importer:
    def __init__(self):
        self.rows = []
        self.cleanups = contextlib.ExitStack()
        self.cleanups.enter_context(self.transaction())

    @contextlib.contextmanager
    def transaction(self):
        yield self.rows

    def close(self):
        self.cleanups.close()


@program(
    "generators",
    "Importer",
    "cleanups",
    "ExitStack",
    "_GeneratorContextManager",
    (at("def transaction"), at("@contextlib.contextmanager")),
)
def exit_stack_waits_for_a_generator_of_its_owner():
    return Importer().rows


@program.twin
def exit_stack_closed():
    importer = Importer()
    importer.close()
    return importer.rows


# aiohttp's connector: a timer not cancelled keeps its callback, also when the loop is closed.
class KeepAlive:
    def __init__(self, loop):
        self.idle = []
        self.sweep_timer = loop.call_later(30, self.close_idle)

    def close_idle(self):
        self.idle.clear()


@program("asyncio", "KeepAlive", "sweep_timer", "TimerHandle", "_callback", at("def close_idle"))
def timer_not_cancelled():
    loop = asyncio.new_event_loop()
    KeepAlive(loop)
    loop.close()


@program.twin
def timer_cancelled():
    loop = asyncio.new_event_loop()
    KeepAlive(loop).sweep_timer.cancel()
    loop.close()


# A task that fails while it has itself in a local variable.
async def poll_queue():
    own_task = asyncio.current_task()
    own_task.set_name("poller")
    raise ConnectionResetError("peer")


async def poll_queue_by_name():
    asyncio.current_task().set_name("poller")
    raise ConnectionResetError("peer")


async def supervise(poll):
    task = asyncio.ensure_future(poll())
    while not task.done():
        await asyncio.sleep(0)
    return str(task.exception())


@program("asyncio", "Task", "own_task", ("ConnectionResetError", "traceback"), at("async def poll_queue"))
def task_failed_with_itself_in_a_local():
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(supervise(poll_queue))
    finally:
        loop.close()


@program.twin
def task_failed():
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(supervise(poll_queue_by_name))
    finally:
        loop.close()


# INIT_LIST_HEAD of every C library: an empty list points to itself, and ctypes keeps what is pointed to.
class ListHead(ctypes.Structure):
    pass


ListHead._fields_ = [("following", ctypes.POINTER(ListHead)), ("length", ctypes.c_int)]


@program("ctypes", "ListHead", ("_objects", "following"))
def structure_that_points_to_itself():
    head = ListHead()
    head.following = ctypes.pointer(head)
    return head.length


@program.twin
def structure_that_points_nowhere():
    head = ListHead()
    head.following = None
    return head.length


# Zero-copy parsing: the packet keeps a view of itself.
class Packet(bytearray):
    def __init__(self, data):
        super().__init__(data)
        self.payload_view = memoryview(self)[4:]


class PacketOfBytes:
    def __init__(self, data):
        self.payload_view = memoryview(bytes(data))[4:]


@program("buffers and files", "Packet", "payload_view", "memoryview")
def memoryview_kept_by_its_buffer():
    return len(Packet(b"HEADpayload").payload_view)


@program.twin
def memoryview_of_a_buffer_apart():
    return len(PacketOfBytes(b"HEADpayload").payload_view)


# urllib3, botocore: a raw body that keeps the buffered reader over itself for readline().
class DecodedBody(io.RawIOBase):
    def __init__(self, data):
        self.source = io.BytesIO(data)
        self.line_reader = None

    def readable(self):
        return True

    def readinto(self, into):
        return self.source.readinto(into)

    def first_line(self):
        self.line_reader = io.BufferedReader(self)
        return self.line_reader.readline()


@program("buffers and files", "DecodedBody", "line_reader", "BufferedReader")
def buffered_reader_kept_by_its_raw_file():
    return DecodedBody(b"a\nb\n").first_line()


@program.twin
def buffered_reader_over_a_raw_file():
    return io.BufferedReader(DecodedBody(b"a\nb\n")).readline()
