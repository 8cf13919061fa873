"""The third blind corpus, part 3: objects of the standard library, functools, inspect."""

from __future__ import annotations

import configparser
import decimal
import functools
import inspect
import io
import json
import optparse
import os
import pickle
import tarfile
import unittest
import urllib.request

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# multiprocessing, cloudpickle: a pickler with a dispatch table, one entry of which is a method.
class Checkpoint:
    def __init__(self, reducer):
        self.stored = []
        self.buffer = io.BytesIO()
        self.pickler = pickle.Pickler(self.buffer)
        self.pickler.dispatch_table = {decimal.Decimal: reducer or self.reduce_amount}

    def reduce_amount(self, value):
        self.stored.append(str(value))
        return decimal.Decimal, (str(value),)


def reduce_amount_alone(value):
    return decimal.Decimal, (str(value),)


@program("stdlib objects", "Checkpoint", "pickler", "Pickler", at("def reduce_amount"))
def pickler_with_a_method_of_its_owner():
    Checkpoint(None).pickler.dump(decimal.Decimal("1.5"))


@program.twin
def pickler_with_a_function():
    Checkpoint(reduce_amount_alone).pickler.dump(decimal.Decimal("1.5"))


# optparse knows that it leaves cycles, and has a destroy() for it that nobody calls.
def parse_command(words, destroy):
    parser = optparse.OptionParser(prog="deploy", add_help_option=False)
    parser.add_option("--force", action="store_true")
    values, _ = parser.parse_args(words)
    if destroy:
        parser.destroy()
    return values.force


@program("stdlib parsers", "OptionParser", ("IndentedHelpFormatter", "container"))
def option_parser_per_call():
    return parse_command(["--force"], destroy=False)


@program.twin
def option_parser_destroyed():
    return parse_command(["--force"], destroy=True)


def read_retries(text):
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return parser["http"]["retries"]


def read_retries_by_hand(text):
    section = {}
    for line in text.splitlines():
        name, found, value = line.partition("=")
        if found:
            section[name.strip()] = value.strip()
    return section["retries"]


@program(
    "stdlib parsers",
    ("ConfigParser", "configparser"),
    ("SectionProxy", "ConverterMapping"),
    ("_parser", "getint", "getfloat", "getboolean"),
)
def config_parser_per_call():
    return read_retries("[http]\nretries = 3\n")


@program.twin
def config_by_hand():
    return read_retries_by_hand("[http]\nretries = 3\n")


# urllib.request: an opener and its handlers know each other, and close() does not part them.
class VaultHandler(urllib.request.BaseHandler):
    def vault_open(self, request):
        return io.BytesIO(request.selector.encode())


def read_secret(unhook):
    handler = VaultHandler()
    opener = urllib.request.OpenerDirector()
    opener.add_handler(handler)
    with opener.open("vault:token") as answer:
        secret = answer.read()
    if unhook:
        handler.parent = None
    return secret


@program("stdlib objects", "OpenerDirector", ("handlers", "handle_open"), "VaultHandler", "parent")
def opener_and_its_handler():
    return read_secret(unhook=False)


@program.twin
def opener_and_its_handler_parted():
    return read_secret(unhook=True)


class PriceDecoder(json.JSONDecoder):
    def __init__(self):
        super().__init__(object_hook=self.revive)

    def revive(self, found):
        return {name: int(value) for name, value in found.items()}


def revive_prices(found):
    return {name: int(value) for name, value in found.items()}


@program("stdlib parsers", "PriceDecoder", ("object_hook", "scan_once"), at("def revive"))
def json_decoder_hooked_to_itself():
    return PriceDecoder().decode('{"price": "12"}')


@program.twin
def json_decoder_hooked_to_a_function():
    return json.JSONDecoder(object_hook=revive_prices).decode('{"price": "12"}')


class Money:
    def __init__(self, cents):
        self.cents = cents


