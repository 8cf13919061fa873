"""Trees that are broken, huge, or made to be costly: each ends soon, and says what it left out."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frostline import checking
from frostline.checking import Config
from frostline.checking.tree import LARGEST
from tests.checking.trees import checked, missing, written

GOOD = (
    "import frostline\nfrom multiprocessing import Process\ndef f(): frostline.install()\nProcess(target=f)\n"
)
BAD = "from multiprocessing import Process\ndef f(): ...\nProcess(target=f)\n"


@pytest.mark.parametrize(
    "content",
    [
        b"def f(:\n  Process",
        b"Process\n" + "x = 'é'".encode("latin-1"),
        b"Process\n\0\0",
        b"# -*- coding: no-such-codec -*-\nProcess",
        b"\xff\xfeP\0r\0o\0c\0e\0s\0s\0",
        b"Process\n" + b"(" * 5000,
        b"Process\nx = " + b"[" * 5000 + b"]" * 5000,
        b"Process\nprint 'python 2'",
    ],
    ids=["syntax", "not utf-8", "null", "codec", "utf-16", "parentheses", "nested", "python 2"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    written(tmp_path, {"app.py": BAD})
    (tmp_path / "broken.py").write_bytes(content)
    result = checking.check(tmp_path, Config())
    assert missing(result) == {"app:f"}
    assert [path for path, _ in result.skipped] in (["broken.py"], [])
    if content.startswith(b"\xff"):
        return  # no word of it is seen, so nobody asks for it
    assert result.skipped and result.skipped[0][1]


def test_other_encodings_are_read(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_bytes(b"# coding: latin-1\nx = '\xe9'\n" + GOOD.encode())
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    (tmp_path / "dos.py").write_bytes(GOOD.replace("\n", "\r\n").encode())
    result = checking.check(tmp_path, Config())
    assert not result.findings and not result.skipped and len(result.entries) == 3


def test_links_that_lead_back_and_into_nowhere(tmp_path: Path) -> None:
    source = tmp_path / "source"
    written(source, {"a/app.py": BAD})
    (source / "a" / "up").symlink_to(source)
    (source / "self").symlink_to(source / "self")
    (source / "gone.py").symlink_to(tmp_path / "nothing")
    os.mkfifo(source / "pipe.py")
    result = checking.check(source, Config())
    assert len(result.findings) == 1 and result.files == 1


def test_what_is_not_ours_is_left_out(tmp_path: Path) -> None:
    files = {
        ".hidden/app.py": BAD, "env/pyvenv.cfg": "", "env/app.py": BAD, "node_modules/app.py": BAD,
        "__pycache__/app.py": BAD, "app.pyc": BAD, "app.txt": BAD, "app.py": "",
    }  # fmt: skip
    assert checked(tmp_path, files).files == 1


def test_a_huge_file(tmp_path: Path) -> None:
    written(tmp_path, {"app.py": BAD, "data.py": "Process = [\n" + "1,\n" * (LARGEST // 3) + "]\n"})
    result = checking.check(tmp_path, Config())
    assert missing(result) == {"app:f"}
    assert result.skipped == [("data.py", f"larger than {LARGEST >> 20} MiB")]


@pytest.mark.parametrize(
    "source",
    [
        "class A(A): ...\n",
        "class A(B): ...\nclass B(A): ...\n",
        "class A(object, list): ...\nclass B(list, object): ...\nclass C(A, B): ...\n",
        "x = x\ny = z\nz = y\n",
        "x = x.y.z\ny = [y]\nz = {1: z}\n",
        "f = lambda: f()\nf()\n",
        "def a(): return a()\nb = a()()()\n",
        "def a(x=a): return b\ndef b(): return a\na()()()()()()\n",
        "class A:\n    def __init__(self):\n        self.a = self.b\n        self.b = self.a\n"
        "    def go(self): self.a.b()\n",
        "@d\ndef d(): ...\n@d\nclass E: ...\n",
        "import app\nfrom app import app\nfrom . import app\nfrom .. import x\nfrom ....... import y\n",
        "from app import *\nfrom other import *\nmissing()\n",
        "def f(*args, **kwargs): f(*args, **kwargs)\nf(*f, **f)\n",
        "class A:\n    def run(self: 'A | list[A]') -> 'not ( python': ...\n",
        "class M(type): ...\nclass A(metaclass=M): ...\nclass B(A, x=1): ...\n",
        "x: 'x' = x\ndef f(a: f = f) -> f: return a\n",
        "super().x()\nsuper(1, 2).y()\ndef f(): super().z()\n",
        "del x\nglobal y\nasync def f(): await f\n",
        "(lambda: (lambda: (yield))())()\n",
        "def f(" + ", ".join(f"a{n}" for n in range(300)) + "): ...\n",
    ],
)
def test_sources_that_go_round_in_circles(tmp_path: Path, source: str) -> None:
    for name, good in (("good", True), ("bad", False)):
        result = checked(
            tmp_path / name, {"app.py": source + (GOOD if good else BAD), "other.py": "from app import *"}
        )
        assert bool(missing(result)) is not good


#: Far above what they take (0.1 s to 3 s), far below what an exponential way would.
SOON = 40.0


@pytest.mark.parametrize(
    "source",
    [
        "def a0(): ...\n"
        + "".join(f"def a{n}():\n    return a{n - 1}(), a{n - 1}()\n" for n in range(1, 400)),
        "x0 = 1\n" + "".join(f"x{n} = x{n - 1} if x{n - 1} else x{n - 1}\n" for n in range(1, 2000)),
        "class C0: ...\n"
        + "".join(f"class C{n}(C{n - 1}):\n    def go(self): super().go()\n" for n in range(1, 150)),
        "x = " + " + ".join(["f()"] * 3000) + "\n",
        "x = a" + ".b" * 800 + "\n",
        "x = a" + "()" * 150 + "\n",
        "if 1:\n    pass\n" + "".join(f"elif x == {n}:\n    f()\n" for n in range(800)),
        "def f():\n" + "".join(" " * n + "if x:\n" for n in range(1, 90)) + " " * 90 + "f()\n",
        "f(" * 80 + ")" * 80 + "\n",
        "".join(f"def f{n}(g): g(f{n}, " + ", ".join(f"f{m}" for m in range(30)) + ")\n" for n in range(60)),
        "x = x" + "".join(f"\nx = x or y{n}\ny{n} = x and x" for n in range(400)) + "\n",
    ],
    ids=[
        "calls",
        "names",
        "classes",
        "sum",
        "attributes",
        "called",
        "elif",
        "indented",
        "arguments",
        "callbacks",
        "or",
    ],
)
def test_sources_that_are_made_to_be_costly(tmp_path: Path, source: str) -> None:
    written(tmp_path, {"app.py": source + BAD})
    begun = time.process_time()
    result = checking.check(tmp_path, Config())
    assert time.process_time() - begun < SOON
    assert missing(result) == {"app:f"} or result.skipped


def test_three_thousand_files(tmp_path: Path) -> None:
    """Every file spawns through its neighbour's helper; one of them forgets to install."""
    files = {"pkg/__init__.py": ""}
    for number in range(3000):
        call = "pass" if number == 1234 else f"helper{(number + 1) % 3000}()"
        files[f"pkg/m{number}.py"] = (
            "import frostline\nfrom multiprocessing import Process\n"
            f"from pkg.m{(number + 1) % 3000} import helper{(number + 1) % 3000}\n"
            f"def helper{number}():\n    frostline.install()\n"
            f"class K{number}:\n    def start(self):\n        Process(target=self.main).start()\n"
            f"    def main(self):\n        {call}\n"
        )
    written(tmp_path, files)
    begun = time.process_time()
    result = checking.check(tmp_path, Config())
    assert time.process_time() - begun < SOON
    assert missing(result) == {"pkg.m1234:K1234.main"} and len(result.entries) == 3000


_source = st.text(
    alphabet="defclass(): \n\tselfimportxy=.*@[]{}'\"#,0frostline_Processtargetlambda", max_size=200
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(source=_source)
def test_any_text_at_all(tmp_path: Path, source: str) -> None:
    result = checked(tmp_path, {"other.py": source, "app.py": BAD})
    assert "app:f" in missing(result)
