"""Looks at a heap whose objects run code on every word: prints what ran, as JSON; see test_hostile.py."""

import functools
import gc
import json
import sys
import types

sys.path.insert(0, sys.argv[1])

from frostline.heap import alive, census, cycles, plain, saved

ran = []


class Boom(BaseException):
    pass


def evil(name):
    def method(self, *_, **__):
        ran.append(name)
        raise Boom(name)

    return method


NAMES = (
    "__getattribute__ __getattr__ __eq__ __hash__ __sizeof__ __repr__ __str__ __bool__ __len__ __iter__"
    " __getitem__ __contains__ __format__ __call__ __index__ __get__ __dir__ __reduce_ex__"
)
METHODS = {name: evil(name) for name in NAMES.split()} | {"__class__": property(evil("__class__"))}


class Meta(type):
    __name__ = property(evil("type name"))
    __module__ = property(evil("type module"))
    __mro__ = property(evil("type mro"))
    __dict__ = property(evil("type dict"))
    __instancecheck__ = __subclasscheck__ = __repr__ = evil("type")

    def __eq__(cls, other):
        ran.append("type ==")
        return True

    def __hash__(cls):
        ran.append("type hash")
        return 1


class Text(str):
    __slots__ = ()
    replace = partition = __format__ = __str__ = evil("text")


class Key(metaclass=Meta):
    pass


class Called:
    def __call__(self):
        pass

    __getattr__ = evil("called")


class Plain:
    pass


Evil = Meta("Evil", (), dict(METHODS))
EvilList = Meta("EvilList", (list,), dict(METHODS))
EvilDict = Meta("EvilDict", (dict,), dict(METHODS))


class EvilError(Exception):
    pass


for name in ("__getattribute__", "__eq__", "__hash__", "__repr__", "__str__"):
    setattr(EvilError, name, METHODS[name])


class EvilModule(types.ModuleType):
    __getattribute__ = evil("module")


def make():
    one = object.__new__(Evil)
    object.__setattr__(one, "me", one)
    items = list.__new__(EvilList)
    list.append(items, items)
    table = dict.__new__(EvilDict)
    dict.__setitem__(table, 1, table)
    keyed = {}
    keyed[Key()] = keyed
    bound = Plain()
    bound.call = types.MethodType(Called(), bound)
    part = Plain()
    part.call = functools.partial(Called(), part)
    try:
        raise EvilError.__new__(EvilError)
    except BaseException as error:
        kept = error
    worded = Plain()
    worded.__dict__[Text("word")] = worded

    class Named:
        pass

    type.__setattr__(Named, "__qualname__", Text("Named"))
    named = Named()
    named.me = named

    def suspended(holder):
        value = object.__new__(Evil)
        yield value

    holder = Plain()
    holder.rows = suspended(holder)
    next(holder.rows)
    return kept is None


gc.disable()
make()
cycles.cycles_of(saved.saved_pass())
sys.modules["evil_module"] = EvilModule("evil_module")
sys.modules["no_module"] = object.__new__(Evil)
living = {
    Key(): [object.__new__(Evil)] * 2000,
    "list": list.__new__(EvilList),
    "dict": dict.__new__(EvilDict),
}
gc.collect()
make()
ran.clear()
kept = saved.saved_pass()
told = cycles.cycles_of(kept)
text = plain.dumps(cycles.as_plain(told))
saved.let_go(kept)
counted = plain.dumps(census.as_plain(census.take()))
holders = alive.holders("__main__:Evil")
ways = plain.dumps(alive.as_plain(holders))
ran_code = list(ran)
del sys.modules["no_module"], sys.modules["evil_module"]
print(json.dumps({"ran": ran_code, "paths": [kind.path for kind in told.kinds], "alive": holders.count}))
