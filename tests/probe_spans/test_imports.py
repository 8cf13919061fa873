"""The import hook changes nothing but that it calls back (B1), on every interpreter."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.interpreters import SOURCE, Interpreter, every_interpreter
from tests.probe_spans.reading import labels, ran_well, refused, wrapped

#: A package with every sort of module that an import can meet.
FILES = {
    "pkg/__init__.py": "",
    "pkg/mod.py": "LOADER = __loader__\nSPEC_LOADER = __spec__.loader\ndef f(): return 1\n",
    "pkg/other.py": "from pkg.mod import f\ndef g(): return f() + 1\n",
    "pkg/data.txt": "data",
    "pkg/broken.py": "def f(): return 1\nraise ZeroDivisionError('body')\n",
    "pkg/replaced.py": "import sys, types\nnew = types.ModuleType(__name__)\nnew.f = lambda: 2\n"
    "sys.modules[__name__] = new\n",
    "pkg/lazy.py": "def __getattr__(name):\n    if name == 'f':\n        return lambda: 3\n"
    "    raise AttributeError(name)\n",
    "pkg/__main__.py": "import pkg.mod\nsource = __spec__.loader.get_source(__spec__.name)\n"
    "print('source' in source, pkg.mod.f())\ndef f(): return 1\nf()\n",
    "space/inside.py": "def f(): return 4\n",
    "pkg/embeds.py": "from frostline.probe import imports\nimports.watch(__name__, GOT.append)\n"
    "print(hasattr(GOT[0], 'late'))\ndef late(): pass\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "lib"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def python(interpreter: Interpreter, package: Path, text: str, *options: str) -> str:
    """Runs a script with the import hook and nothing else of ours."""
    done = subprocess.run(
        [interpreter.executable, "-W", "error", *options, "-c", textwrap.dedent(text)],
        env={"PYTHONPATH": f"{SOURCE}:{package}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@every_interpreter
def test_the_hook_calls_back_and_leaves_the_module_as_it_was(interpreter: Interpreter, package: Path) -> None:
    python(
        interpreter,
        package,
        """
        import sys
        before = set(sys.modules)
        from frostline.probe import imports
        added = set(sys.modules) - before
        assert added <= {"frostline", "frostline.probe", "frostline.format", "frostline.probe.imports"}, added
        finders = list(sys.meta_path)
        got = []
        for name in ("pkg", "pkg.mod", "pkg.broken", "pkg.replaced", "space", "space.inside", "colorsys",
                     "_sha2", "_statistics", "nowhere", "sys", "zipimport"):
            imports.watch(name, got.append)
        assert sys.meta_path[1:] == finders
        import importlib, importlib.machinery, importlib.util, inspect, pickle, pkgutil
        assert got.pop() is sys or got.pop() is sys      # there already: called at once
        got.clear()
        import pkg.mod
        assert got == [pkg, pkg.mod]
        bare = importlib.machinery.SourceFileLoader
        assert type(pkg.mod.LOADER) is bare and type(pkg.mod.SPEC_LOADER) is bare   # as its body saw them
        assert type(pkg.mod.__loader__) is bare and type(pkg.mod.__spec__.loader) is bare
        assert "return 1" in inspect.getsource(pkg.mod.f) and pkgutil.get_data("pkg", "data.txt") == b"data"
        assert pickle.loads(pickle.dumps(pkg.mod.__loader__)) == pkg.mod.__loader__
        got.clear()
        importlib.reload(pkg.mod)
        assert got == [pkg.mod] and type(pkg.mod.__loader__) is bare and type(pkg.mod.__spec__.loader) is bare
        got.clear()
        try: import pkg.broken
        except ZeroDivisionError: pass
        else: raise AssertionError
        assert not got and "pkg.broken" not in sys.modules
        import pkg.replaced
        assert got == [sys.modules["pkg.replaced"]] and got[0].f() == 2
        got.clear()
        import space.inside                                # a namespace package has no body
        assert got == [sys.modules["space.inside"]] and space.__path__
        got.clear()
        for name in ("_statistics", "colorsys", "zipimport"):   # extension or built-in, source, frozen
            sys.modules.pop(name, None)
            module = importlib.import_module(name)
            assert got.pop() is module and not got, name
        try: import nowhere
        except ModuleNotFoundError as error: assert error.name == "nowhere"
        # Who only looks for the spec gets a loader that answers as the original.
        spec = importlib.util.find_spec("pkg.broken")
        assert isinstance(spec.loader, bare) and spec.loader.get_source("pkg.broken").startswith("def f")
        assert spec.loader.path == spec.origin and spec.loader.is_package("pkg.broken") is False
        assert importlib.util.find_spec("nowhere") is None
        missing = imports.sweep()
        assert {"pkg.broken", "nowhere"} <= set(missing) and "space" not in missing
        assert space in got                               # a namespace package is found by the sweep
        for name in list(imports._watched): imports.unwatch(name, got.append)
        assert sys.meta_path == finders
        """,
    )


@every_interpreter
def test_a_callback_that_raises_stops_no_import(interpreter: Interpreter, package: Path) -> None:
    out = python(
        interpreter,
        package,
        """
        from frostline.probe import imports
        def bad(module): raise RuntimeError("ours")
        seen = []
        imports.watch("pkg.mod", bad); imports.watch("pkg.mod", bad); imports.watch("pkg.mod", seen.append)
        import pkg.mod
        print(pkg.mod.f(), len(seen))
        """,
    )
    assert out == "1 1\n"


@every_interpreter
def test_other_finders_before_and_behind(interpreter: Interpreter, package: Path) -> None:
    """Those that ask the rest through importlib.util.find_spec, as wrapt and ddtrace do."""
    for place in ("0", "1", "len(sys.meta_path)"):
        python(
            interpreter,
            package,
            f"""
            import importlib.util, sys
            from frostline.probe import imports
            calls, got = [], []
            class Loader:
                def __init__(self, loader): self.loader = loader
                def __getattr__(self, name): return getattr(self.loader, name)
                def create_module(self, spec): return self.loader.create_module(spec)
                def exec_module(self, module):
                    module.__spec__.loader = module.__loader__ = self.loader
                    self.loader.exec_module(module)
                    calls.append(module)
            class Finder:
                busy = set()
                def find_spec(self, name, path=None, target=None):
                    if name != "pkg.mod" or name in self.busy: return None
                    self.busy.add(name)
                    try: spec = importlib.util.find_spec(name)
                    finally: self.busy.discard(name)
                    spec.loader = Loader(spec.loader)
                    return spec
            imports.watch("pkg.mod", got.append)
            sys.meta_path.insert({place}, Finder())
            import pkg.mod
            assert got == [pkg.mod], got
            assert calls == [pkg.mod] or {place!r}.startswith("len"), calls
            kind = type(pkg.mod.__spec__.loader).__name__
            assert kind == type(pkg.mod.__loader__).__name__ == "SourceFileLoader", kind
            """,
        )


@every_interpreter
def test_a_tool_that_patches_the_loader_it_finds(interpreter: Interpreter, package: Path) -> None:
    """As ddtrace does with get_code, and others with exec_module: theirs runs, around the original."""
    out = python(
        interpreter,
        package,
        """
        import importlib.machinery, importlib.util, sys
        from frostline.probe import imports
        calls, got = [], []
        class Finder:
            busy = False
            def find_spec(self, name, path=None, target=None):
                if name != "pkg.mod" or self.busy: return None
                self.busy = True
                try: spec = importlib.util.find_spec(name)
                finally: self.busy = False
                loader = spec.loader
                get_code, create, execute = loader.get_code, loader.create_module, loader.exec_module
                loader.get_code = lambda name: (calls.append("code"), get_code(name))[1]
                loader.create_module = lambda spec: (calls.append("create"), create(spec))[1]
                loader.exec_module = lambda module: (calls.append("exec"), execute(module))[1]
                return spec
        imports.watch("pkg.mod", got.append)
        sys.meta_path.insert(0, Finder())
        import pkg.mod
        print(*calls, got == [pkg.mod], type(pkg.mod.__loader__) is importlib.machinery.SourceFileLoader)
        """,
    )
    assert out == "create exec code True True\n"


@every_interpreter
def test_a_finder_that_keeps_the_module_to_itself_is_found_by_the_sweep(
    interpreter: Interpreter, package: Path
) -> None:
    out = python(
        interpreter,
        package,
        """
        import importlib.machinery, sys
        from frostline.probe import imports
        got = []
        imports.watch("pkg.mod", got.append); imports.watch("nowhere", got.append)
        class Selfish:
            @staticmethod
            def find_spec(name, path=None, target=None):
                return importlib.machinery.PathFinder.find_spec(name, path, target)
        sys.meta_path.insert(0, Selfish)
        import pkg.mod
        assert not got
        print(imports.sweep(), got == [pkg.mod], imports.sweep(), len(got))
        """,
    )
    assert out == "['nowhere'] True ['nowhere'] 1\n"


@every_interpreter
def test_a_module_that_is_being_imported_is_seen_again_by_the_sweep(
    interpreter: Interpreter, package: Path
) -> None:
    out = python(
        interpreter,
        package,
        """
        import builtins
        from frostline.probe import imports
        got = builtins.GOT = []
        import pkg.embeds
        print(imports.sweep(), got == [pkg.embeds] * 2, hasattr(got[1], "late"))
        """,
    )
    assert out == "False\n[] True True\n"


@every_interpreter
def test_many_threads_import_one_watched_module(interpreter: Interpreter, package: Path) -> None:
    out = python(
        interpreter,
        package,
        """
        import importlib, sys, threading
        from frostline.probe import imports
        got = []
        imports.watch("pkg.mod", got.append); imports.watch("pkg.other", got.append)
        gate = threading.Barrier(16)
        seen = []
        def work(name):
            gate.wait()
            seen.append(importlib.import_module(name))
        threads = [threading.Thread(target=work, args=(n,)) for n in ("pkg.mod", "pkg.other") * 8]
        for t in threads: t.start()
        for t in threads: t.join()
        print(len(got), len(set(map(id, seen))))
        """,
    )
    assert out == "2 2\n"


@every_interpreter
def test_an_old_loader_with_load_module_only(interpreter: Interpreter, package: Path) -> None:
    if interpreter.version >= (3, 12):
        pytest.skip("such loaders are deprecated, and gone from 3.15")
    out = python(
        interpreter,
        package,
        """
        import warnings; warnings.simplefilter("ignore")
        import importlib.machinery, sys, types
        from frostline.probe import imports
        class Old:
            def load_module(self, name):
                module = sys.modules[name] = types.ModuleType(name)
                module.__loader__ = self
                return module
        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                return importlib.machinery.ModuleSpec(name, Old()) if name == "ancient" else None
        got = []
        imports.watch("ancient", got.append)
        sys.meta_path.append(Finder)
        import ancient
        print(got == [ancient], type(ancient.__loader__).__name__, type(ancient.__spec__.loader).__name__)
        """,
    )
    assert out == "True Old Old\n"


SPANS = "pkg.mod:f=one;pkg.lazy:f=three; pkg.mod:g ;space.inside:f;pkg.other:g=two;nonsense;pkg.mod:a b"


@every_interpreter
def test_spans_from_the_environment(interpreter: Interpreter, tmp_path: Path, package: Path) -> None:
    _, series = ran_well(
        interpreter,
        tmp_path,
        f"""
        import sys; sys.path.insert(0, {str(package)!r})
        import pkg.other, pkg.lazy, space.inside, importlib
        assert pkg.other.g() == 2 and pkg.other.f is pkg.mod.f
        assert pkg.lazy.f() == 3 and space.inside.f() == 4
        importlib.reload(pkg.mod)
        pkg.mod.f()
        """,
        FROSTLINE_SPANS=SPANS,
    )
    assert labels(series) == {"one": 2, "two": 1, "three": 1, "f": 1}
    assert wrapped(series) == {
        "pkg.mod:f": "one", "pkg.other:g": "two", "pkg.lazy:f": "three", "space.inside:f": "f",
    }  # fmt: skip
    reasons = refused(series)
    assert "pkg.mod has no g" in reasons["pkg.mod:g"]
    assert "':'" in reasons["nonsense"] and "'a b'" in reasons["pkg.mod:a b"]


@every_interpreter
def test_the_module_that_runs_as_main_is_reached_too(
    interpreter: Interpreter, tmp_path: Path, package: Path
) -> None:
    import os

    from frostline.recording.session import read_session

    hook = "import frostline; frostline._boot()"
    (package / "sitecustomize.py").write_text(hook)
    done = subprocess.run(
        [interpreter.executable, "-m", "pkg"],
        env={**os.environ, "PYTHONPATH": f"{package}:{SOURCE}", "FROSTLINE_OUTPUT": str(tmp_path / "session"),
             "FROSTLINE_SPANS": "pkg.__main__:f;pkg.mod:f=mod;__main__:f;pkg:g"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True 1\n", "")
    (series,) = read_session(tmp_path / "session").series
    assert labels(series) == {"mod": 1}
    # What -m runs is reached by both of its names.
    assert {"pkg.__main__:f", "__main__:f"} <= wrapped(series).keys()
    assert "pkg has no g" in refused(series)["pkg:g"]  # the package itself is imported


@every_interpreter
def test_a_plain_recording_loads_no_part_for_spans(interpreter: Interpreter, tmp_path: Path) -> None:
    ran, _ = ran_well(
        interpreter,
        tmp_path,
        """
        import sys
        print(sorted(name for name in sys.modules if name.startswith("frostline.")))
        """,
        FROSTLINE_PRESETS="auto",
    )
    assert "frostline.probe.imports" in ran.output
    for part in ("spans", "wrapp", "presets", "attributes", "live", "kinds", "telling", "paths"):
        assert f"frostline.probe.{part}" not in ran.output
