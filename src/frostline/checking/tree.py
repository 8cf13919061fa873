"""Every Python file below a path, and the names by which they import each other."""

from __future__ import annotations

import os
import re
from pathlib import Path

from frostline.checking.source import Module

#: A larger file is data in the form of source: parsing it would take minutes.
LARGEST = 5 << 20
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
_TEST_FOLDERS = {"test", "tests", "testing"}
_DEF = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.M)
_CLASS = re.compile(rb"^[ \t]*class[ \t]+(\w+)[^(\n]{0,200}?\((.{0,500}?)\)\s*:", re.M | re.S)
_PROPERTY = re.compile(rb"@(?:functools\.)?(?:cached_)?property\s*\n\s*(?:async\s+)?def\s+(\w+)")


class Tree:
    """Every Python file below a path."""

    def __init__(self, root: Path, tests: bool) -> None:
        self.root = root
        self.modules: dict[str, Module] = {}
        self.skipped: list[tuple[str, str]] = []
        self.tests_left_out = 0
        self.sessions_left_out = 0
        self.defined: dict[str, list[Module]] = {}
        self.derived: dict[str, list[Module]] = {}
        self.properties: set[str] = set()
        self._tests = tests
        self._names: dict[str, Module] = {}
        top = root if root.is_dir() else root.parent
        while (top / "__init__.py").is_file():
            top = top.parent
        self._top = top
        self._collect()

    def _collect(self) -> None:
        if self.root.is_file():
            self._add(self.root)
            return
        seen: set[tuple[int, int]] = set()
        for folder, names, files in os.walk(self.root, followlinks=True, onerror=self._unlisted):
            about = Path(folder).stat()
            key = about.st_dev, about.st_ino
            if key in seen:  # a symbolic link that leads back
                names.clear()
                continue
            seen.add(key)
            names[:] = sorted(name for name in names if self._enter(folder, name))
            for name in sorted(files):
                if name.endswith(".py"):
                    if self._is_test_file(name):
                        self.tests_left_out += 1
                    else:
                        self._add(Path(folder) / name)

    def _unlisted(self, error: OSError) -> None:
        self.skipped.append((str(error.filename), f"it cannot be listed: {error.strerror}"))

    def _enter(self, folder: str, name: str) -> bool:
        if name.startswith(".") or name in _SKIPPED:
            return False
        path = os.path.join(folder, name)  # noqa: PTH118
        if os.path.exists(os.path.join(path, "pyvenv.cfg")):  # noqa: PTH110, PTH118
            return False
        if _is_session(path):
            self.sessions_left_out += 1
            return False
        if not self._tests and name in _TEST_FOLDERS:
            self.tests_left_out += sum(one.endswith(".py") for _, _, ones in os.walk(path) for one in ones)
            return False
        return True

    def _is_test_file(self, name: str) -> bool:
        test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
        return test and not self._tests

    def _add(self, path: Path) -> None:
        shown = str(path.relative_to(self.root)) if self.root.is_dir() else path.name
        try:
            if not path.is_file():
                return  # a socket, a pipe, a link into nowhere
            if path.stat().st_size > LARGEST:
                self.skipped.append((shown, f"larger than {LARGEST >> 20} MiB"))
                return
            text = path.read_bytes()
        except OSError as error:
            self.skipped.append((shown, f"it cannot be read: {error.strerror}"))
            return
        name, is_package = module_name(path)
        place = self._place(path)
        if name in self.modules:  # two scripts of one name
            name = place
        module = Module(name, place, path, shown, is_package, text)
        self.modules[name] = module
        for alias in (name, place, f"{self.root.name}.{place}"):
            self._names.setdefault(alias, module)
        for one in set(_DEF.findall(text)):
            self.defined.setdefault(one.decode("utf-8", "replace"), []).append(module)
        for _, bases in _CLASS.findall(text):
            for base in set(re.findall(rb"\w+", bases)):
                self.derived.setdefault(base.decode("utf-8", "replace"), []).append(module)
        self.properties.update(one.decode("utf-8", "replace") for one in _PROPERTY.findall(text))

    def _place(self, path: Path) -> str:
        parts = list(path.relative_to(self._top).with_suffix("").parts)
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        return ".".join(parts)

    def find(self, dotted: str, of: Module | None = None) -> Module | None:
        """The module of a name, as another module may import it."""
        found = self._names.get(dotted)
        if found is None and of is not None:
            # A script's own folder stands first on sys.path.
            found = self._names.get(f"{of.place.rpartition('.')[0]}.{dotted}")
        return found

    def with_text(self, *words: str) -> list[Module]:
        """Modules whose text holds any of the words."""
        pattern = re.compile(b"|".join(re.escape(word.encode()) for word in words))
        return [module for module in self.modules.values() if pattern.search(module.text)]


def _is_session(path: str) -> bool:
    """What `frostline run` and `attach` write into: it holds a copy of ours, for the processes it records."""
    boot = Path(path, "boot")
    return (boot / "version").is_file() and (boot / "lib" / "frostline" / "__init__.py").is_file()


def module_name(path: Path) -> tuple[str, bool]:
    """The dotted name, from the outermost folder that is a package; whether it is a package itself."""
    parts = [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name:
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__" and len(parts) > 1:
        return ".".join(parts[:-1]), True
    return ".".join(parts), False
