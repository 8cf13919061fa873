"""Who calls whom: from a function, as the methods of one class, to what can run because of it."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from frostline.checking import known
from frostline.checking.source import Class, Function, Module
from frostline.checking.tree import Tree
from frostline.checking.values import NONE, Evaluator, Value, Values

#: A function, and the class of its ``self``.
Node = tuple[Function, "Class | None"]
#: Method names too common to say by themselves whose method is meant.
_COMMON = {name for kind in (str, list, dict, set, bytes, int, object) for name in dir(kind)} | {
    "run", "start", "stop", "close", "open", "read", "write", "send", "recv", "put", "join", "set", "reset",
    "submit", "wait", "result", "cancel", "flush", "acquire", "release", "connect", "shutdown", "main",
    "call", "execute", "setup", "step", "load", "save", "forward", "install", "init", "initialize",
    "serve", "next",
}  # fmt: skip
#: Calls that do not call what they are given.
_PASSIVE = {
    "print", "isinstance", "issubclass", "hasattr", "getattr", "setattr", "id", "repr", "str", "type",  "len",
    "callable", "bool", "super", "list", "tuple", "dict", "set", "sorted", "hash", "vars", "dir",
    "functools.partial", "functools.partialmethod", "functools.wraps", "functools.update_wrapper",
    "typing.cast", "cast", "inspect.signature", "inspect.iscoroutinefunction", "inspect.getsource",
    "inspect.isclass", "inspect.isfunction", "atexit.register", "weakref.ref", "weakref.finalize",
}  # fmt: skip
_PASSIVE_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "append", "extend", "add"}
_ENTERED = ("__enter__", "__exit__", "__aenter__", "__aexit__")
_MADE = ("__init__", "__new__", "__post_init__")


@dataclass
class Edges:
    """What one node does."""

    nodes: list[Node] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    #: Calls to what is outside the tree: dotted name and the call.
    outside: list[tuple[str, ast.Call]] = field(default_factory=list)


class Graph:
    """The call graph of a tree, built as it is walked."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.evaluator = Evaluator(tree)
        #: Functions that hand a parameter on as the target of a new process.
        self.forwarding: set[tuple[Function, str]] = set()
        #: Calls that start a server besides those that are known: dotted names, or those of methods.
        self.servers: set[str] = set()
        self._edges: dict[Node, Edges] = {}
        self._by_name: dict[str, Values] = {}

    def values(self, node: ast.AST | None, at: Node) -> Values:
        return self.evaluator.values(node, at[0], at[1])

    def forget(self) -> None:
        """Edges change when another forwarding function has been found."""
        self._edges.clear()

    def edges(self, node: Node) -> Edges:
        found = self._edges.get(node)
        if found is None:
            found = self._edges[node] = Edges()
            self._fill(node, found)
        return found

    def _fill(self, node: Node, into: Edges) -> None:
        function = node[0].scan()
        for statement in function.imports:
            into.modules += self._imported(statement, function.module)
        for call in function.calls:
            callees = self.values(call.func, node)
            if not callees or all(one[0] == "param" for one in callees):
                callees = self._named(call.func) or callees
            for callee in callees:
                self._reach(callee, call, into)
                if callee[0] == "fn" and callee[2] is not None and callee[1].has_decorator("abstractmethod"):
                    name = callee[1].name.rpartition(".")[2]
                    for other in self.subclasses(callee[2]):
                        self._method(other, name, into)
            into.outside += [(name, call) for name in self.server_methods(call, callees)]
            self._handed_over(call, callees, node, into)
        for expression in function.entered:
            for value in self.values(expression, node):
                if value[0] == "obj":
                    for name in _ENTERED:
                        self._method(value[1], name, into)
        for load in function.loads:
            if load.attr in self.tree.properties:
                for value in self.values(load.value, node):
                    if value[0] == "obj":
                        self._method(value[1], load.attr, into)
        self._decorated(node, into)

    def subclasses(self, klass: Class) -> list[Class]:
        """The classes of the tree that derive from one."""
        found: list[Class] = []
        waiting = [klass]
        while waiting:
            base = waiting.pop()
            for module in self.tree.derived.get(base.name.rpartition(".")[2], []):
                module.functions()  # classes inside functions as well
                for one in module.classes:
                    if one is not klass and one not in found and base in self.evaluator.mro(one)[1:]:
                        found.append(one)
                        waiting.append(one)
        return found

    def server_methods(self, call: ast.Call, callees: Values) -> list[str]:
        """The name of a call that serves by its method's name, on something that is not of the tree."""
        if not isinstance(call.func, ast.Attribute) or any(one[0] == "fn" for one in callees):
            return []
        name = call.func.attr
        return [f"?.{name}"] if name in known.SERVING_METHODS or name in self.servers else []

    def serves(self, name: str) -> bool:
        """Whether a call of this name serves."""
        return name.startswith("?.") or name in self.servers or known.starts_server(name)

    def _imported(self, statement: ast.Import | ast.ImportFrom, of: Module) -> list[Module]:
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            base = of.absolute(statement)
            names = [base, *(f"{base}.{alias.name}" for alias in statement.names)]
        found = []
        for name in names:
            parts = name.split(".")
            for count in range(1, len(parts) + 1):  # importing a.b.c runs a and a.b
                module = self.tree.find(".".join(parts[:count]), of)
                if module is not None and module is not of:
                    found.append(module)
        return found

    def _reach(self, callee: Value, call: ast.Call | None, into: Edges) -> None:
        kind = callee[0]
        if kind == "fn":
            into.nodes.append((callee[1], callee[2]))
        elif kind == "partial":
            self._reach(callee[1], call, into)
        elif kind == "cls":
            for name in _MADE:
                self._method(callee[1], name, into, call)
        elif kind == "obj":
            self._method(callee[1], "__call__", into, call)
        elif kind == "ext" and call is not None:
            into.outside.append((callee[1], call))

    def _method(self, klass: Class, name: str, into: Edges, call: ast.Call | None = None) -> None:
        line = self.evaluator.mro(klass)
        for value in self.evaluator.member(
            [one for one in line if isinstance(one, Class)], name, klass, False
        ):
            if value[0] == "fn":
                into.nodes.append((value[1], klass))
        if call is not None and name == "__call__":
            into.outside += [(f"{one}()()", call) for one in line if isinstance(one, str)]

    def _named(self, func: ast.expr) -> Values:
        """A method of unknown self, if one class alone has a method of that name."""
        if not isinstance(func, ast.Attribute) or func.attr in _COMMON or func.attr.startswith("__"):
            return NONE
        known = self._by_name.get(func.attr)
        if known is None:
            modules = self.tree.defined.get(func.attr, [])
            found: list[Function] = []
            if len(modules) == 1:
                found = [
                    one
                    for one in modules[0].functions()
                    if one.owner is not None and one.name.rpartition(".")[2] == func.attr
                ]
            known = frozenset({("fn", found[0], found[0].owner)}) if len(found) == 1 else NONE
            self._by_name[func.attr] = known
        return known

    def _handed_over(self, call: ast.Call, callees: Values, node: Node, into: Edges) -> None:
        """Functions given as arguments may be called, but for those that another process will run."""
        names = {one[1] for one in callees if one[0] == "ext"}
        if names & _PASSIVE or (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in _PASSIVE_METHODS
            and not any(one[0] == "fn" for one in callees)
        ):
            return
        elsewhere = {id(one) for one in self.spawned(call, callees)}
        if names and any(known.runs_elsewhere(name) for name in names):
            return
        for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
            if id(argument) in elsewhere:
                continue
            if isinstance(argument, (ast.Name, ast.Attribute, ast.Lambda, ast.Call, ast.List, ast.Tuple)):
                for value in self.values(argument, node):
                    for one in value[1] if value[0] == "many" else (value,):
                        # A class or an object that is handed over is used; by which methods, nobody knows.
                        if one[0] in ("fn", "partial", "cls"):
                            self._reach(one, call, into)
                        elif one[0] == "ext" and not isinstance(argument, ast.Call):
                            into.outside.append((one[1], call))

    def spawned(self, call: ast.Call, callees: Iterable[Value]) -> list[ast.expr]:
        """The arguments of a call that name what a new process runs."""
        found = known.process_arguments(call, {one[1] for one in callees if one[0] == "ext"})
        for callee in callees:
            if callee[0] == "cls":
                outside = {one for one in self.evaluator.mro(callee[1]) if isinstance(one, str)}
                found += known.process_arguments(call, outside)
            inner = callee[1] if callee[0] == "partial" else callee
            if inner[0] == "fn":
                for name in {name for function, name in self.forwarding if function is inner[1]}:
                    argument = argument_of(inner[1], call, name)
                    if argument is not None:
                        found.append(argument)
        return found

    def _decorated(self, node: Node, into: Edges) -> None:
        """A decorator of the tree ran, and what it returned runs instead of the function."""
        function = node[0]
        scope = function.outer or function
        for decorator in function.decorators:
            for value in self.evaluator.values(decorator, scope, node[1]):
                if value[0] == "fn":
                    into.nodes.append((value[1], value[2]))
                    for wrapper in self.evaluator.returns(value[1], value[2]):
                        if wrapper[0] == "fn":
                            into.nodes.append((wrapper[1], wrapper[2]))
                elif value[0] == "cls":
                    self._reach(value, None, into)
                    self._method(value[1], "__call__", into)
                elif value[0] == "obj":
                    self._method(value[1], "__call__", into)

    # --- walking ----------------------------------------------------------------------
    def walk(self, starts: Iterable[Node], bodies: bool, until: frozenset[str] = frozenset()) -> Walk:
        """Everything that can run from some nodes.

        Args:
            bodies: the bodies of the modules that are imported on the way as well.
            until: stop when all of these dotted names have been reached.
        """
        walk = Walk()
        left = set(until)
        waiting: deque[Node] = deque()
        imported: deque[Node] = deque()  # after all else: a large tree imports nearly all of itself

        def reach(node: Node, parent: Node | None, into: deque[Node]) -> None:
            if node not in walk.parents:
                walk.parents[node] = parent
                into.append(node)
                left.discard(f"{node[0].module.name}.{node[0].name}")

        for start in starts:
            reach(start, None, waiting)
        while waiting or imported:
            node = waiting.popleft() if waiting else imported.popleft()
            edges = self.edges(node)
            for name, call in edges.outside:
                if name not in walk.outside:
                    walk.outside[name] = (node, call)
                    left.discard(name)
            for following in edges.nodes:
                reach(following, node, waiting)
            if until and not left:
                break
            if bodies:
                for module in edges.modules:
                    reach((module.read().body, None), node, imported)
        return walk


class Walk:
    """What was reached, and by which way."""

    def __init__(self) -> None:
        self.parents: dict[Node, Node | None] = {}
        #: Dotted name of a call to the outside -> where it was met first.
        self.outside: dict[str, tuple[Node, ast.Call]] = {}

    def way(self, node: Node) -> list[Node]:
        found: list[Node] = []
        at: Node | None = node
        while at is not None:
            found.append(at)
            at = self.parents[at]
        return found[::-1]

    def labels(self) -> set[str]:
        """Dotted names of the functions reached."""
        return {f"{function.module.name}.{function.name}" for function, _ in self.parents}


def argument_of(function: Function, call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives for a parameter of a function."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    arguments = function.arguments
    if arguments is None:
        return None
    names = [one.arg for one in arguments.posonlyargs + arguments.args]
    if name not in names:
        return None
    place = names.index(name)
    if function.owner is not None and not function.has_decorator("staticmethod"):
        place -= 1  # self or cls; ``Base.method(self, ...)`` is rare for these
    return call.args[place] if 0 <= place < len(call.args) else None