class PricingCase(unittest.TestCase):
    def runTest(self):
        self.addTypeEqualityFunc(Money, self.assert_same_money)
        self.assertEqual(Money(5), Money(5))

    def assert_same_money(self, one, other, msg=None):
        self.assertTrue(one.cents == other.cents, msg)


class PricingCaseByHand(unittest.TestCase):
    def runTest(self):
        self.assertEqual(Money(5).cents, Money(5).cents)


@program("stdlib objects", "PricingCase", "_type_equality_funcs", at("def assert_same_money"))
def unittest_case_with_an_equality_of_its_own():
    result = unittest.TestResult()
    PricingCase().run(result)
    assert result.wasSuccessful()


@program.twin
def unittest_case_with_an_assertion():
    result = unittest.TestResult()
    PricingCaseByHand().run(result)
    assert result.wasSuccessful()


# gettarinfo() puts the archive on the member, addfile() the member on the archive.
def pack(path):
    archive = tarfile.open(fileobj=io.BytesIO(), mode="w")  # noqa: SIM115
    with open(path, "rb") as file:
        archive.addfile(archive.gettarinfo(arcname="packed.py", fileobj=file), file)
    archive.close()


def pack_by_hand(path):
    archive = tarfile.open(fileobj=io.BytesIO(), mode="w")  # noqa: SIM115
    with open(path, "rb") as file:
        member = tarfile.TarInfo("packed.py")
        member.size = os.fstat(file.fileno()).st_size
        archive.addfile(member, file)
    archive.close()


@program("stdlib objects", "TarFile", "members", "TarInfo", "tarfile")
def archive_known_by_its_member():
    pack(__file__)


@program.twin
def archive_not_known_by_its_member():
    pack_by_hand(__file__)


# A dispatcher made per call. That alone is a cycle (functools' register() knows itself), and here an
# implementation calls the dispatcher by its cell.
def render_scalar(value):
    return str(value)


def render_nested(values):
    def render_list(items):
        return "[" + ",".join(render(item) for item in items) + "]"

    render = functools.singledispatch(render_scalar)
    render.register(list, render_list)
    return render(values)


def render_nested_by_type(value):
    if isinstance(value, list):
        return "[" + ",".join(render_nested_by_type(item) for item in value) + "]"
    return str(value)


@program("functools", ("dispatch", "register", "registry"), at("def render_list"))
def singledispatch_made_per_call():
    return render_nested([1, [2]])


@program.twin
def dispatch_by_hand():
    return render_nested_by_type([1, [2]])


# jsonschema, pydantic: what is cached keeps the cached function to resolve more with it.
class Schema:
    def __init__(self, uri):
        self.uri = uri
        self.resolve_more = None


def load_schema(uri):
    return Schema(uri)


@program("functools", "Schema", "resolve_more", "lru_cache")
def cached_value_that_keeps_the_cache():
    resolve = functools.lru_cache(maxsize=16)(load_schema)
    root = resolve("root.json")
    root.resolve_more = resolve
    return root.resolve_more("other.json").uri


@program.twin
def cached_value_without_the_cache():
    resolve = functools.lru_cache(maxsize=16)(load_schema)
    root = resolve("root.json")
    return root.uri, resolve("other.json").uri


# A job that binds its own call once, to run it again on failure.
class ExportJob:
    def __init__(self, path):
        self.bound_call = inspect.signature(ExportJob.export).bind(self, path)

    def export(self, path):
        return path

    def run(self):
        return ExportJob.export(*self.bound_call.args)


class ExportJobByPath:
    def __init__(self, path):
        self.path = path

    def export(self, path):
        return path

    def run(self):
        return self.export(*inspect.signature(self.export).bind(self.path).args)


@program("inspect", "ExportJob", "bound_call", "BoundArguments", "arguments")
def bound_arguments_kept_by_self():
    return ExportJob("/tmp/x").run()


@program.twin
def bound_arguments_of_the_moment():
    return ExportJobByPath("/tmp/x").run()
