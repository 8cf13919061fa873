"""Every kind of callable is timed and otherwise as it was (B1), on every interpreter."""

from __future__ import annotations

from pathlib import Path

from frostline import format as layout
from tests.interpreters import Interpreter, every_interpreter
from tests.probe_spans.reading import labels, ran_well, refused, spans, wrapped

KINDS = """
import abc, asyncio, contextlib, dataclasses, enum, functools, inspect, pickle, sys, types, warnings
import frostline

class Base:
    def method(self, x: int, *, y: "Unknown" = 2) -> int:
        "What it does."
        return x + y
    @staticmethod
    def static(x): return x
    @classmethod
    def made(cls, x): return cls, x
    async def wait(self):
        await asyncio.sleep(0)
        return "waited"
    def numbers(self):
        got = yield 1
        return got
    async def stream(self):
        yield 1
        yield 2
    @types.coroutine
    def old_style(self):
        yield
        return "old"
    @property
    def prop(self): return 1
    @functools.cached_property
    def cached(self): return 1
    @functools.lru_cache
    def memo(self, x): return x
    @functools.singledispatchmethod
    def dispatch(self, x): return "any"
    @dispatch.register
    def _(self, x: str): return "str"
    part = functools.partial(pow, 2)
    partmethod = functools.partialmethod(method, y=40)
    builtin = len
    appended = list.__len__
    nested_value = 3
    def __call__(self): return "called"
    def __private(self): return "private"
    def calls_private(self): return self.__private()
    class Inner:
        def deep(self): return "deep"

class Child(Base):
    def method(self, x, *, y=2):
        return super().method(x, y=y) + __class__.offset
    offset = 100

class Slotted:
    __slots__ = ("x",)
    def method(self): return "slotted"

@dataclasses.dataclass(frozen=True)
class Data:
    x: int
    def total(self): return self.x

class Colour(enum.Enum):
    RED = 1
    def shout(self): return self.name + "!"

class Meta(type):
    def __setattr__(cls, name, value): raise AttributeError("read-only class")
class Strict(metaclass=Meta):
    def method(self): return "strict"

class Abstract(abc.ABC):
    @abc.abstractmethod
    def must(self): ...

def doubled(function):
    @functools.wraps(function)
    def outer(*args): return function(*args) * 2
    return outer
@doubled
def decorated(x): return x

class Countdown:
    "A callable object with state of its own."
    left = 3
    def __call__(self):
        self.left -= 1
        return self.left
countdown = Countdown()

@contextlib.contextmanager
def managed(): yield "managed"

@functools.singledispatch
def single(x): return "any"
@single.register
def _(x: str): return "str"

plain_partial = functools.partial(decorated, 21)
async def coroutine_function(x): return x
coroutine_partial = functools.partial(coroutine_function, 5)
bound = Base().static
bound_method = Data(9).total

async def make_coroutine(x): return x
def returns_coroutine(x): return make_coroutine(x)

module = sys.modules[__name__]
before = {n: inspect.signature(getattr(Base, n)) for n in "method static made wait numbers stream".split()}
names = ("method static made wait numbers stream old_style prop cached memo dispatch part partmethod builtin "
         "appended nested_value __call__ __private Inner.deep Inner nothing mehtod").split()
for name in names:
    frostline.wrap(Base, name, "Base." + name)
frostline.wrap(Slotted, "method"); frostline.wrap(Data, "total"); frostline.wrap(Colour, "shout")
frostline.wrap(Strict, "method"); frostline.wrap(Abstract, "must"); frostline.wrap(dict, "get")
for name in ("decorated managed single plain_partial coroutine_partial bound bound_method returns_coroutine "
             "countdown Base").split():
    frostline.wrap(module, name, name)

base = Base()
assert base.method(1) == 3 and base.method(1, y=1) == 2
assert Base.static(4) == base.static(4) == 4
assert Child.made(1) == (Child, 1)
assert Child().method(1) == 103
assert asyncio.run(base.wait()) == "waited"
numbers = base.numbers(); assert next(numbers) == 1
try: numbers.send("sent")
except StopIteration as stop: assert stop.value == "sent"
async def all_of(agen): return [x async for x in agen]
assert asyncio.run(all_of(base.stream())) == [1, 2]
async def await_it(x): return await x
assert asyncio.run(await_it(base.old_style())) == "old"
assert base.prop == base.cached == 1 and base.memo(1) == 1 and Base.memo.cache_info()
assert base.dispatch(1) == "any" and base.dispatch("x") == "str"
if sys.version_info < (3, 13):  # 3.13 warns; from 3.14 a partial in a class binds
    assert base.part(3) == 8
assert base.partmethod(2) == 42
assert base.builtin([1]) == 1
assert base() == "called"
assert base.calls_private() == "private"
assert Base.Inner().deep() == "deep"
assert Slotted().method() == "slotted" and Data(5).total() == 5 and Colour.RED.shout() == "RED!"
assert Strict().method() == "strict"
assert Abstract.must.__isabstractmethod__
try: Abstract()
except TypeError: pass
else: raise AssertionError("abstractness lost")
assert decorated(3) == 6
with managed() as m: assert m == "managed"
assert single(1) == "any" and single("") == "str" and single.register
assert plain_partial() == 42
assert asyncio.run(coroutine_partial()) == 5
assert bound(7) == 7 and bound_method() == 9 and bound_method.__self__ == Data(9)
assert asyncio.run(await_it(returns_coroutine(6))) == 6
assert countdown() == 2 and type(countdown) is Countdown and countdown.left == 2 and Countdown()() == 2

# What introspection sees.
for name, signature in before.items():
    assert inspect.signature(getattr(Base, name)) == signature, name
assert Base.method.__name__ == "method" and Base.method.__qualname__ == "Base.method"
assert Base.method.__doc__ == "What it does." and Base.method.__module__ == "__main__"
assert Base.method.__annotations__["x"] is int and Base.method.__wrapped__
assert "x + y" in inspect.getsource(Base.method)
if sys.version_info < (3, 14):  # deprecated there
    assert asyncio.iscoroutinefunction(base.wait)
assert inspect.iscoroutinefunction(base.wait) and inspect.iscoroutinefunction(coroutine_partial)
assert inspect.isasyncgenfunction(Base.stream) and inspect.isgeneratorfunction(Base.numbers)
assert not inspect.iscoroutinefunction(Base.method)
for function in (decorated, Base.method, Base.static, Base.made, plain_partial):
    again = pickle.loads(pickle.dumps(function))
    assert again == function, function
assert pickle.loads(pickle.dumps(bound_method))() == 9
"""


