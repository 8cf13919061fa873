"""The second blind corpus, part 2: exceptions, frames, generators, asyncio, context variables."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
from concurrent.futures import Future
from email.feedparser import FeedParser

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# a worker that remembers what went wrong last (health checks, celery consumers, database pools)
class BadMessage(Exception):
    pass


class Consumer:
    def __init__(self) -> None:
        self.last_error = None

    def decode(self, message: str) -> None:
        raise BadMessage(message)

    def consume_one(self, message: str, keep: bool = True) -> None:
        try:
            self.decode(message)
        except BadMessage as error:
            self.last_error = error if keep else str(error)


@program("exception", "Consumer", "last_error", "BadMessage", (at("def consume_one"), at("def decode")))
def consumer_keeps_its_last_error():
    Consumer().consume_one("{")


@program.twin
def consumer_keeps_the_text_of_its_error():
    Consumer().consume_one("{", keep=False)


# urllib3, botocore, tenacity: the error of the last attempt in a variable of the function that retries
class ConnectFailed(Exception):
    pass


def connect(port: int) -> None:
    raise ConnectFailed(port)


def fetch_with_retries(attempts: int) -> str:
    last_failure = None
    for port in range(attempts):
        try:
            connect(port)
        except ConnectFailed as failure:
            last_failure = failure
    return f"gave up: {last_failure}"


def fetch_and_let_go(attempts: int) -> str:
    last_failure = None
    try:
        for port in range(attempts):
            try:
                connect(port)
            except ConnectFailed as failure:
                last_failure = failure
        return f"gave up: {last_failure}"
    finally:
        del last_failure


@program("exception", "ConnectFailed", "last_failure", at("def fetch_with_retries"))
def retries_with_the_error_in_a_variable():
    fetch_with_retries(3)


@program.twin
def retries_that_let_go_of_the_error():
    fetch_and_let_go(3)


# grpc, concurrent.futures: result() raises the exception that the future keeps, into a frame
# that keeps the future.
class NoReply(Exception):
    pass


def failed_call() -> Future:
    future: Future = Future()
    future.set_exception(NoReply("deadline"))
    return future


def collect_reply(pending: Future):
    try:
        return pending.result(timeout=0)
    except NoReply:
        return None


def ask_for_error(pending: Future):
    return None if pending.exception(timeout=0) else pending.result()


@program("exception", "Future", "_exception", "NoReply", "pending", at("def collect_reply"))
def future_whose_result_was_caught():
    collect_reply(failed_call())


@program.twin
def future_that_was_asked_for_its_exception():
    ask_for_error(failed_call())


# logging helpers, deprecation warnings: a look at one's own frame, by a local variable (warned of in
# inspect's docs)
def call_site(label: str) -> str:
    this_frame = inspect.currentframe()
    assert this_frame is not None
    return f"{label}:{this_frame.f_lineno}"


def call_site_tidy(label: str) -> str:
    its_frame = inspect.currentframe()
    try:
        assert its_frame is not None
        return f"{label}:{its_frame.f_lineno}"
    finally:
        del its_frame


@program("frame", "frame", "this_frame", at("def call_site"))
def frame_in_its_own_variable():
    call_site("here")


@program.twin
def frame_that_is_deleted_in_time():
    call_site_tidy("here")


# opentelemetry: a span's context manager, entered by start() and never left
class Tracer:
    def __init__(self) -> None:
        self.depth = 0
        self._open_scope = None

    @contextlib.contextmanager
    def _activate_span(self, name: str):
        self.depth += 1
        try:
            yield name
        finally:
            self.depth -= 1

    def start(self) -> None:
        self._open_scope = self._activate_span("query")
        self._open_scope.__enter__()


@program(
    "generator",
    "Tracer",
    "_open_scope",
    "_GeneratorContextManager",
    (at("def _activate_span"), at("@contextlib.contextmanager")),
)
def span_that_is_never_left():
    Tracer().start()


@program.twin
def span_that_is_left():
    tracer = Tracer()
    tracer.start()
    tracer._open_scope.__exit__(None, None, None)


# mail gateways: an email parser that was fed, then dropped as the peer hung up
@program("generator", "FeedParser", "_parse", "_parsegen", "feedparser.py:")
def mail_parser_that_is_not_closed():
    FeedParser().feed("Subject: hello\nFrom: ann\n\nHi\n")


@program.twin
def mail_parser_that_is_closed():
    parser = FeedParser()
    parser.feed("Subject: hello\nFrom: ann\n\nHi\n")
    parser.close()


# twisted.inlineCallbacks: a generator that waits for what will resume it
class Deferred:
    def __init__(self) -> None:
        self.callbacks: list = []


class Driver:
    def __init__(self, steps) -> None:
        self.steps = steps

    def resume(self, value) -> None:
        with contextlib.suppress(StopIteration):
            self.steps.send(value).callbacks.append(self.resume)


def handshake(name: str, answers: list):
    greeting = Deferred()
    answers.append(greeting)
    del answers
    reply = yield greeting
    return name, reply


@program("generator", "Deferred", "callbacks", "resume", "Driver", "steps", "greeting", at("def handshake"))
def handshake_that_nobody_answers():
    Driver(handshake("ann", [])).resume(None)


@program.twin
def handshake_that_is_answered():
    answers: list = []
    Driver(handshake("ann", answers)).resume(None)
    for callback in answers.pop().callbacks:
        callback("hello")


# redis, aiokafka, websockets: the task of the read loop, kept by the connection after it failed
class PeerGone(Exception):
    pass


class Subscriber:
    def __init__(self) -> None:
        self._reader_task = None

    async def read_loop(self) -> None:
        await asyncio.sleep(0)
        raise PeerGone("eof")

    async def serve(self) -> None:
        self._reader_task = asyncio.ensure_future(self.read_loop())
        await asyncio.wait([self._reader_task])
        self._reader_task.exception()

    async def close(self) -> None:
        self._reader_task = None


def in_a_loop(*steps) -> None:
    loop = asyncio.new_event_loop()
    try:
        for step in steps:
            loop.run_until_complete(step())
    finally:
        loop.close()


@program(
    "asyncio", "Subscriber", "_reader_task", "Task", ("PeerGone", "traceback"), at("async def read_loop")
)
def read_task_that_failed():
    in_a_loop(Subscriber().serve)


@program.twin
def read_task_that_is_let_go():
    subscriber = Subscriber()
    in_a_loop(subscriber.serve, subscriber.close)


# aiohttp, asyncpg: a future for the reply that calls back the one who keeps it, and never gets its reply
class RpcCall:
    def __init__(self) -> None:
        self._reply_waiter = None
        self.done = False

    async def begin(self) -> None:
        self._reply_waiter = asyncio.get_running_loop().create_future()
        self._reply_waiter.add_done_callback(self.take_reply)

    async def abandon(self) -> None:
        self._reply_waiter.remove_done_callback(self.take_reply)

    def take_reply(self, future) -> None:
        self.done = True


@program("asyncio", "RpcCall", "_reply_waiter", "Future", "take_reply", at("def take_reply"))
def reply_that_never_comes():
    in_a_loop(RpcCall().begin)


@program.twin
def reply_that_is_abandoned():
    call = RpcCall()
    in_a_loop(call.begin, call.abandon)


# flask, opentelemetry: a scope is pushed to a context variable and keeps the token to pop itself
current_scope: contextvars.ContextVar = contextvars.ContextVar("current_scope")


class RequestScope:
    def __init__(self) -> None:
        self._pop_token = None

    def push(self) -> None:
        self._pop_token = current_scope.set(self)

    def pop(self) -> None:
        current_scope.reset(self._pop_token)
        self._pop_token = None


@program("context variable", "RequestScope", "_pop_token", "Token", "Context", "current_scope")
def scope_that_is_not_popped():
    contextvars.copy_context().run(RequestScope().push)


@program.twin
def scope_that_is_popped():
    scope = RequestScope()
    context = contextvars.copy_context()
    context.run(scope.push)
    context.run(scope.pop)
