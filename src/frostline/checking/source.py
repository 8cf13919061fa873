"""One file of source as functions and classes, read when they are first needed."""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from io import BytesIO
from pathlib import Path

from frostline.checking import known, live

_OK = re.compile(r"#\s*frostline:\s*ok\b[ \t]*(.*)")

#: name -> what it may be: (kind, payload ...), see `Scope.bind`.
Bindings = dict[str, list[tuple[object, ...]]]


class Function:
    """A function, a lambda, a module's body, or what stands under its main guard."""

    def __init__(
        self,
        module: Module,
        name: str,
        node: ast.AST,
        body: list[ast.stmt],
        outer: Function | None,
        owner: Class | None = None,
    ) -> None:
        self.module, self.name, self.node, self.body = module, name, node, body
        self.outer, self.owner = outer, owner
        self.line: int = getattr(node, "lineno", 1)
        self.bindings: Bindings = {}
        self.calls: list[ast.Call] = []
        self.loads: list[ast.Attribute] = []
        self.returned: list[ast.expr] = []
        self.entered: list[ast.expr] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.inner: list[Function] = []
        self.lambdas: dict[int, Function] = {}
        self.nothing_returned = True
        self._scanned = False

    @property
    def arguments(self) -> ast.arguments | None:
        found = getattr(self.node, "args", None)
        return found if isinstance(found, ast.arguments) else None

    @property
    def decorators(self) -> list[ast.expr]:
        return list(getattr(self.node, "decorator_list", []))

    def has_decorator(self, *names: str) -> bool:
        """Whether a decorator's last name is one of these."""
        return any(live.dotted(one).rpartition(".")[2] in names for one in self.decorators)

    @property
    def label(self) -> str:
        return f"{self.module.name}:{self.name}"

    def scan(self) -> Function:
        """Reads the body once."""
        if not self._scanned:
            self._scanned = True
            _Scan(self).run()
        return self


class Class:
    """A class; its body's names, and what its methods assign to ``self``."""

    def __init__(self, module: Module, name: str, node: ast.ClassDef, outer: Function) -> None:
        self.module, self.name, self.node, self.outer = module, name, node, outer
        self.line = node.lineno
        self.bindings: Bindings = {}
        self.methods: list[Function] = []
        self._attributes: dict[str, list[tuple[ast.expr, bool, Function]]] | None = None

    @property
    def label(self) -> str:
        return f"{self.module.name}:{self.name}"

    @property
    def attributes(self) -> dict[str, list[tuple[ast.expr, bool, Function]]]:
        """Attribute -> (expression, whether it is an annotation, the method that assigns it)."""
        if self._attributes is None:
            self._attributes = {}
            for method in self.methods:
                arguments = method.arguments
                if arguments is None or not (arguments.posonlyargs or arguments.args):
                    continue
                first = (arguments.posonlyargs + arguments.args)[0].arg
                for statement, _ in live.statements(method.body):
                    self._assigned(statement, first, method)
        return self._attributes

    def _assigned(self, statement: ast.stmt, first: str, method: Function) -> None:
        assert self._attributes is not None
        if isinstance(statement, ast.Assign):
            pairs = [(target, statement.value, False) for target in statement.targets]
        elif isinstance(statement, ast.AnnAssign):
            pairs = [(statement.target, statement.annotation, True)]
            if statement.value is not None:
                pairs.append((statement.target, statement.value, False))
        else:
            return
        for target, value, annotation in pairs:
            holder = target.value if isinstance(target, ast.Attribute) else None
            if isinstance(holder, ast.Name) and holder.id == first:
                assert isinstance(target, ast.Attribute)
                self._attributes.setdefault(target.attr, []).append((value, annotation, method))