@every_interpreter
def test_every_kind_is_timed_and_keeps_its_face(interpreter: Interpreter, tmp_path: Path) -> None:
    ran, series = ran_well(interpreter, tmp_path, KINDS)
    counts = labels(series)
    for name, times in {
        "Base.method": 3, "Base.static": 2, "Base.made": 1, "Base.wait": 1, "Base.numbers": 1,
        "Base.stream": 1, "Base.old_style": 1, "Base.dispatch": 2, "Base.partmethod": 1, "Base.builtin": 1,
        "Base.__call__": 1, "Base.__private": 1, "Base.Inner.deep": 1, "Slotted.method": 1, "Data.total": 2,
        "Colour.shout": 1, "Strict.method": 1, "decorated": 1, "managed": 1, "single": 2, "plain_partial": 1,
        "coroutine_partial": 1, "bound": 1, "bound_method": 1, "returns_coroutine": 1, "countdown": 1,
    }.items():  # fmt: skip
        assert counts[name] == times, (name, counts)
    kinds = {label: spans(ran, label)[0]["kind"] for label in counts}
    assert kinds["Base.method"] == kinds["Base.static"] == kinds["managed"] == layout.SPAN_SYNC
    assert kinds["Base.wait"] == kinds["Base.stream"] == kinds["coroutine_partial"] == layout.SPAN_ASYNC
    assert kinds["returns_coroutine"] == layout.SPAN_ASYNC
    assert kinds["Base.numbers"] == kinds["Base.old_style"] == layout.SPAN_GENERATOR
    assert spans(ran, "Base.wait")[0]["task"] and not spans(ran, "Base.method")[0]["task"]
    assert all(span["start"] <= span["stop"] for label in counts for span in spans(ran, label))


@every_interpreter
def test_what_cannot_be_wrapped_is_left_and_explained(interpreter: Interpreter, tmp_path: Path) -> None:
    _, series = ran_well(interpreter, tmp_path, KINDS)
    reasons = {target.partition(":")[2]: reason for target, reason in refused(series).items()}
    assert "property" in reasons["Base.prop"] and "property" in reasons["Base.cached"]
    assert "lru_cache" in reasons["Base.memo"]
    assert "not callable" in reasons["Base.nested_value"]
    assert "class" in reasons["Base.Inner"] and "__init__" in reasons["Base.Inner"]
    assert reasons["Base.nothing"] == "Base has no nothing"
    assert "near: method" in reasons["Base.mehtod"]
    assert "built-in or compiled class" in reasons["dict.get"]
    assert "class" in reasons["Base"]
    assert set(reasons) == {
        "Base.prop", "Base.cached", "Base.memo", "Base.nested_value", "Base.Inner", "Base.nothing",
        "Base.mehtod", "dict.get", "Base",
    }  # fmt: skip
    assert wrapped(series)["__main__:Base.method"] == "Base.method"


