"""Finding where servers start, and what sets them up."""

from __future__ import annotations

import ast
from pathlib import Path

from frostline.checking.entries import Found, Processes, owner_of
from frostline.checking.graph import Node, Walk
from frostline.checking.source import Function, Module
from frostline.checking.values import Values

_ROOTS = 200


class Servers(Processes):
    """Looks through a tree for what serves."""

    # --- servers ------------------------------------------------------------------------
    def walk(self, found: Found) -> Walk:
        """What runs in an entry's process, imports aside."""
        known_walk = self._walks.get(id(found))
        if known_walk is None:
            known_walk = self._walks[id(found)] = self.graph.walk(found.starts, bodies=False)
        return known_walk

    def serving(self, found: Found) -> list[str]:
        """The way to the start of a server; empty if the entry starts none."""
        walk = self.walk(found)
        for name, (node, _) in walk.outside.items():
            if self.graph.serves(name):
                return [*(function.label for function, _ in walk.way(node)), name.removeprefix("?.")]
        for node in walk.parents if self.graph.servers else ():
            if f"{node[0].module.name}.{node[0].name}" in self.graph.servers:
                return [function.label for function, _ in walk.way(node)]
        return [found.label, found.server] if found.server else []

    def _covered(self) -> set[Function]:
        """What runs in a process that has an entry."""
        found: set[Function] = set()
        for entry in self.found.values():
            found.update(function for function, _ in self.walk(entry).parents)
        return found

    def _scripts(self, scripts: tuple[tuple[str, str], ...]) -> None:
        for name, target in [*scripts, *_installed_scripts(self.tree.root)]:
            module_name, _, qualified = target.partition("[")[0].strip().partition(":")
            module = self.tree.find(module_name.strip())
            if module is None or not qualified:
                continue
            for node in self.named(module, qualified.strip()):
                found = self._of_function("console script", node[0], node[1])
                found.label = f"{found.label} ({name})"
                if self.serving(found):
                    self._add(found)

    def named(self, module: Module, qualified: str) -> list[Node]:
        """The functions of a dotted name in a module."""
        values: Values = frozenset({("mod", module.read())})
        for part in qualified.split("."):
            values = frozenset(
                one for value in values for one in self.graph.evaluator.attribute(value, part, None)
            )
        return [(value[1], value[2]) for value in values if value[0] == "fn"]

    def _mains(self) -> None:
        for module in self.tree.with_text("__main__"):
            if module.read().main is not None:
                assert module.main is not None
                found = self._of_function("main block", module.main, None)
                if self.serving(found):
                    self._add(found)
        for module in self.tree.modules.values():
            if module.path.name == "__main__.py":
                found = self._of_function("main module", module.read().body, None)
                if self.serving(found):
                    self._add(found)

    def _roots(self, covered: set[Function]) -> None:
        """Servers that no entry found so far starts: those who set them up, and are called by nobody."""
        for (function, context), (name, call) in list(self.servers.items()):
            if function in covered:
                continue
            for root in self._outermost(function):
                of = context if root is function else owner_of(root)
                found = self._of_function("server", root, of, serves=True, server=name)
                found.anchors.append((function.module, call.lineno, call.end_lineno or call.lineno))
                if of is not None:
                    line = self.graph.evaluator.mro(of)
                    for value in self.graph.evaluator.member(line, "__init__", of, False):
                        if value[0] == "fn":
                            found.starts.append((value[1], of))
                # What a command's group does runs before the command.
                for decorator in root.decorators:
                    base = decorator.func if isinstance(decorator, ast.Call) else decorator
                    if isinstance(base, ast.Attribute):
                        for value in self.graph.evaluator.values(base.value, root.outer or root, None):
                            if value[0] == "fn":
                                found.starts.append((value[1], value[2]))
                kept = self._add(found)
                if of is not None:
                    for other in self.graph.subclasses(of):
                        if self.method_in(other, root) is not root:
                            continue  # an override that serves is a server of its own
                        self._add(
                            self._of_function(
                                "server", root, other, serves=True, server=name, variant_of=kept,
                                anchors=list(kept.anchors),
                            )
                        )  # fmt: skip

    def _outermost(self, function: Function) -> list[Function]:
        seen = {function}
        waiting, roots = [function], []
        while waiting:
            one = waiting.pop()
            callers = [node[0] for node, _ in self.callers(one)]
            if one.name.count("<locals>") and not callers and one.outer is not None:
                callers = [one.outer]
            fresh = [caller for caller in callers if caller not in seen]
            if not callers:
                roots.append(one)
            seen.update(fresh)
            waiting += fresh
            if len(seen) > _ROOTS:
                return [function]
        return roots or [function]


def _installed_scripts(root: Path) -> list[tuple[str, str]]:
    """The console scripts of an installed package that is checked where it lies."""
    found: list[tuple[str, str]] = []
    top = root if root.is_dir() else root.parent
    for file in sorted(top.parent.glob("*.dist-info/entry_points.txt")):
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        section = text.partition("[console_scripts]")[2].partition("\n[")[0]
        for line in section.splitlines():
            name, equals, target = line.partition("=")
            if equals and target.strip().split(".")[0].split(":")[0] == top.name:
                found.append((name.strip(), target.strip()))
    return found
