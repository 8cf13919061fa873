"""What counts as a call that is reached, and what does not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frostline.checking import Config
from tests.checking.trees import checked, missing

SPAWN = """
import multiprocessing
import frostline
{before}
def main():
{body}
multiprocessing.Process(target=main)
"""

#: name -> (before, body of the entry). Each reaches frostline.install().
REACHED = {
    "direct": ("", "frostline.install()"),
    "alias": ("import frostline as f", "f.install()"),
    "from": ("from frostline import install", "install(role='x')"),
    "from as": ("from frostline import install as go", "go()"),
    "local import": ("", "from frostline import install\ninstall()"),
    "conditional import": (
        "try:\n    import frostline\nexcept ImportError:\n    frostline = None",
        "if frostline is not None:\n    frostline.install()",
    ),
    "by the flags": ("", "frostline.apply(None)"),
    "helper": ("def helper():\n    frostline.install()", "helper()"),
    "helper defined later": ("def first():\n    second()\ndef second():\n    frostline.install()", "first()"),
    "try": ("", "try:\n    frostline.install()\nfinally:\n    pass"),
    "finally after return": ("", "try:\n    return 1\nfinally:\n    frostline.install()"),
    "except": ("", "try:\n    raise OSError\nexcept OSError:\n    frostline.install()"),
    "suppressed raise": (
        "import contextlib",
        "with contextlib.suppress(OSError):\n    raise OSError\nfrostline.install()",
    ),
    "while true with a break": ("", "while True:\n    break\nfrostline.install()"),
    "after a branch that returns": ("import sys", "if len(sys.argv) > 3:\n    return\nfrostline.install()"),
    "partial": ("from functools import partial\nf = partial(frostline.install, role='x')", "f()"),
    "partial of a helper": (
        "import functools\ndef helper(x):\n    frostline.install()",
        "f = functools.partial(helper, 1)\nf()",
    ),
    "lambda": ("f = lambda: frostline.install()", "f()"),
    "lambda handed over": ("def call(f):\n    f()", "call(lambda: frostline.install())"),
    "callback": ("def call(f):\n    f()\ndef helper():\n    frostline.install()", "call(helper)"),
    "the call itself handed over": (
        "import asyncio",
        "asyncio.get_event_loop().call_soon(frostline.install)",
    ),
    "method": ("class A:\n    def go(self):\n        frostline.install()", "A().go()"),
    "constructor": ("class A:\n    def __init__(self):\n        frostline.install()", "A()"),
    "constructor of a base": (
        "class B:\n    def __init__(self):\n        frostline.install()\nclass A(B):\n    pass",
        "A()",
    ),
    "method of a base": (
        "class B:\n    def go(self):\n        frostline.install()\nclass A(B):\n    pass",
        "A().go()",
    ),
    "super": (
        "class B:\n    def go(self):\n        frostline.install()\n"
        "class A(B):\n    def go(self):\n        super().go()",
        "A().go()",
    ),
    "super by name": (
        "class B:\n    def go(self):\n        frostline.install()\n"
        "class A(B):\n    def go(self):\n        B.go(self)",
        "A().go()",
    ),
    "cooperative super": (
        "class B:\n    def go(self): pass\nclass L(B):\n    def go(self):\n        super().go()\n"
        "class R(B):\n    def go(self):\n        frostline.install()\nclass A(L, R):\n    pass",
        "A().go()",
    ),
    "template method": (
        "class B:\n    def run(self):\n        self.begin()\n    def begin(self): pass\n"
        "class A(B):\n    def begin(self):\n        frostline.install()",
        "A().run()",
    ),
    "class method": (
        "class A:\n    @classmethod\n    def go(cls):\n        cls.inner()\n"
        "    @staticmethod\n    def inner():\n        frostline.install()",
        "A.go()",
    ),
    "property": ("class A:\n    @property\n    def x(self):\n        frostline.install()", "A().x"),
    "context manager": (
        "class A:\n    def __enter__(self):\n        frostline.install()\n    def __exit__(self, *a): ...",
        "with A():\n    pass",
    ),
    "generator context manager": (
        "import contextlib\n@contextlib.contextmanager\ndef up():\n    frostline.install()\n    yield",
        "with up():\n    pass",
    ),
    "callable object": ("class A:\n    def __call__(self):\n        frostline.install()", "a = A()\na()"),
    "attribute": (
        "class B:\n    def go(self):\n        frostline.install()\n"
        "class A:\n    def __init__(self):\n        self.b = B()\n    def go(self):\n        self.b.go()",
        "A().go()",
    ),
    "annotated parameter": (
        "class B:\n    def go(self):\n        frostline.install()\ndef use(b: 'B | None'):\n    b.go()",
        "use(B())",
    ),
    "factory": (
        "class B:\n    def go(self):\n        frostline.install()\ndef make():\n    return B()",
        "make().go()",
    ),
    "dictionary of functions": ("def h():\n    frostline.install()\nTABLE = {'a': h}", "TABLE['a']()"),
    "loop over functions": ("def h():\n    frostline.install()", "for f in (h, print):\n    f()"),
    "wrapped by a decorator": (
        "def up(f):\n    def inner(*a):\n        frostline.install()\n        return f(*a)\n"
        "    return inner\n"
        "@up\ndef work(): ...",
        "work()",
    ),
    "decorator with arguments": (
        "def up(role):\n    def outer(f):\n        def inner(*a):\n            frostline.install(role=role)\n"
        "            return f(*a)\n        return inner\n    return outer\n@up('x')\ndef work(): ...",
        "work()",
    ),
    "coroutine": (
        "import asyncio\nasync def go():\n    frostline.install()",
        "asyncio.run(go())",
    ),
    "thread": ("import threading\ndef go():\n    frostline.install()", "threading.Thread(target=go).start()"),
    "getattr": ("", "getattr(frostline, 'install')()"),
    "import_module": ("import importlib", "importlib.import_module('frostline').install()"),
    "module body": ("frostline.install()", "pass"),
    "nested function": ("", "def go():\n    frostline.install()\ngo()"),
    "recursion": ("def a(n):\n    b(n)\ndef b(n):\n    a(n)\n    frostline.install()", "a(3)"),
    "comprehension": ("def h():\n    frostline.install()", "[f() for f in (h, print)]"),
    "global": ("g = None\ndef s():\n    global g\n    g = frostline.install", "s()\ng()"),
    "data class": (
        "class B:\n    def go(self):\n        frostline.install()\n"
        "class A:\n    b: B\n    def go(self):\n        self.b.go()",
        "A().go()",
    ),
    "abstract": (
        "from abc import abstractmethod\nclass B:\n    def go(self):\n        self.up()\n"
        "    @abstractmethod\n    def up(self): ...\n"
        "class A(B):\n    def up(self):\n        frostline.install()\ndef use(b: B):\n    b.go()",
        "use(main)",
    ),
    "walrus": ("", "(go := frostline.install)()"),
    "conditional expression": ("", "(frostline.install if main else print)()"),
    "match": ("", "match 1:\n    case 1:\n        frostline.install()"),
}

#: Each looks as if it reached the call.
NOT_REACHED = {
    "unused import": ("from frostline import install", "pass"),
    "unused alias": ("go = frostline.install", "pass"),
    "named only": ("", "frostline.install"),
    "in a string": ("", "x = 'frostline.install()'"),
    "uncalled helper": ("def helper():\n    frostline.install()", "pass"),
    "uncalled lambda": ("f = lambda: frostline.install()", "pass"),
    "uncalled partial": ("from functools import partial", "f = partial(frostline.install)"),
    "uncalled nested function": ("", "def go():\n    frostline.install()"),
    "cached but uncalled": (
        "import functools\n@functools.lru_cache\ndef go():\n    frostline.install()",
        "pass",
    ),
    "after return": ("", "return\nfrostline.install()"),
    "after raise": ("", "raise SystemExit\nfrostline.install()"),
    "after sys.exit": ("import sys", "sys.exit(0)\nfrostline.install()"),
    "after both branches return": ("", "if main:\n    return 1\nelse:\n    return 2\nfrostline.install()"),
    "after an endless loop": ("", "while True:\n    pass\nfrostline.install()"),
    "after a try that returns": (
        "",
        "try:\n    return 1\nexcept OSError:\n    raise\nfrostline.install()",
    ),
    "if False": ("", "if False:\n    frostline.install()"),
    "if 0 and": ("", "if 0 and main:\n    frostline.install()"),
    "while False": ("", "while False:\n    frostline.install()"),
    "else of if True": ("", "if True:\n    pass\nelse:\n    frostline.install()"),
    "TYPE_CHECKING": ("from typing import TYPE_CHECKING", "if TYPE_CHECKING:\n    frostline.install()"),
    "short circuit": ("", "False and frostline.install()"),
    "main guard": ("if __name__ == '__main__':\n    frostline.install()", "pass"),
    "override without super": (
        "class B:\n    def go(self):\n        frostline.install()\n"
        "class A(B):\n    def go(self):\n        pass",
        "A().go()",
    ),
    "constructor without super": (
        "class B:\n    def __init__(self):\n        frostline.install()\n"
        "class A(B):\n    def __init__(self):\n        pass",
        "A()",
    ),
    "super of another method": (
        "class B:\n    def go(self):\n        frostline.install()\n    def stop(self): pass\n"
        "class A(B):\n    def go(self):\n        super().stop()",
        "A().go()",
    ),
    "super in dead code": (
        "class B:\n    def go(self):\n        frostline.install()\n"
        "class A(B):\n    def go(self):\n        return\n        super().go()",
        "A().go()",
    ),
    "overridden hook": (
        "class B:\n    def run(self):\n        self.begin()\n    def begin(self):\n"
        "        frostline.install()\n"
        "class A(B):\n    def begin(self):\n        pass",
        "A().run()",
    ),
    "super mentioned, not called": (
        "class B:\n    def go(self):\n        frostline.install()\n"
        "class A(B):\n    def go(self):\n        super().go",
        "A().go()",
    ),
    "another function of that name": ("def install(): ...", "install()"),
    "hidden by a def": ("from frostline import install\ndef install(): ...", "install()"),
    "hidden by a parameter": ("from frostline import install\ndef go(install):\n    install()", "go(print)"),
    "hidden by a local": ("from frostline import install", "install = print\ninstall()"),
    "another module's": ("import pip", "pip.install()"),
    "another class's method": ("class A:\n    def install(self): ...", "A().install()"),
    "another process's": (
        "def child():\n    frostline.install()",
        "p = multiprocessing.Process(target=child)\np.start()",
    ),
    "in a pool's process": (
        "from concurrent.futures import ProcessPoolExecutor\ndef child():\n    frostline.install()",
        "pool = ProcessPoolExecutor(initializer=child)\npool.submit(child)",
    ),
    "printed": ("", "print(frostline.install)"),
    "deleted": ("from frostline import install\ndel install", "install()"),
}


def tree(before: str, body: str) -> dict[str, str]:
    return {"app.py": SPAWN.format(before=before, body=textwrap.indent(body, "    "))}


@pytest.mark.parametrize("name", REACHED)
def test_reached(tmp_path: Path, name: str) -> None:
    result = checked(tmp_path, tree(*REACHED[name]))
    assert not result.findings and ("process", "app:main") in {(e.kind, e.name) for e in result.entries}


@pytest.mark.parametrize("name", NOT_REACHED)
def test_not_reached(tmp_path: Path, name: str) -> None:
    assert "app:main" in missing(checked(tmp_path, tree(*NOT_REACHED[name])))


@pytest.mark.parametrize(
    "files",
    [
        {"pkg/__init__.py": "", "pkg/boot.py": "from frostline import install as begin", "pkg/app.py": """
            from multiprocessing import Process
            from .boot import begin
            def main(): begin()
            Process(target=main)"""},
        {"pkg/__init__.py": "from .boot import *", "pkg/boot.py": "from frostline import install",
         "pkg/app.py": """
            from multiprocessing import Process
            import pkg
            def main(): pkg.install()
            Process(target=main)"""},
        {"pkg/__init__.py": "", "pkg/a/__init__.py": "", "pkg/a/boot.py": "import frostline\n"
        "def up(): frostline.install()",
         "pkg/b/__init__.py": "", "pkg/app.py": "", "pkg/b/app.py": """
            import multiprocessing as mp
            from ..a import boot
            def main(): boot.up()
            mp.get_context("spawn").Process(target=main)"""},
        {"boot.py": "import frostline\nfrostline.install()", "app.py": """
            from multiprocessing import Process
            def main():
                import boot
            Process(target=main)"""},
        {"namespace/a/boot.py": "import frostline\ndef up(): frostline.install()", "namespace/app.py": """
            from multiprocessing import Process
            from namespace.a.boot import up
            def main(): up()
            Process(target=main)"""},
        {"star.py": "from frostline import *", "app.py": """
            from multiprocessing import *
            from star import *
            def main(): install()
            Process(target=main)"""},
        {"a.py": "from b import *", "b.py": "from a import *\nfrom frostline import install", "app.py": """
            from multiprocessing import Process
            import a
            def main(): a.install()
            Process(target=main)"""},
    ],
    ids=["re-export", "package star", "relative", "import alone", "namespace", "star", "star cycle"],
)  # fmt: skip
def test_over_modules(tmp_path: Path, files: dict[str, str]) -> None:
    result = checked(tmp_path, files)
    assert len(result.entries) == 1 and not result.findings


def test_what_must_be_reached_is_configurable(tmp_path: Path) -> None:
    files = {
        "boot.py": "def setup(): ...",
        "app.py": "from multiprocessing import Process\nimport boot, frostline\n"
        "def a(): boot.setup()\ndef b(): frostline.install()\nProcess(target=a)\nProcess(target=b)",
    }
    assert missing(checked(tmp_path, files, Config(require=("boot.setup",)))) == {"app:b"}


def test_a_finding_says_where_and_what(tmp_path: Path) -> None:
    files = {
        "app.py": "from multiprocessing import Process\nfrom boot import up\n\n\ndef main():\n"
        "    inner()\n\n\n"
        "def inner(): ...\n\n\nProcess(target=main)\n",
        "boot.py": "import frostline\ndef up():\n    frostline.install()\n",
    }
    (finding,) = checked(tmp_path, files).findings
    assert (finding.path, finding.line, finding.slug) == ("app.py", 5, "unreached")
    assert finding.calls == ("app:main", "app:inner")
    assert finding.elsewhere == ("boot.py:3 in up",)
    assert "process app:main never reaches frostline.install()" in finding.message


# --- laws -----------------------------------------------------------------------------
_names = st.sampled_from(["f0", "f1", "f2", "f3", "f4", "f5"])
_calls = st.dictionaries(_names, st.lists(_names, max_size=3), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=_calls, installer=_names, dead=st.sets(st.tuples(_names, _names), max_size=4))
def test_it_is_reachability(
    tmp_path: Path, calls: dict[str, list[str]], installer: str, dead: set[tuple[str, str]]
) -> None:
    """On plain functions the check is reachability in the graph of calls that are not dead."""
    source = ["import frostline, multiprocessing"]
    for number in range(6):
        name = f"f{number}"
        source.append(f"def {name}():")
        for callee in calls.get(name, []):
            source.append(f"    if 0:\n        {callee}()" if (name, callee) in dead else f"    {callee}()")
        source.append("    frostline.install()" if name == installer else "    pass")
    source.append("multiprocessing.Process(target=f0)")
    reached, waiting = {"f0"}, ["f0"]
    while waiting:
        name = waiting.pop()
        for callee in calls.get(name, []):
            if (name, callee) not in dead and callee not in reached:
                reached.add(callee)
                waiting.append(callee)
    result = checked(tmp_path, {"app.py": "\n".join(source)})
    assert (missing(result) == set()) == (installer in reached)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.lists(st.sampled_from(["inherit", "override", "super"]), min_size=1, max_size=6))
def test_a_chain_of_overrides(tmp_path: Path, shape: list[str]) -> None:
    """The base installs; each class below inherits, overrides, or calls its base."""
    source = [
        "import frostline, multiprocessing",
        "class C0:",
        "    def run(self):",
        "        frostline.install()",
    ]
    for number, kind in enumerate(shape, 1):
        source.append(f"class C{number}(C{number - 1}):")
        body = {"inherit": "    pass", "override": "    def run(self): pass"}
        source.append(body.get(kind, "    def run(self):\n        super().run()"))
    source.append(f"multiprocessing.Process(target=C{len(shape)}().run)")
    result = checked(tmp_path, {"app.py": "\n".join(source)})
    assert bool(result.findings) == ("override" in shape)