class _Scan:
    """One pass over a function's live statements."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.module = function.module
        self._global: set[str] = set()

    def run(self) -> None:
        function = self.function
        arguments = function.arguments
        if arguments is not None:
            for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                function.bindings[one.arg] = [("param", one)]
            for variadic in (arguments.vararg, arguments.kwarg):
                if variadic is not None:
                    function.bindings[variadic.arg] = [("nothing",)]
        if isinstance(function.node, ast.Lambda):
            statement = ast.copy_location(ast.Return(function.node.body), function.node)
            self._body([statement], function.bindings, None)
        else:
            self._body(function.body, function.bindings, None)

    def _body(self, body: list[ast.stmt], into: Bindings, owner: Class | None) -> None:
        # Names of a module are bound in order: a later def hides an import. In a function any may hold.
        ordered = self.function.outer is None
        for statement, conditional in live.statements(body):
            self._statement(statement, into, owner, ordered and not conditional)

    def _statement(self, statement: ast.stmt, into: Bindings, owner: Class | None, replace: bool) -> None:
        function = self.function
        fresh: set[str] = set()
        if isinstance(statement, ast.Global):
            self._global.update(statement.names)

        def bind(name: str, *what: object) -> None:
            if name in self._global:
                self.module.body.bindings.setdefault(name, []).append(what)
                return
            if replace and name not in fresh:
                into[name] = []
                fresh.add(name)
            into.setdefault(name, []).append(what)

        prefix = f"{owner.name}." if owner else _prefix(function)
        for node in live.expressions(statement):
            if isinstance(node, ast.Call):
                function.calls.append(node)
            elif isinstance(node, ast.Attribute):
                function.loads.append(node)
            elif isinstance(node, ast.Lambda):
                made = Function(self.module, f"{prefix}<lambda>", node, [], function)
                function.lambdas[id(node)] = made
                function.inner.append(made)
            elif isinstance(node, ast.comprehension) and isinstance(node.target, ast.Name):
                into.setdefault(node.target.id, []).append(("iter", node.iter))
            elif isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
                bind(node.target.id, "expr", node.value)
            elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                function.nothing_returned = False
                if isinstance(node, ast.Yield) and node.value is not None:
                    function.returned.append(node.value)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            made = Function(self.module, prefix + statement.name, statement, statement.body, function, owner)
            function.inner.append(made)
            if owner is not None:
                owner.methods.append(made)
            bind(statement.name, "def", made)
        elif isinstance(statement, ast.ClassDef):
            klass = Class(self.module, prefix + statement.name, statement, function)
            self.module.classes.append(klass)
            bind(statement.name, "class", klass)
            self._body(statement.body, klass.bindings, klass)
        elif isinstance(statement, ast.Import):
            function.imports.append(statement)
            for alias in statement.names:
                bind(alias.asname or alias.name.partition(".")[0], "import", alias.name, bool(alias.asname))
        elif isinstance(statement, ast.ImportFrom):
            function.imports.append(statement)
            base = self.module.absolute(statement)
            for alias in statement.names:
                if alias.name == "*":
                    self.module.stars.append(base)
                else:
                    bind(alias.asname or alias.name, "from", base, alias.name)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._target(target, statement.value, bind)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            bind(statement.target.id, "ann", statement.annotation)
            if statement.value is not None:
                bind(statement.target.id, "expr", statement.value)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                function.entered.append(item.context_expr)
                if isinstance(item.optional_vars, ast.Name):
                    bind(item.optional_vars.id, "expr", item.context_expr)
        elif isinstance(statement, (ast.For, ast.AsyncFor)) and isinstance(statement.target, ast.Name):
            bind(statement.target.id, "iter", statement.iter)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            function.returned.append(statement.value)
            constant = isinstance(statement.value, ast.Constant) and statement.value.value is None
            function.nothing_returned &= constant
        elif isinstance(statement, ast.Delete):
            for gone in statement.targets:
                if isinstance(gone, ast.Name) and replace:
                    into[gone.id] = [("nothing",)]

    def _target(self, target: ast.expr, value: ast.expr, bind: object) -> None:
        assert callable(bind)
        if isinstance(target, ast.Name):
            bind(target.id, "expr", value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            for place, one in enumerate(target.elts):
                if isinstance(one, ast.Name) and len(parts) == len(target.elts):
                    bind(one.id, "expr", parts[place])
                elif isinstance(one, ast.Name):
                    bind(one.id, "iter", value)


def _prefix(function: Function) -> str:
    return "" if function.outer is None or function.name == "<main>" else f"{function.name}.<locals>."


class Module:
    """One file."""

    def __init__(self, name: str, place: str, path: Path, shown: str, is_package: bool, text: bytes) -> None:
        self.name, self.path, self.shown, self.is_package, self.text = name, path, shown, is_package, text
        #: The name by folders alone, packages or not: relative imports count from it.
        self.place = place
        self.classes: list[Class] = []
        self.stars: list[str] = []
        self.body = Function(self, "<module>", ast.Module([], []), [], None)
        self.main: Function | None = None
        self.excuses = _excuses(text)
        self.used_excuses: set[int] = set()
        self.problem = ""
        self._read = False
        self._call_names: set[str] | None = None

    @property
    def call_names(self) -> set[str]:
        """Last names of calls that the entries are found by."""
        if self._call_names is None:
            self._call_names = known.call_names(self.text)
        return self._call_names

    def read(self) -> Module:
        """Parses the file once; ``problem`` says why it could not be."""
        if self._read:
            return self
        self._read = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in the checked code
                parsed = ast.parse(self.text, str(self.path))
            self.body.node, self.body.body = parsed, parsed.body
            self.body.scan()
            guarded = [one for block in live.main_blocks(parsed.body) for one in block.body]
            if guarded:
                at = live.main_blocks(parsed.body)[0]
                self.main = Function(self, "<main>", at, guarded, self.body).scan()
            if b"global " in self.text:
                self.functions()  # they may bind names of the module
        except (SyntaxError, ValueError, LookupError) as error:
            self.problem = f"it is no Python that {_version()} can read: {error}".split("(<")[0].strip()
        except (RecursionError, MemoryError):
            self.problem = "it is nested too deeply to be read"
        return self

    def absolute(self, statement: ast.ImportFrom) -> str:
        """The module that an import names, relative ones resolved."""
        if not statement.level:
            return statement.module or ""
        parts = self.place.split(".")
        keep = len(parts) - statement.level + (1 if self.is_package else 0)
        base = parts[: max(keep, 0)]
        return ".".join([*base, statement.module] if statement.module else base)

    def functions(self) -> list[Function]:
        """Every function of the module, its body and main block first."""
        self.read()
        found = [self.body] + ([self.main] if self.main else [])
        at = 0
        while at < len(found):
            found += found[at].scan().inner
            at += 1
        return found


def _version() -> str:
    import sys

    return f"CPython {sys.version_info[0]}.{sys.version_info[1]}"


def _excuses(text: bytes) -> dict[int, str]:
    """Line -> reason of each ``# frostline: ok``; in comments only, not in strings."""
    if b"frostline:" not in text:
        return {}
    found: dict[int, str] = {}
    try:
        for token in tokenize.tokenize(BytesIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _OK.search(token.string)):
                found[token.start[0]] = match.group(1).strip()
    except (tokenize.TokenError, SyntaxError, ValueError, LookupError):
        pass
    return found
