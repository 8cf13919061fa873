"""Programs that make cycles of known origin, each with a clean twin that makes none. Run by ``one.py`` in
a child.

``MADE[name] = (make, clean, words)``: every word must be in the path or the pattern of what is found.
"""

import asyncio
import dataclasses
import functools
import sys
import weakref

MADE = {}


def case(*words):
    def register(pair):
        MADE[pair.__name__] = (pair.make, pair.clean, words)
        return pair

    return register


class Ticket:
    def collect(self):
        return 42


class Node:
    pass


class Slotted:
    __slots__ = ("__weakref__", "other")


@case("Ticket", "__dict__['collect']", "function timed (corpus.py:", "cell", "method collect")
class hook_closure:
    @staticmethod
    def make():
        t = Ticket()
        original = t.collect

        def timed():
            return original()

        t.collect = timed

    @staticmethod
    def clean():
        t = Ticket()
        original = t.collect

        def timed():
            return original()

        return timed() == 42


@case("Ticket", "functools.partial", "method collect")
class hook_partial:
    @staticmethod
    def make():
        t = Ticket()
        t.run = functools.partial(t.collect)

    @staticmethod
    def clean():
        t = Ticket()
        return functools.partial(t.collect)()


@case("Ticket", "__dict__['collect']", "method collect", "bound method of itself")
class bound_method:
    @staticmethod
    def make():
        t = Ticket()
        t.collect = t.collect

    @staticmethod
    def clean():
        t = Ticket()
        t.collect = weakref.WeakMethod(t.collect)


@case("function inner", "cell inner", "refers to itself")
class recursive_inner:
    @staticmethod
    def make():
        def inner(n):
            return n and inner(n - 1)

        inner(3)

    @staticmethod
    def clean():
        def inner(n):
            return n

        inner(3)


@case("exception", "variable err", "frame of fail (corpus.py:", "traceback")
class exception_kept:
    @staticmethod
    def make():
        def fail():
            err = None
            try:
                raise KeyError("x")
            except KeyError as e:
                err = e
            return err is None

        fail()

    @staticmethod
    def clean():
        def fail():
            err = None
            try:
                raise KeyError("x")
            except KeyError as e:
                err = e
            finally:
                err = None
            return err

        fail()


@case("Node", "parent", "children")
class parent_child:
    @staticmethod
    def make():
        root = Node()
        root.children = []
        child = Node()
        child.parent = root
        root.children.append(child)

    @staticmethod
    def clean():
        root = Node()
        root.children = []
        child = Node()
        child.parent = weakref.ref(root)
        root.children.append(child)


@dataclasses.dataclass
class Row:
    parent: object = None
    rows: list = dataclasses.field(default_factory=list)


@case("Row", "parent", "rows", "dataclass objects that refer to each other")
class dataclass_parent:
    @staticmethod
    def make():
        root = Row()
        root.rows.append(Row(root))

    @staticmethod
    def clean():
        root = Row()
        root.rows.append(Row(weakref.ref(root)))


TORCH = {"__name__": "torch.nn.modules.module"}
exec(  # as torch has it: a module that is set on a module goes into a dict of its own
    """class Module:
    def __init__(self): self.__dict__["_modules"] = {}
    def __setattr__(self, name, value):
        (self._modules if isinstance(value, Module) else self.__dict__)[name] = value""",
    TORCH,
)
Layer = type("Layer", (TORCH["Module"],), {"__module__": __name__})


@case("Layer", "['_modules']", "['parent']", "a torch module that holds its parent")
class torch_parent:
    @staticmethod
    def make():
        root = Layer()
        root.child = Layer()
        root._modules["child"].parent = root

    @staticmethod
    def clean():
        root = Layer()
        root.child = Layer()
        root._modules["child"].parent = weakref.ref(root)


@case("Node", "__dict__['me']", "refers to itself")
class self_reference:
    @staticmethod
    def make():
        n = Node()
        n.me = n

    @staticmethod
    def clean():
        n = Node()
        n.me = None


@case("Slotted", ".other")
class slotted_pair:
    @staticmethod
    def make():
        a, b = Slotted(), Slotted()
        a.other, b.other = b, a

    @staticmethod
    def clean():
        a, b = Slotted(), Slotted()
        a.other = b


@case("list", "[0]", "container that holds itself")
class list_in_itself:
    @staticmethod
    def make():
        one = []
        one.append(one)

    @staticmethod
    def clean():
        one = []
        one.append([])


@case("dict", "['self']", "container")
class dict_in_itself:
    @staticmethod
    def make():
        one = {}
        one["self"] = one

    @staticmethod
    def clean():
        one = {}
        one["self"] = {}


@case("class corpus.local_class.make.Local.__mro__", "made again and again")
class local_class:
    @staticmethod
    def make():
        class Local:
            pass

    @staticmethod
    def clean():
        Ticket()


@case("generator", "variable", "generator")
class generator_holds_itself:
    @staticmethod
    def make():
        def numbers(box):
            yield 1
            yield box

        box = Node()
        box.it = numbers(box)
        next(box.it)

    @staticmethod
    def clean():
        def numbers(box):
            yield 1
            yield box

        it = numbers(Node())
        next(it)
        it.close()


@case("Node", "__dict__", "lambda")
class callback_lambda:
    @staticmethod
    def make():
        n = Node()
        n.on_done = lambda: n.name

    @staticmethod
    def clean():
        n = Node()
        n.on_done = lambda n: n.name


@case("frame of", "variable")
class frame_kept:
    @staticmethod
    def make():
        frame = sys._getframe()
        frame.clear  # noqa: B018

    @staticmethod
    def clean():
        frame = sys._getframe()
        del frame


@case("Future._exception", "variable f", "an exception kept")
class future_exception:
    @staticmethod
    def make():
        async def main():
            f = asyncio.get_running_loop().create_future()
            f.set_exception(ValueError("y"))
            try:  # noqa: SIM105 - the case is about its frame
                await f
            except ValueError:
                pass

        asyncio.run(main())

    @staticmethod
    def clean():
        pass


@case("Ticket", "lru_cache")
class lru_on_instance:
    @staticmethod
    def make():
        n = Ticket()
        n.cached = functools.lru_cache(maxsize=None)(n.collect)
        n.cached()

    @staticmethod
    def clean():
        n = Ticket()
        functools.lru_cache(maxsize=None)(n.collect)()


class Hostile:
    """Everything that a look must not call."""

    called = 0

    def _never(self, *_):
        Hostile.called += 1
        raise SystemExit("called")

    __repr__ = __str__ = __len__ = __iter__ = __getattribute__ = __sizeof__ = __hash__ = __eq__ = __bool__ = (
        _never
    )
    __class__ = property(_never)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


@case("Hostile", "__dict__['me']")
class hostile:
    @staticmethod
    def make():
        h = Hostile()
        h.me = h

    @staticmethod
    def clean():
        Hostile()


class Dictish(dict):
    pass


@case("Dictish", "['up']")
class dict_subclass:
    @staticmethod
    def make():
        a = Dictish()
        a["up"] = [a]

    @staticmethod
    def clean():
        a = Dictish()
        a["up"] = [1]


@case("list", "<lambda>")
class weak_callback:
    @staticmethod
    def make():
        n = Node()
        kept = []
        kept.append(weakref.ref(Ticket, lambda _: kept))
        n.kept = kept

    @staticmethod
    def clean():
        weakref.ref(Ticket)
