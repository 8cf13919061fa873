"""Which statements of a body can run: what stands behind a return, or under ``if False``, cannot."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_NO_RETURN = {"sys.exit", "os._exit", "exit", "quit", "os.abort", "os.execv", "os.execve", "os.execvp"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: ``elif`` chains nest: beyond this depth a statement is taken to go on.
_DEEP = 150


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an expression that is only names and attributes, else empty."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def is_main_guard(test: ast.AST) -> bool:
    """``__name__ == "__main__"``, either way round."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = [test.left, test.comparators[0]]
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def truth(test: ast.AST, depth: int = 0) -> bool | None:
    """What a condition always is; None if that depends. A main guard is false: see `main_blocks`."""
    if depth > 20:
        return None
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, (ast.Tuple, ast.List, ast.Dict, ast.Set)) and not ast.dump(test).count("Starred"):
        return bool(test.keys if isinstance(test, ast.Dict) else test.elts)
    if isinstance(test, (ast.Name, ast.Attribute)):
        name = dotted(test)
        if name.rpartition(".")[2] == "TYPE_CHECKING":
            return False
        return True if name == "__debug__" else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth(test.operand, depth + 1)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [truth(value, depth + 1) for value in test.values]
        decides = isinstance(test.op, ast.Or)
        if decides in parts:
            return decides
        return None if None in parts else not decides
    return False if is_main_guard(test) else None


def ends(statement: ast.stmt, depth: int = 0) -> bool:
    """Whether nothing after a statement of the same body can run."""
    if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return True
    if depth > _DEEP:
        return False
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return dotted(statement.value.func) in _NO_RETURN
    if isinstance(statement, ast.If):
        known = truth(statement.test)
        if known is not None:
            return _body_ends(statement.body if known else statement.orelse, depth)
        return _body_ends(statement.body, depth) and _body_ends(statement.orelse, depth)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        # ``suppress`` may swallow what is raised inside.
        raises = any(isinstance(node, ast.Raise) for node in ast.walk(statement))
        return not raises and _body_ends(statement.body, depth)
    if isinstance(statement, ast.While):
        return truth(statement.test) is True and not _breaks(statement.body)
    if isinstance(statement, ast.Match):
        wild = any(
            isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
            for case in statement.cases
        )
        return wild and all(_body_ends(case.body, depth) for case in statement.cases)
    if _is_try(statement):
        if _body_ends(statement.finalbody, depth):  # type: ignore[attr-defined]
            return True
        tried = [*statement.body, *statement.orelse]  # type: ignore[attr-defined]
        handlers = [handler.body for handler in statement.handlers]  # type: ignore[attr-defined]
        return _body_ends(tried, depth) and all(_body_ends(body, depth) for body in handlers)
    return False


def _is_try(statement: ast.AST) -> bool:
    return type(statement).__name__ in ("Try", "TryStar")  # TryStar is 3.11's


def _body_ends(body: list[ast.stmt], depth: int) -> bool:
    return any(ends(statement, depth + 1) for statement in body)


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether a loop's own ``break`` is in its body."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            waiting += node.orelse
        elif not isinstance(node, (*_SCOPES, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return False


def statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """Each statement of a scope that can run, in order, with whether it is conditional.

    Neither classes nor functions are entered.
    """
    waiting: list[tuple[list[ast.stmt], int, bool]] = [(body, 0, False)]
    while waiting:
        block, at, conditional = waiting.pop()
        if at >= len(block):
            continue
        statement = block[at]
        if not ends(statement):
            waiting.append((block, at + 1, conditional))
        yield statement, conditional
        inner: list[tuple[list[ast.stmt], bool]] = []
        if isinstance(statement, ast.If):
            known = truth(statement.test)
            if known is not False:
                inner.append((statement.body, known is None))
            if known is not True:
                inner.append((statement.orelse, known is None))
        elif isinstance(statement, ast.While):
            if truth(statement.test) is not False:
                inner.append((statement.body, True))
            inner.append((statement.orelse, True))
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            inner += [(statement.body, True), (statement.orelse, True)]
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            inner.append((statement.body, False))
        elif isinstance(statement, ast.Match):
            inner += [(case.body, True) for case in statement.cases]
        elif _is_try(statement):
            inner.append((statement.body, True))  # type: ignore[attr-defined]
            if not _body_ends(statement.body, 0):  # type: ignore[attr-defined]
                inner.append((statement.orelse, True))  # type: ignore[attr-defined]
            inner += [(handler.body, True) for handler in statement.handlers]  # type: ignore[attr-defined]
            inner.append((statement.finalbody, False))  # type: ignore[attr-defined]
        waiting += [(part, 0, conditional or maybe) for part, maybe in reversed(inner)]


def expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Every expression of a statement itself, not of its blocks, and not inside nested functions.

    A lambda and a nested function are given as such, with their decorators and defaults.
    """
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        waiting: list[ast.AST] = [*statement.decorator_list, *_defaults(statement.args)]
    elif isinstance(statement, ast.ClassDef):
        waiting = [*statement.decorator_list, *statement.bases, *statement.keywords]
    elif isinstance(statement, (ast.If, ast.While)):
        waiting = [statement.test]
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        waiting = [statement.iter]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        waiting = [item.context_expr for item in statement.items]
    elif isinstance(statement, ast.Match):
        waiting = [statement.subject, *(case.guard for case in statement.cases if case.guard is not None)]
    elif _is_try(statement):
        return
    else:
        waiting = [*ast.iter_child_nodes(statement)]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.Lambda):
            waiting += _defaults(node.args)
        elif isinstance(node, ast.BoolOp):
            stops = isinstance(node.op, ast.Or)
            for value in node.values:
                waiting.append(value)
                if truth(value) is stops:
                    break
        elif isinstance(node, ast.IfExp):
            known = truth(node.test)
            waiting.append(node.test)
            if known is not False:
                waiting.append(node.body)
            if known is not True:
                waiting.append(node.orelse)
        else:
            waiting += ast.iter_child_nodes(node)


def _defaults(arguments: ast.arguments) -> list[ast.AST]:
    return [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]


def main_blocks(body: list[ast.stmt]) -> list[ast.If]:
    """The ``if __name__ == "__main__":`` statements of a module."""
    return [
        statement
        for statement, _ in statements(body)
        if isinstance(statement, ast.If) and is_main_guard(statement.test)
    ]