@every_interpreter
def test_what_is_raised_comes_through_and_is_marked(interpreter: Interpreter, tmp_path: Path) -> None:
    ran, _ = ran_well(
        interpreter,
        tmp_path,
        """
        import asyncio, sys
        import frostline
        class Own(BaseException): pass
        error = Own("mine")
        def plain(): raise error
        async def coroutine(): raise error
        def generator():
            yield 1
            raise error
        async def agen():
            yield 1
            raise error
        async def cancelled(): await asyncio.sleep(60)
        def closed():
            try:
                yield 1
            finally:
                pass
        for name in ("plain", "coroutine", "generator", "agen", "cancelled", "closed"):
            frostline.wrap(sys.modules[__name__], name, name)

        def raised(call):
            try: call()
            except BaseException as e: return e
        async def drain(): return [x async for x in agen()]
        assert raised(plain) is error
        assert raised(lambda: asyncio.run(coroutine())) is error
        assert raised(lambda: list(generator())) is error
        assert raised(lambda: asyncio.run(drain())) is error
        try: raise ValueError("outer")
        except ValueError as outer:
            error.__context__ = None
            assert raised(plain).__context__ is outer

        async def cancel():
            task = asyncio.ensure_future(cancelled())
            await asyncio.sleep(0)
            task.cancel("why")
            try: await task
            except asyncio.CancelledError as e: return e.args
        assert asyncio.run(cancel()) == (("why",) if sys.version_info >= (3, 11) else ())
        g = closed(); next(g); g.close()
        # StopIteration through a plain callable stays what it is.
        it = iter([])
        class Pulls:
            def pull(self): return next(it)
        frostline.wrap(Pulls, "pull", "pull")
        try: Pulls().pull()
        except StopIteration: pass
        """,
    )
    for label in ("plain", "coroutine", "generator", "agen", "cancelled", "pull"):
        assert all(span["flags"] & layout.SPAN_FLAG_ERROR for span in spans(ran, label)), label
        assert spans(ran, label), label
    assert [span["flags"] for span in spans(ran, "closed")] == [0]


@every_interpreter
def test_other_tools_descriptors_still_learn_their_instance(interpreter: Interpreter, tmp_path: Path) -> None:
    """As wrapt's function wrappers, which tracing libraries put on methods."""
    _, series = ran_well(
        interpreter,
        tmp_path,
        """
        import frostline
        class Hooked:
            def __init__(self, function, instance=None):
                self.function, self.instance = function, instance
            def __get__(self, obj, owner=None):
                return Hooked(self.function.__get__(obj, owner), obj)
            def __call__(self, *args):
                assert self.instance is not None, "called without its instance"
                return self.function(*args)
            def extra(self): return "extra"
        class K:
            @Hooked
            def m(self, x): return x
        raw = vars(K)["m"]
        k, other = K(), K()
        h = frostline.wrap(k, "m", "object")
        assert k.m(1) == other.m(1) == 1 and h.undo() and vars(K)["m"] is raw
        h = frostline.wrap(K, "m", "class")
        assert k.m(1) == 1 and frostline.wrap(K, "m") is h and vars(K)["m"].extra() == "extra"
        assert h.undo() and vars(K)["m"] is raw and k.m(2) == 2
        """,
    )
    assert labels(series) == {"object": 1, "class": 1}


@every_interpreter
def test_a_wrapper_near_the_recursion_limit_changes_no_result(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran, series = ran_well(
        interpreter,
        tmp_path,
        """
        import sys
        import frostline
        def leaf(): return 1
        frostline.wrap(sys.modules[__name__], "leaf", "leaf")
        results = set()
        def down(n):
            # At every depth: either the leaf's result, or the RecursionError of calling it.
            try: results.add(leaf())
            except RecursionError: results.add("deep")
            return down(n + 1)
        try: down(0)
        except RecursionError: pass
        print(sorted(map(str, results)))
        """,
    )
    assert ran.output.strip() == "['1', 'deep']"
    assert labels(series)["leaf"] > 100
