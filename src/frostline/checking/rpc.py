"""What is called by name over an engine's RPC, by a caller that waits, must return something (A2)."""

from __future__ import annotations

import ast
from collections.abc import Callable

from frostline.checking import live
from frostline.checking.config import Config
from frostline.checking.graph import Graph
from frostline.checking.model import Finding
from frostline.checking.source import Function, Module

#: (module, first line, last line): where a comment may excuse a finding.
Anchor = tuple[Module, int, int]


class Rpc:
    """Looks at every call over an RPC.

    A name does not say whose method is meant. So a function is reported if it applies the policy
    (reaches a required call), or if the caller uses the result and no function of that name returns
    anything: what merely shares its name with another is left in peace.
    """

    def __init__(
        self, graph: Graph, config: Config, report: Callable[[Finding, list[Anchor], Module], None]
    ) -> None:
        self.graph, self.config, self.report = graph, config, report
        self.required = set(config.require + config.require_serving)

    def run(self) -> int:
        """Reports, and returns how many functions were looked at."""
        if not self.config.rpc:
            return 0
        seen: set[Function] = set()
        reported: set[Function] = set()
        words = [name.rpartition(".")[2] for name in self.config.rpc]
        for module in self.graph.tree.with_text(*words):
            for function in module.functions():
                unused: set[int] | None = None
                for call in function.calls:
                    if not self._is_rpc(call):
                        continue
                    if unused is None:
                        unused = _unused(function)
                    targets = self._targets(call, function)
                    seen.update(targets)
                    silent = [one for one in targets if _silent(one)]
                    if id(call) in unused or len(silent) < len(targets):
                        silent = [one for one in silent if self._applies(one)]
                    for target in silent:
                        if target not in reported:
                            reported.add(target)
                            self._say(target, module, call)
        return len(seen)

    def _is_rpc(self, call: ast.Call) -> bool:
        if not isinstance(call.func, ast.Attribute) or not call.args:
            return False
        name = live.dotted(call.func) or call.func.attr
        if not any(
            name == rpc or name.endswith("." + rpc) or call.func.attr == rpc for rpc in self.config.rpc
        ):
            return False
        for keyword in call.keywords:
            if keyword.arg in ("non_block", "wait", "block") and isinstance(keyword.value, ast.Constant):
                return bool(keyword.value.value) is (keyword.arg != "non_block")
        return True

    def _targets(self, call: ast.Call, function: Function) -> list[Function]:
        first = call.args[0]
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            values = self.graph.values(first, (function, function.owner))
            return [value[1] for value in values if value[0] == "fn"]
        found = []
        for module in self.graph.tree.defined.get(first.value, []):
            found += [
                one
                for one in module.functions()
                if one is not function
                and one.name.rpartition(".")[2] == first.value
                and not _is_abstract(one)
            ]
        return found

    def _applies(self, function: Function) -> bool:
        walk = self.graph.walk([(function, function.owner)], bodies=False)
        return bool(self.required & (set(walk.outside) | walk.labels()))

    def _say(self, target: Function, module: Module, call: ast.Call) -> None:
        place = f"{module.shown}:{call.lineno}"
        finding = Finding(
            "returns-nothing", target.module.shown, target.line, target.label,
            f"{target.label} is called over an RPC that waits ({place}) and returns nothing",
        )  # fmt: skip
        first = min([target.line, *(one.lineno for one in target.decorators)])
        anchors = [
            (target.module, first, target.line), (module, call.lineno, call.end_lineno or call.lineno),
        ]  # fmt: skip
        self.report(finding, anchors, target.module)


def _unused(function: Function) -> set[int]:
    """The calls whose result nobody looks at here: a statement, or handed on by return."""
    found: set[int] = set()
    for statement, _ in live.statements(function.body):
        if isinstance(statement, (ast.Expr, ast.Return)):
            value = statement.value
            if isinstance(value, ast.Await):
                value = value.value
            found.add(id(value))
    return found


def _silent(function: Function) -> bool:
    return function.scan().nothing_returned


def _is_abstract(function: Function) -> bool:
    if any(
        live.dotted(one).rpartition(".")[2] in ("abstractmethod", "overload") for one in function.decorators
    ):
        return True
    if isinstance(function.node, ast.Lambda):
        return False
    body = [
        one
        for one in function.body
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    return not body or isinstance(body[0], ast.Raise)
