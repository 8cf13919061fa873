"""The second blind corpus, part 3: caches, trees, classes made at run time, dispatch, finalizers."""

from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import enum
import functools

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# the advised cure for lru_cache on methods: a cache per instance
class Resolver:
    def __init__(self, table: dict) -> None:
        self.table = table
        self.find = functools.lru_cache(maxsize=32)(self._look_up)

    def _look_up(self, name: str):
        return self.table.get(name)


@program("cache", "Resolver", "find", "lru_cache", "_look_up", at("def _look_up"))
def cache_of_an_own_method():
    Resolver({"a": 1}).find("a")


@program.twin
def cache_that_goes_with_its_use():
    resolver = Resolver({"a": 1})
    resolver.find("a")
    del resolver.find


# pandas: Series.str, made on first use by a descriptor which stores it on the instance
class CachedAccessor:
    def __init__(self, name: str, accessor: type, cached: bool) -> None:
        self.name, self.accessor, self.cached = name, accessor, cached

    def __get__(self, instance, owner):
        made = self.accessor(instance)
        if self.cached:
            vars(instance)[self.name] = made
        return made


class TextMethods:
    def __init__(self, data) -> None:
        self._parent = data

    def upper(self) -> list:
        return [value.upper() for value in self._parent.values]


class Column:
    def __init__(self, values: list) -> None:
        self.values = values

    chars = CachedAccessor("chars", TextMethods, cached=True)
    fresh_chars = CachedAccessor("fresh_chars", TextMethods, cached=False)


@program("descriptor", "Column", "chars", "TextMethods", "_parent")
def accessor_stored_on_the_column():
    Column(["a", "b"]).chars.upper()


@program.twin
def accessor_made_anew():
    Column(["a", "b"]).fresh_chars.upper()


# django forms, sqlalchemy: a __deepcopy__ that keeps the memo it was given
class FormSchema:
    def __init__(self, fields: list) -> None:
        self.fields = fields
        self.copied_with = None
        self.keep = False

    def __deepcopy__(self, memo: dict):
        clone = FormSchema(copy.deepcopy(self.fields, memo))
        if self.keep:
            clone.copied_with = memo
        return clone


KEEPING, PLAIN = FormSchema(["name", "age"]), FormSchema(["name", "age"])
KEEPING.keep = True


@program("deepcopy", "FormSchema", "copied_with")
def schema_that_keeps_the_memo():
    copy.deepcopy(KEEPING)


@program.twin
def schema_that_leaves_the_memo():
    copy.deepcopy(PLAIN)


# openpyxl, attrs classes: rows with slots that know their sheet
@dataclasses.dataclass(eq=False)
class SheetRow:
    __slots__ = ("owner_sheet", "cells")  # noqa: RUF023
    owner_sheet: object
    cells: list


@dataclasses.dataclass(eq=False)
class Workbook:
    title: str
    sheets: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Sheet:
    name: str
    body_rows: list = dataclasses.field(default_factory=list)

    def append(self, cells: list) -> None:
        self.body_rows.append(SheetRow(self, cells))


@program("dataclass tree", "Sheet", "body_rows", "SheetRow", "owner_sheet")
def rows_that_know_their_sheet():
    book = Workbook("orders")
    book.sheets["may"] = Sheet("may")
    book.sheets["may"].append([1, 2])


@program.twin
def rows_that_know_no_sheet():
    book = Workbook("orders")
    book.sheets["may"] = Sheet("may")
    book.sheets["may"].body_rows.append(SheetRow(None, [1, 2]))


# torch: a model registers a forward hook, its own method, on a layer far below it
class Module:
    def __init__(self) -> None:
        self._modules: dict = {}
        self._forward_hooks: collections.OrderedDict = collections.OrderedDict()

    def forward_hook(self, hook) -> None:
        self._forward_hooks[len(self._forward_hooks)] = hook


class Convolution(Module):
    pass


class Backbone(Module):
    def __init__(self) -> None:
        super().__init__()
        self._modules["conv1"] = Convolution()


class FeatureExtractor(Module):
    def __init__(self) -> None:
        super().__init__()
        self.features: dict = {}
        self._modules["trunk"] = Backbone()
        self._modules["trunk"]._modules["conv1"].forward_hook(self.keep_output)

    def keep_output(self, layer, output) -> None:
        self.features[layer] = output


@program(
    "module tree",
    "FeatureExtractor",
    "_modules",
    "trunk",
    "Backbone",
    "conv1",
    "Convolution",
    "_forward_hooks",
    "keep_output",
    at("def keep_output"),
)
def extractor_hooked_to_its_own_layer():
    FeatureExtractor()


@program.twin
def extractor_that_removes_its_hook():
    FeatureExtractor()._modules["trunk"]._modules["conv1"]._forward_hooks.clear()


# pandas.itertuples, sqlalchemy rows: a namedtuple class for every call
TradeRow = collections.namedtuple("TradeRow", "price amount")


@program("class made at run time", "TradeTuple")
def rows_of_a_new_class():
    [collections.namedtuple("TradeTuple", "price amount")._make(row) for row in [(1, 2)]]


@program.twin
def rows_of_an_old_class():
    [TradeRow._make(row) for row in [(1, 2)]]


# clients of REST schemas: an enum for the values that the server named
KnownStatus = enum.Enum("KnownStatus", "PAID SHIPPED")


@program("enum", "RemoteStatus")
def enum_of_what_the_server_named():
    enum.Enum("RemoteStatus", "PAID SHIPPED")["PAID"]


@program.twin
def enum_that_is_known():
    KnownStatus["PAID"]


# pydantic, plugin loaders: a class per configuration, below an abstract base
class Exporter(abc.ABC):
    @abc.abstractmethod
    def export_rows(self) -> str: ...


class CsvExporter(Exporter):
    separator = ";"

    def export_rows(self) -> str:
        return self.separator


@program("class made at run time", "ConfiguredExporter")
def exporter_class_for_one_configuration():
    class ConfiguredExporter(Exporter):
        separator = ","

        def export_rows(self) -> str:
            return self.separator

    ConfiguredExporter().export_rows()


@program.twin
def exporter_class_for_all_configurations():
    exporter = CsvExporter()
    exporter.separator = ","
    exporter.export_rows()


# serializers that build a dispatcher per encoder: singledispatch's register() calls itself
def as_text(value) -> str:
    return str(value)


@program("singledispatch", "register", "functools.py:")
def dispatcher_per_encoder():
    functools.singledispatch(as_text)(12)


@program.twin
def encoder_without_a_dispatcher():
    as_text(12)


# database pools: a connection with __del__ which gives itself back, and by that cuts the cycle
class ConnectionPool:
    def __init__(self) -> None:
        self.idle_connections: list = []


class PooledConnection:
    def __init__(self, pool: ConnectionPool) -> None:
        self.home_pool = pool
        pool.idle_connections.append(self)

    def close(self) -> None:
        if self.home_pool is not None:
            self.home_pool.idle_connections.clear()
            self.home_pool = None

    def __del__(self) -> None:
        self.close()


@program("finalizer", "PooledConnection", "home_pool", "ConnectionPool", "idle_connections")
def connection_closed_by_its_finalizer():
    PooledConnection(ConnectionPool())


@program.twin
def connection_closed_in_time():
    PooledConnection(ConnectionPool()).close()
