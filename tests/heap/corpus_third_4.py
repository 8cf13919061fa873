"""The third blind corpus, part 4: names and classes made at run time, odd references of plain
objects, trees."""

from __future__ import annotations

import collections
import copy
import enum
import functools
import sys
import weakref

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


class Store:
    def __init__(self):
        self.values = {"a": 1}

    def get(self, key):
        return self.values[key]


class CountingStore(Store):
    def __init__(self):
        super().__init__()
        self.gets = 0
        self.plain_store = super()

    def get(self, key):
        self.gets += 1
        return self.plain_store.get(key)


class CountingStoreByCall(Store):
    gets = 0

    def get(self, key):
        self.gets += 1
        return super().get(key)


@program("super objects", "CountingStore", "plain_store", "super")
def super_kept_on_self():
    return CountingStore().get("a")


@program.twin
def super_of_the_moment():
    return CountingStoreByCall().get("a")


# The dict whose keys are attributes, as found in every second project (and in the recipe of 2005).
class AttrDict(dict):
    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self


class AttrDictByGetattr(dict):
    __getattr__ = dict.__getitem__


@program("collections", "AttrDict", "__dict__")
def dict_that_is_its_own_attributes():
    return AttrDict(port=80).port


@program.twin
def dict_with_getattr():
    return AttrDictByGetattr(port=80).port


# torch: a hook, by a partial, that knows the layer it is put on.
class Layer:
    def __init__(self):
        self.forward_hooks = collections.OrderedDict()

    def __call__(self, value):
        for hook in self.forward_hooks.values():
            hook(value)
        return value


class FeatureTap:
    def __init__(self, layer, name):
        self.tapped_layer = layer
        self.seen = []
        layer.forward_hooks[len(layer.forward_hooks)] = functools.partial(self.keep_output, name)

    def keep_output(self, name, value):
        self.seen.append((name, value))


@program(
    "torch-like trees",
    "Layer",
    "forward_hooks",
    "OrderedDict",
    "partial",
    "FeatureTap",
    "tapped_layer",
    at("def keep_output"),
)
def forward_hook_that_knows_its_layer():
    layer = Layer()
    FeatureTap(layer, "conv1")
    return layer(1)


@program.twin
def forward_hook_removed():
    layer = Layer()
    FeatureTap(layer, "conv1")
    value = layer(1)
    layer.forward_hooks.clear()
    return value


class EventBus:
    def __init__(self):
        self.listeners = []

    def send(self, event):
        return [listener(event) for listener in self.listeners]


def audit_on(events):
    def audit(event, *, channel=events):
        return event, len(channel.listeners)

    events.listeners.append(audit)


def audit_weakly_on(events):
    def audit_weakly(event, *, channel=weakref.ref(events)):  # noqa: B008
        return event, len(channel().listeners)

    events.listeners.append(audit_weakly)


@program(
    "functions", "EventBus", "listeners", "audit", ("__kwdefaults__", "channel", "default"), at("def audit")
)
def listener_with_its_bus_as_a_default():
    bus = EventBus()
    audit_on(bus)
    return bus.send("login")


@program.twin
def listener_with_a_weak_default():
    bus = EventBus()
    audit_weakly_on(bus)
    return bus.send("login")


# jinja2, mako, namedtuple of old: a function out of exec() and the namespace it was made in.
GREETING = compile(
    "def root_render(names):\n    return 'hello ' + names['who']\n", "<template greeting>", "exec"
)


def render_greeting(names):
    namespace = {}
    exec(GREETING, namespace)
    return namespace["root_render"](names)


def render_greeting_once(names):
    namespace = {}
    exec(GREETING, namespace)
    return namespace.pop("root_render")(names)


@program("functions", "root_render", "globals", "<template greeting>:1")
def template_function_and_its_namespace():
    return render_greeting({"who": "you"})


@program.twin
def template_function_out_of_its_namespace():
    return render_greeting_once({"who": "you"})


class Status(enum.Enum):
    open = 1
    done = 2


@program("classes made at run time", "TicketStatus")
def enum_per_call():
    return enum.Enum("TicketStatus", ["open", "done"]).done.value


@program.twin
def enum_of_the_module():
    return Status["done"].value


# pydantic: a model keeps the frame of its definition, to look up names in annotations later.
class ModelBase:
    def __init_subclass__(cls):
        cls.defined_in = sys._getframe(1)


def define_invoice():
    class InvoiceModel(ModelBase):
        total = 12

    return InvoiceModel.total


class InvoiceOfTheModule:
    total = 12


@program("classes made at run time", "InvoiceModel", "define_invoice")
def model_class_that_keeps_its_frame():
    return define_invoice()


@program.twin
def model_class_of_the_module():
    return InvoiceOfTheModule().total


class Hop:
    __slots__ = ("newer", "older")


class RecentKey(Hop):
    __slots__ = ("key",)


def recent_keys(keys):
    end = RecentKey()
    end.newer = end.older = end
    for key in keys:
        link = RecentKey()
        link.key, link.newer, link.older = key, end, end.older
        end.older.newer = end.older = link
    return end.older.key


@program("linked structures", "RecentKey", ("newer", "older"))
def ring_with_slots():
    return recent_keys(["a", "b"])


@program.twin
def ring_by_ordered_dict():
    keys = collections.OrderedDict.fromkeys(["a", "b"])
    keys.move_to_end("b")
    return next(reversed(keys))


# django: a prefetched queryset hints at the instance that has it in its cache.
class QuerySet:
    def __init__(self, **hints):
        self.query_hints = hints


class Author:
    def __init__(self):
        self.prefetched_objects = {}


def prefetch(author, books):
    author.prefetched_objects["books_written"] = books
    return len(author.prefetched_objects)


@program(
    "ORM objects", "Author", "prefetched_objects", "books_written", "QuerySet", "query_hints", "instance"
)
def queryset_that_hints_at_its_instance():
    author = Author()
    return prefetch(author, QuerySet(instance=author))


@program.twin
def queryset_that_hints_at_an_id():
    author = Author()
    return prefetch(author, QuerySet(instance=id(author)))


class Grid:
    def __init__(self, keep):
        self.cells = [[0, 1]]
        self.keep = keep

    def __deepcopy__(self, memo):
        clone = memo[id(self)] = Grid(self.keep)
        clone.cells = copy.deepcopy(self.cells, memo)
        if self.keep:
            clone.copied_with = memo
        return clone


@program("deepcopy", "Grid", "copied_with")
def clone_that_keeps_the_memo():
    return copy.deepcopy(Grid(keep=True)).cells


@program.twin
def clone_without_the_memo():
    return copy.deepcopy(Grid(keep=False)).cells
