"""Finding where processes begin."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from frostline.checking import known
from frostline.checking.graph import Graph, Node, Walk
from frostline.checking.source import Class, Function, Module
from frostline.checking.values import NONE, Value

_UNKNOWN = "runs something that is not known from the source"


@dataclass
class Found:
    """An entry point, and where its process begins."""

    kind: str
    label: str
    module: Module
    line: int
    starts: list[Node]
    #: Known to serve by what it is; else the walk says.
    serves: bool = False
    #: (module, first line, last line): where a comment may excuse it.
    anchors: list[tuple[Module, int, int]] = field(default_factory=list)
    #: The entry that it differs from only by the class of ``self``.
    variant_of: Found | None = None
    #: What there is to say if nothing of the tree runs in it.
    nothing: str = ""
    #: The call that serves, as it is written.
    server: str = ""
    #: What of the outside runs in it without a function of the tree.
    outside: str = ""


class Processes:
    """Looks through a tree for what is spawned."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tree = graph.tree
        self.found: dict[tuple[str, str, int], Found] = {}
        self.notes: list[str] = []
        #: Functions that start a server: node -> (call's name, line).
        self.servers: dict[Node, tuple[str, ast.Call]] = {}
        self._unknown: list[tuple[Module, int, str]] = []
        self._walks: dict[int, Walk] = {}

    # --- helpers ------------------------------------------------------------------------
    def _calls(self, module: Module) -> Iterator[tuple[Node, ast.Call]]:
        for function in module.functions():
            for call in function.calls:
                yield (function, owner_of(function)), call

    def _outside(self, node: Node, call: ast.Call) -> list[str]:
        names = [one[1] for one in self.graph.values(call.func, node) if one[0] == "ext"]
        for one in self.graph.values(call.func, node):
            if one[0] == "partial" and one[1][0] == "ext":
                names.append(one[1][1])
        return names + self.graph.server_methods(call, self.graph.values(call.func, node))

    def callers(self, function: Function) -> list[tuple[Node, ast.Call]]:
        """The calls of a function, and those that are given it; found by its name first."""
        simple = function.name.rpartition(".")[2]
        if simple in ("__init__", "__new__", "__call__") and function.owner is not None:
            simple = function.owner.name.rpartition(".")[2]
        if simple.startswith("<"):
            return []
        word = re.compile(rb"\b" + re.escape(simple.encode()) + rb"\b(?:\s+as\s+(\w+))?")
        found = []
        plain = simple.encode()
        near = [part.encode() for part in function.module.place.split(".")[-2:]]
        if function.owner is not None:
            near = [one.name.rpartition(".")[2].encode() for one in self._family(function.owner)]
        for module in self.tree.modules.values():
            # A caller speaks of the module or its package, or of the class: else it need not be parsed.
            if plain not in module.text or not (
                module is function.module or any(part in module.text for part in near)
            ):
                continue
            names = {simple}
            hits = 0
            for match in word.finditer(module.text):
                hits += 1
                if match.group(1):
                    names.add(match.group(1).decode("utf-8", "replace"))
            if not hits or (hits == 1 and module is function.module):
                continue
            for node, call in self._calls(module):
                if (
                    node[0] is not function
                    and self._mentions(call, names)
                    and self._calls_it(node, call, function)
                ):
                    found.append((node, call))
        return found

    @staticmethod
    def _mentions(call: ast.Call, names: set[str]) -> bool:
        for part in [call.func, *call.args, *(keyword.value for keyword in call.keywords)]:
            name = part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
            if name in names:
                return True
        return False

    def _calls_it(self, node: Node, call: ast.Call, function: Function) -> bool:
        for part in [call.func, *call.args, *(keyword.value for keyword in call.keywords)]:
            if not isinstance(part, (ast.Name, ast.Attribute)):
                continue
            for value in self.graph.values(part, node):
                one = value[1] if value[0] == "partial" else value
                if one[0] == "fn" and one[1] is function:
                    return True
                if one[0] == "cls" and one[1] is function.owner:
                    return True
        return False

    def _add(self, found: Found) -> Found:
        return self.found.setdefault((found.kind, found.label, found.line if not found.starts else 0), found)

    def _of_function(self, kind: str, function: Function, context: Class | None, **more: object) -> Found:
        """An entry that begins in a function: its module has been imported before."""
        label = function.label
        if context is not None and function.owner is not None and context is not function.owner:
            label = f"{context.label}.{function.name.rpartition('.')[2]}"
        starts: list[Node] = [(function, context), *self._imported(function.module)]
        place = context if context is not None and context is not function.owner else None
        made = Found(
            kind,
            label,
            place.module if place else function.module,
            place.line if place else function.line,
            starts,
            **more,  # type: ignore[arg-type]
        )
        first = min([function.line, *(d.lineno for d in function.decorators)])
        made.anchors.append((function.module, first, function.line))
        if context is not None:
            made.anchors.append((context.module, context.line, context.line))
        return made

    def _imported(self, module: Module) -> list[Node]:
        """The bodies that run when a module is imported: its packages' and its own."""
        parts = module.place.split(".")
        found: list[Node] = []
        for count in range(1, len(parts) + 1):
            one = self.tree.find(".".join(parts[:count]))
            if one is not None:
                found.append((one.read().body, None))
        if (module.body, None) not in found:
            found.append((module.body, None))
        return found

    def _family(self, klass: Class) -> list[Class]:
        return [klass, *self.graph.subclasses(klass)]

    # --- processes ----------------------------------------------------------------------
    def _process(self, node: Node, call: ast.Call) -> None:
        callees = self.graph.values(call.func, node)
        names = set(self._outside(node, call))
        arguments = self.graph.spawned(call, callees or NONE)
        pool = any(known.is_pool(name) for name in names)
        if pool and not arguments:
            module = node[0].module
            found = Found("pool", node[0].label, module, call.lineno, [])
            found.nothing = (
                "a pool without an initializer: nothing of yours runs at the start of its processes"
            )
            found.anchors.append((module, call.lineno, call.end_lineno or call.lineno))
            self._add(found)
        starred = any(keyword.arg is None for keyword in call.keywords)
        if starred and not arguments and any(known.is_process(name) for name in names):
            self._unknown.append((node[0].module, call.lineno, _UNKNOWN))
        for argument in arguments:
            if isinstance(argument, ast.Constant) and argument.value is None:
                continue
            values = self.graph.values(argument, node)
            if not values:
                self._unknown.append((node[0].module, call.lineno, _UNKNOWN))
            handed_on = any(value[0] == "param" for value in values)
            for value in values:
                if handed_on and value[0] == "ext":
                    continue  # the parameter's annotation
                self._target("pool" if pool else "process", value, node, call)

    def _target(self, kind: str, value: Value, node: Node, call: ast.Call) -> None:
        anchor = node[0].module, call.lineno, call.end_lineno or call.lineno
        if value[0] == "partial":
            self._target(kind, value[1], node, call)
        elif value[0] == "many":
            for one in value[1]:
                self._target(kind, one, node, call)
        elif value[0] == "param":
            self.graph.forwarding.add((value[1], value[2]))
        elif value[0] == "fn":
            found = self._add(self._of_function(kind, value[1], value[2]))
            if anchor not in found.anchors:
                found.anchors.append(anchor)
            if value[2] is not None:
                for other in self.graph.subclasses(value[2]):
                    own = self.method_in(other, value[1])
                    variant = self._of_function(kind, own, other, variant_of=found)
                    variant.anchors.append(anchor)
                    self._add(variant)
        elif value[0] in ("cls", "obj"):
            name = "__init__" if value[0] == "cls" else "__call__"
            line = self.graph.evaluator.mro(value[1])
            for one in self.graph.evaluator.member(line, name, value[1], False):
                if one[0] == "fn":
                    self._target(kind, ("fn", one[1], value[1]), node, call)
        elif value[0] == "ext" and (self.graph.serves(value[1]) or kind == "pool"):
            found = Found(kind, value[1], node[0].module, call.lineno, [], serves=kind == "process")
            found.nothing = f"the process runs {value[1]}, and nothing of yours before it"
            found.server = value[1] if kind == "process" else ""
            found.outside = value[1]
            found.anchors.append(anchor)
            self._add(found)
        elif value[0] == "ext":
            text = f"runs {value[1]}, which is not in the tree" if "." in value[1] else _UNKNOWN
            self._unknown.append((node[0].module, call.lineno, text))

    def method_in(self, klass: Class, method: Function) -> Function:
        """What a subclass runs for a method of its base."""
        line = self.graph.evaluator.mro(klass)
        found = self.graph.evaluator.member(line, method.name.rpartition(".")[2], klass, False)
        return next((value[1] for value in found if value[0] == "fn"), method)

    def _process_classes(self) -> None:
        waiting = [one.rpartition(".")[2] for one in known.PROCESS_BASES]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            for module in self.tree.derived.get(name, []):
                for klass in classes_of(module):
                    line = self.graph.evaluator.mro(klass)
                    if not known.PROCESS_BASES & {one for one in line if isinstance(one, str)}:
                        continue
                    waiting.append(klass.name.rpartition(".")[2])
                    for value in self.graph.evaluator.member(line, "run", klass, False):
                        if value[0] == "fn":
                            self._add(self._of_function("process class", value[1], klass))


def owner_of(function: Function) -> Class | None:
    at: Function | None = function
    while at is not None and at.owner is None:
        at = at.outer
    return at.owner if at is not None else None


def classes_of(module: Module) -> list[Class]:
    module.functions()  # classes inside functions as well
    return module.classes
