"""What an expression may be: functions, classes, instances and modules, followed through names."""

from __future__ import annotations

import ast
from typing import Any

from frostline.checking import live
from frostline.checking.source import Class, Function, Module
from frostline.checking.tree import Tree

#: ("fn", Function, class of self or None) | ("cls", Class) | ("obj", Class) | ("mod", Module)
#: | ("ext", dotted name) | ("param", Function, name) | ("super", Class, class of self)
#: | ("partial", value) | ("many", values)
Value = tuple[Any, ...]
Values = frozenset[Value]
NONE: Values = frozenset()
_DEPTH = 40
#: Evaluations for one question: a tree made to be costly gets "not known".
_BUDGET = 20_000
_THROUGH = {
    "Optional",
    "Union",
    "Annotated",
    "Final",
    "ClassVar",
    "Awaitable",
    "Coroutine",
    "Type",
    "Required",
}


class Evaluator:
    """Evaluates expressions of a tree; each result is kept."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._known: dict[tuple[int, int], Values] = {}
        self._kept: list[ast.AST] = []  # an id is unique only while its node lives
        self._running: set[tuple[int, int]] = set()
        self._cuts = 0
        self._spent = 0
        self._depth = 0
        self._mros: dict[Class, list[Class | str]] = {}
        #: Packages outside the tree whose names a star import may bring: those of the calls looked for.
        self.star_roots: tuple[str, ...] = ()

    # --- expressions ----------------------------------------------------------------
    def values(self, node: ast.AST | None, function: Function, context: Class | None) -> Values:
        """Everything that an expression may be, as far as it can be followed."""
        if node is None:
            return NONE
        key = id(node), id(context)
        found = self._known.get(key)
        if found is not None:
            return found
        if not self._depth:
            self._spent = 0
        if key in self._running or self._depth > _DEPTH or self._spent > _BUDGET:
            self._cuts += 1
            return NONE
        self._running.add(key)
        self._depth += 1
        self._spent += 1
        cuts = self._cuts
        try:
            found = self._evaluate(node, function, context)
        finally:
            self._depth -= 1
            self._running.discard(key)
        if self._cuts == cuts or not self._depth:
            self._known[key] = found
            self._kept.append(node)
        return found

    def _evaluate(self, node: ast.AST, function: Function, context: Class | None) -> Values:
        if isinstance(node, ast.Name):
            return self.name(node.id, function, context)
        if isinstance(node, ast.Attribute):
            return self._each(
                self.values(node.value, function, context), lambda v: self.attribute(v, node.attr, context)
            )
        if isinstance(node, ast.Call):
            return self._called(node, function, context)
        if isinstance(node, ast.Lambda):
            made = self._lambda(node, function)
            return frozenset({("fn", made, context)}) if made else NONE
        if isinstance(node, (ast.Await, ast.NamedExpr, ast.Starred)):
            return self.values(node.value, function, context)
        if isinstance(node, ast.IfExp):
            return self.values(node.body, function, context) | self.values(node.orelse, function, context)
        if isinstance(node, ast.BoolOp):
            return self._union(self.values(one, function, context) for one in node.values)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return frozenset({("many", self._union(self.values(e, function, context) for e in node.elts))})
        if isinstance(node, ast.Dict):
            return frozenset({("many", self._union(self.values(e, function, context) for e in node.values))})
        if isinstance(node, ast.Subscript):
            return self._elements(self.values(node.value, function, context))
        return NONE

    def _lambda(self, node: ast.Lambda, function: Function) -> Function | None:
        scope: Function | None = function
        while scope is not None:
            if id(node) in scope.scan().lambdas:
                return scope.lambdas[id(node)]
            scope = scope.outer
        return None

    @staticmethod
    def _union(parts: Any) -> Values:
        found: set[Value] = set()
        for part in parts:
            found |= part
        return frozenset(found)

    def _each(self, values: Values, follow: Any) -> Values:
        return self._union(follow(value) for value in values)

    def _elements(self, values: Values) -> Values:
        found: set[Value] = set()
        for value in values:
            if value[0] == "many":
                found |= value[1]
            elif value[0] in ("cls", "ext"):
                found.add(value)  # Generic[T], list[Base]
        return frozenset(found)

    # --- names ----------------------------------------------------------------------
    def name(self, name: str, function: Function, context: Class | None) -> Values:
        """A name as a function sees it."""
        scope: Function | None = function
        while scope is not None:
            scope.scan()
            if name in scope.bindings:
                return self._bound(scope.bindings[name], scope, context)
            scope = scope.outer
        found = self._starred(function.module, name, set())
        return found if found is not None else frozenset({("ext", name)})

    def _starred(self, module: Module, name: str, seen: set[str]) -> Values | None:
        found: set[Value] = set()
        for base in module.stars:
            if base in seen:
                continue
            seen.add(base)
            other = self.tree.find(base, module)
            if other is None:
                if any(base == root or base.startswith(root + ".") for root in self.star_roots):
                    found.add(("ext", f"{base}.{name}"))
                continue
            other.read()
            if name in other.body.bindings and not name.startswith("_"):
                found |= self._bound(other.body.bindings[name], other.body, None)
            else:
                found |= self._starred(other, name, seen) or NONE
        return frozenset(found) or None

    def _bound(self, bindings: list[tuple[Any, ...]], scope: Function, context: Class | None) -> Values:
        found: set[Value] = set()
        for what in bindings:
            kind = what[0]
            if kind == "def":
                found.add(("fn", what[1], context if what[1].owner is None else what[1].owner))
            elif kind == "class":
                found.add(("cls", what[1]))
            elif kind == "import":
                found |= self.module(what[1] if what[2] else what[1].partition(".")[0], scope.module)
            elif kind == "from":
                found |= self._imported(what[1], what[2], scope.module)
            elif kind == "expr":
                found |= self.values(what[1], scope, context)
            elif kind == "iter":
                found |= self._elements(self.values(what[1], scope, context))
            elif kind == "ann":
                found |= self.annotated(what[1], scope, context)
            elif kind == "param":
                found |= self._parameter(what[1], scope, context)
        return frozenset(found)

    def _parameter(self, argument: ast.arg, scope: Function, context: Class | None) -> Values:
        arguments = scope.arguments
        assert arguments is not None
        positional = arguments.posonlyargs + arguments.args
        first = bool(positional) and positional[0] is argument
        if scope.owner is not None and first and not scope.has_decorator("staticmethod"):
            of_class = scope.has_decorator("classmethod") or scope.name.endswith(".__new__")
            return frozenset({("cls" if of_class else "obj", context or scope.owner)})
        found: set[Value] = {("param", scope, argument.arg)}
        found |= self.annotated(argument.annotation, scope.outer or scope, context)
        defaults = dict(
            zip([a.arg for a in reversed(positional)], reversed(arguments.defaults), strict=False)
        )
        default = defaults.get(argument.arg)
        if default is None and argument in arguments.kwonlyargs:
            default = arguments.kw_defaults[arguments.kwonlyargs.index(argument)]
        if default is not None and not isinstance(default, ast.Constant):
            found |= self.values(default, scope.outer or scope, context)
        return frozenset(found)

    def module(self, dotted: str, of: Module) -> Values:
        found = self.tree.find(dotted, of)
        if found is None:
            return frozenset({("ext", dotted)})
        return frozenset({("mod", found.read())})

    def _imported(self, base: str, name: str, of: Module) -> Values:
        module = self.tree.find(base, of)
        if module is None:
            inner = self.tree.find(f"{base}.{name}" if base else name, of)
            if inner is not None:
                return frozenset({("mod", inner.read())})
            return frozenset({("ext", f"{base}.{name}" if base else name)})
        return self._member(module, name)

    def _member(self, module: Module, name: str) -> Values:
        module.read()
        key = id(module), hash(name)
        if key in self._running:
            self._cuts += 1
            return NONE
        self._running.add(key)
        try:
            if name in module.body.bindings:
                found = self._bound(module.body.bindings[name], module.body, None)
                if found:
                    return found
            inner = self.tree.find(f"{module.place}.{name}")
            if inner is not None and inner is not module:
                return frozenset({("mod", inner.read())})
            starred = self._starred(module, name, set())
            return starred if starred is not None else frozenset({("ext", f"{module.name}.{name}")})
        finally:
            self._running.discard(key)

    # --- attributes -----------------------------------------------------------------
    def attribute(self, value: Value, name: str, context: Class | None) -> Values:
        kind = value[0]
        if kind == "mod":
            return self._member(value[1], name)
        if kind == "ext":
            whole = f"{value[1]}.{name}"
            inner = self.tree.find(whole) if "(" not in whole else None
            return frozenset({("mod", inner.read())}) if inner else frozenset({("ext", whole)})
        if kind == "obj":
            return self.member(self.mro(value[1]), name, value[1], True)
        if kind == "cls":
            of = context if context and value[1] in self.mro(context) else value[1]
            return self.member(self.mro(value[1]), name, of, False)
        if kind == "super":
            line = self.mro(value[2])
            after = line[line.index(value[1]) + 1 :] if value[1] in line else []
            return self.member(after, name, value[2], True)
        return NONE

    def member(self, line: list[Class | str], name: str, of: Class, instance: bool) -> Values:
        """A class's attribute by its MRO; what instances are given in methods as well."""
        found: set[Value] = set()
        for klass in line:
            if isinstance(klass, str):
                if klass != "object" and not found:
                    found.add(("ext", f"{klass}().{name}" if instance else f"{klass}.{name}"))
                continue
            if instance:
                for expression, annotation, method in klass.attributes.get(name, ()):
                    if annotation:
                        found |= self.annotated(expression, method, of)
                    else:
                        found |= self.values(expression, method, of)
            if name in klass.bindings:
                for value in self._bound(klass.bindings[name], klass.outer, of):
                    if value[0] == "fn" and value[1].owner is klass:
                        value = ("fn", value[1], of)
                        if instance and value[1].has_decorator("property", "cached_property"):
                            found |= self.returns(value[1], of)
                            continue
                    found.add(value)
                break
        return frozenset(found)

    def mro(self, klass: Class) -> list[Class | str]:
        """A class, then its bases in the order of look-up; those outside the tree by name."""
        known = self._mros.get(klass)
        if known is not None:
            return known
        self._mros[klass] = [klass]  # for a class that is its own base
        lines: list[list[Class | str]] = []
        for base in klass.node.bases:
            for value in sorted(self.values(base, klass.outer, None), key=lambda v: v[0]):
                if value[0] == "cls" and value[1] is not klass:
                    lines.append(list(self.mro(value[1])))
                elif value[0] == "ext":
                    lines.append([value[1]])
        lines.append([line[0] for line in lines])
        merged: list[Class | str] = [klass]
        while any(lines):
            lines = [line for line in lines if line]
            heads = [line[0] for line in lines if not any(line[0] in other[1:] for other in lines)]
            head = heads[0] if heads else lines[0][0]
            merged.append(head)
            lines = [[one for one in line if one != head] for line in lines]
        self._mros[klass] = merged
        return merged

    # --- calls ----------------------------------------------------------------------
    def _called(self, node: ast.Call, function: Function, context: Class | None) -> Values:
        found: set[Value] = set()
        for value in self.values(node.func, function, context):
            found |= self.result(value, node, function, context)
        return frozenset(found)

    def result(self, value: Value, node: ast.Call, function: Function, context: Class | None) -> Values:
        """What calling a value gives."""
        kind = value[0]
        if kind == "cls":
            return frozenset({("obj", value[1])})
        if kind == "fn":
            return self.returns(value[1], value[2])
        if kind == "partial":
            return self.result(value[1], node, function, context)
        if kind == "obj":
            return self._union(
                self.returns(one[1], one[2])
                for one in self.member(self.mro(value[1]), "__call__", value[1], True)
                if one[0] == "fn"
            )
        if kind != "ext":
            return NONE
        name, arguments = value[1], node.args
        if name == "super":
            return self._super(arguments, function, context)
        if name == "getattr" and len(arguments) >= 2 and _text(arguments[1]):
            base = self.values(arguments[0], function, context)
            return self._each(base, lambda v: self.attribute(v, _text(arguments[1]), context))
        if name in ("importlib.import_module", "__import__") and arguments and _text(arguments[0]):
            return self.module(_text(arguments[0]), function.module)
        if name in ("functools.partial", "functools.partialmethod") and arguments:
            return frozenset(("partial", one) for one in self.values(arguments[0], function, context))
        if name in ("typing.cast", "cast") and len(arguments) == 2:
            return self.annotated(arguments[0], function, context) | self.values(
                arguments[1], function, context
            )
        return frozenset({("ext", f"{name}()")}) if name.count("()") < 4 else NONE

    def _super(self, arguments: list[ast.expr], function: Function, context: Class | None) -> Values:
        if arguments:
            named = [v[1] for v in self.values(arguments[0], function, None) if v[0] == "cls"]
            return frozenset(("super", one, context or one) for one in named)
        scope: Function | None = function
        while scope is not None and scope.owner is None:
            scope = scope.outer
        if scope is None or scope.owner is None:
            return NONE
        return frozenset({("super", scope.owner, context or scope.owner)})

    def returns(self, function: Function, context: Class | None) -> Values:
        """What a function gives: by its annotation, else by what it returns or yields."""
        node = function.scan().node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
            found = self.annotated(node.returns, function.outer or function, context)
            if any(value[0] in ("obj", "many") for value in found):
                return found
        return self._union(self.values(one, function, context) for one in function.returned)

    def annotated(self, node: ast.AST | None, function: Function, context: Class | None) -> Values:
        """The instances that an annotation speaks of."""
        if node is None or self._depth > _DEPTH:
            return NONE
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return NONE
            self._kept.append(node)
        if isinstance(node, ast.BinOp):
            return self.annotated(node.left, function, context) | self.annotated(
                node.right, function, context
            )
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            inner = self._union(self.annotated(part, function, context) for part in parts)
            if live.dotted(node.value).rpartition(".")[2] in _THROUGH:
                return inner
            own = self.annotated(node.value, function, context)
            return own | (frozenset({("many", inner)}) if inner else NONE)
        if isinstance(node, ast.Name) and node.id == "Self" and context is not None:
            return frozenset({("obj", context)})
        found: set[Value] = set()
        if isinstance(node, (ast.Name, ast.Attribute)):
            for value in self.values(node, function, context):
                if value[0] == "cls":
                    found.add(("obj", value[1]))
                elif value[0] == "ext" and "." in value[1]:
                    found.add(("ext", f"{value[1]}()"))
        return frozenset(found)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
