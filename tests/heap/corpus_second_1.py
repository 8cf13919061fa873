"""The second blind corpus, part 1: closures, functions, callbacks, partials, exit stacks.

By another author who had not seen the detector either, and written after it had learned from the first.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# torch.optim.lr_scheduler: the step of the optimizer is replaced on the instance by one that counts.
class Optimizer:
    def __init__(self) -> None:
        self.updates = 0

    def advance(self) -> int:
        self.updates += 1
        return self.updates


def with_counter(unpatched):
    calls = [0]

    def counting():
        calls[0] += 1
        return unpatched()

    return counting


@program("closure on an object", "Optimizer", "advance", "unpatched", at("def counting"))
def scheduler_patches_the_optimizer():
    optimizer = Optimizer()
    optimizer.advance = with_counter(optimizer.advance)
    optimizer.advance()


@program.twin
def scheduler_counts_beside_the_optimizer():
    optimizer = Optimizer()
    with_counter(optimizer.advance)()


# django: request.user = SimpleLazyObject(lambda: get_user(request))
class LazyUser:
    def __init__(self, setup) -> None:
        self._setup = setup
        self._wrapped = None


class HttpRequest:
    def __init__(self, session: dict) -> None:
        self.session = session
        self.visitor = None


def authenticate(request: HttpRequest, lazy: bool = True) -> None:
    def load_user():
        return request.session.get("user")

    request.visitor = LazyUser(load_user) if lazy else load_user()


@program(
    "closure on an object", "HttpRequest", "visitor", "LazyUser", "_setup", "request", at("def load_user")
)
def request_with_a_lazy_user():
    authenticate(HttpRequest({"user": "ann"}))


@program.twin
def request_with_an_eager_user():
    authenticate(HttpRequest({"user": "ann"}), lazy=False)


# any helper that defines its own recursion (ast walkers, json flatteners, dependency resolvers)
def flatten(tree: list) -> list:
    leaves: list = []

    def visit_node(node) -> None:
        if isinstance(node, list):
            for child in node:
                visit_node(child)
        else:
            leaves.append(node)

    visit_node(tree)
    return leaves


def flatten_with_a_stack(tree: list) -> list:
    leaves, stack = [], [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        else:
            leaves.append(node)
    return leaves


@program("recursive inner function", "visit_node", at("def visit_node"))
def flatten_by_recursion():
    flatten([1, [2, [3, 4]], 5])


@program.twin
def flatten_by_a_stack():
    flatten_with_a_stack([1, [2, [3, 4]], 5])


# json.dump() takes the encoder written in Python: three closures that call each other.
PAYLOAD = {"user": "ann", "roles": ["admin", "ops"], "age": 41}


@program("recursive inner function", "_iterencode", "encoder.py:")
def payload_by_json_dump():
    json.dump(PAYLOAD, io.StringIO())


@program.twin
def payload_by_json_dumps():
    io.StringIO().write(json.dumps(PAYLOAD))


# jinja2, mako, attrs: generated source is run in a namespace of its own,
# which its functions keep as their globals.
TEMPLATE = compile("def render_root(total):\n    return f'Total: {total}'\n", "receipt.html", "exec")


@program("generated code", "render_root", "globals", "receipt.html:1")
def template_in_its_own_namespace():
    namespace: dict = {}
    exec(TEMPLATE, namespace)
    namespace["render_root"](12)


@program.twin
def template_whose_namespace_is_emptied():
    namespace: dict = {}
    exec(TEMPLATE, namespace)
    namespace.pop("render_root")(12)


# scrapy-like: a callback which got its owner by a default argument, as a linter advises in a loop
class Spider:
    def __init__(self, pages: list) -> None:
        self.pages = pages
        self.callbacks: dict = {}

    def prepare(self, bind: bool = True) -> None:
        for page in self.pages:

            def parse_page(depth, page=page, crawler=self if bind else None):
                return page, depth, crawler

            self.callbacks[page] = parse_page


@program("function defaults", "Spider", "callbacks", "default", at("def parse_page"))
def spider_as_a_default_argument():
    Spider(["index.html"]).prepare()


@program.twin
def spider_without_the_default_argument():
    Spider(["index.html"]).prepare(bind=False)


# celery, huey, dramatiq: the decorator makes a task of a function, and gives the function a shortcut to it.
class BackgroundTask:
    def __init__(self, function) -> None:
        self.run_function = function
        self.queued: list = []

    def enqueue(self, *arguments) -> None:
        self.queued.append(arguments)


def background(function):
    task = BackgroundTask(function)
    function.delay = task.enqueue
    return function


@program(
    "decorator",
    "BackgroundTask",
    "run_function",
    "delay",
    "enqueue",
    (at("def send_receipt"), at("@background")),
)
def decorated_function_that_knows_its_task():
    @background
    def send_receipt(order):
        return order

    send_receipt.delay(17)


@program.twin
def task_that_the_function_does_not_know():
    def post_receipt(order):
        return order

    BackgroundTask(post_receipt).enqueue(17)


# kombu/pubsub-like: a partial of an own method, kept on the object
class Publisher:
    def __init__(self) -> None:
        self.sent: list = []
        self.alert = functools.partial(self._publish, "alerts", urgent=True)

    def _publish(self, channel: str, message: str, urgent: bool = False) -> None:
        self.sent.append((channel, message, urgent))


@program("partial", "Publisher", "alert", "partial", "_publish", at("def _publish"))
def publisher_with_a_partial_of_itself():
    Publisher().alert("disk full")


@program.twin
def publisher_that_drops_its_partial():
    publisher = Publisher()
    publisher.alert("disk full")
    del publisher.alert


# httpx/aiohttp-like: an object whose exit stack calls the object back, and which is dropped without close()
class LeaseHolder:
    def __init__(self) -> None:
        self.leases = [1, 2]
        self._cleanup = contextlib.ExitStack()
        self._cleanup.callback(self.drop_lease, 2)

    def drop_lease(self, number: int) -> None:
        self.leases.remove(number)


@program("context manager", "LeaseHolder", "_cleanup", "ExitStack", "_exit_callbacks", "drop_lease")
def exit_stack_that_is_never_closed():
    LeaseHolder()


@program.twin
def exit_stack_that_is_closed():
    LeaseHolder()._cleanup.close()
