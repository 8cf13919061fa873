"""Finding the processes that a framework begins; and the order in which everything is looked for."""

from __future__ import annotations

import ast
import re

from frostline.checking import known, live
from frostline.checking.entries import Found, classes_of, owner_of
from frostline.checking.graph import Node
from frostline.checking.servers import Servers
from frostline.checking.source import Class, Function, Module


class Finder(Servers):
    """Looks through a tree once."""

    _remote: list[str] | None = None

    def run(self, scripts: tuple[tuple[str, str], ...]) -> list[Found]:
        more = {name.rpartition(".")[2] for name in self.graph.servers}
        modules = [
            one
            for one in self.tree.modules.values()
            if known.WORDS.search(one.text) or any(name.encode() in one.text for name in more)
        ]
        calls = [one for module in modules for one in self._calls(module) if _interesting(*one, more)]
        while True:
            # A helper that hands its parameter on as a target makes entries of what its callers give.
            before = len(self.graph.forwarding)
            self._unknown.clear()
            for node, call in calls:
                self._process(node, call)
            for function, _ in list(self.graph.forwarding):
                for node, call in self.callers(function):
                    self._process(node, call)
            if len(self.graph.forwarding) == before:
                break
        self.graph.forget()
        self._process_classes()
        for node, call in calls:
            for name in self._outside(node, call):
                if self.graph.serves(name):
                    self.servers.setdefault(node, (name, call))
        self._scripts(scripts)
        self._mains()
        covered = self._covered()
        self._roots(covered)
        covered = self._covered()
        for node, call in calls:
            self._application(node, call, covered)
        self._decorated(modules)
        self._celery(calls)
        self._gunicorn()
        for module, line, text in sorted(set(self._unknown), key=lambda one: (one[0].shown, one[1:])):
            self.notes.append(f"{module.shown}:{line}: a process {text}")
        return list(self.found.values())

    def _application(self, node: Node, call: ast.Call, covered: set[Function]) -> None:
        """An ASGI application: its server may be a command line that the tree does not see."""
        if not known.APPLICATIONS & set(self._outside(node, call)):
            return
        function = node[0]
        handlers: list[Node] = []
        for keyword in call.keywords:
            if keyword.arg in ("lifespan", "on_startup"):
                for value in self.graph.values(keyword.value, node):
                    for one in value[1] if value[0] == "many" else (value,):
                        one = one[1] if one[0] == "partial" else one
                        if one[0] == "fn":
                            handlers.append((one[1], one[2]))
        handlers += [(one, None) for one in function.module.functions() if _on_startup(one)]
        in_body = function is function.module.body
        if function in covered or any(one[0] in covered for one in handlers) or not (in_body or handlers):
            return
        if in_body and any(self._serves_module(function.module, one) for one in self.found.values()):
            return
        start = handlers[0] if handlers else node
        found = self._of_function("ASGI application", start[0], start[1], serves=True)
        found.starts += [*handlers, node, *self._imported(function.module)]
        if not handlers:
            found.line = call.lineno
        found.anchors.append((function.module, call.lineno, call.end_lineno or call.lineno))
        self._add(found)

    def _serves_module(self, module: Module, entry: Found) -> bool:
        """Whether an entry that serves is in the module itself, and so serves its application."""
        return entry.module is module and bool(entry.serves or self.serving(entry))

    # --- frameworks ---------------------------------------------------------------------
    def _decorated(self, modules: list[Module]) -> None:
        for module in modules:
            for klass in classes_of(module):
                for decorator in klass.node.decorator_list:
                    values = self.graph.evaluator.values(decorator, klass.outer, None)
                    names = {value[1] for value in values if value[0] == "ext"}
                    if names & (known.ACTORS | known.DEPLOYMENTS):
                        serves = bool(names & known.DEPLOYMENTS)
                        self._actor(klass, "Ray deployment" if serves else "Ray actor", serves)
            for node, call in self._calls(module) if _has_word(module, "remote") else ():
                if call.args and set(self._outside(node, call)) & known.ACTORS:
                    for argument in call.args[:1]:
                        for value in self.graph.values(argument, node):
                            if value[0] == "cls":
                                self._actor(value[1], "Ray actor", False)

    def _remote_calls(self) -> list[str]:
        """Names of methods that are called as ``actor.method.remote(...)`` somewhere."""
        if self._remote is None:
            names: set[bytes] = set()
            for module in self.tree.with_text(".remote"):
                names.update(re.findall(rb"\.(\w+)\s*\.\s*(?:remote|options)\s*\(", module.text))
            self._remote = sorted(name.decode("utf-8", "replace") for name in names)
        return self._remote

    def _actor(self, klass: Class, kind: str, serves: bool) -> None:
        # Whoever holds the actor calls its methods by name; any other of them may never run in it.
        names = ["__init__", "__new__", *self._remote_calls()] + (["__call__"] if serves else [])
        line = self.graph.evaluator.mro(klass)
        starts: list[Node] = [
            (value[1], klass)
            for name in names
            for value in self.graph.evaluator.member(line, name, klass, False)
            if value[0] == "fn"
        ]
        found = Found(
            kind, klass.label, klass.module, klass.line, starts + self._imported(klass.module), serves
        )
        first = min([klass.line, *(d.lineno for d in klass.node.decorator_list)])
        found.anchors.append((klass.module, first, klass.line))
        self._add(found)

    def _celery(self, calls: list[tuple[Node, ast.Call]]) -> None:
        handlers: list[Node] = []
        for module in self.tree.with_text("worker_process_init"):
            for function in module.functions():
                for decorator in function.decorators:
                    values = self.graph.evaluator.values(decorator, function.outer or function, None)
                    if known.CELERY_SIGNALS & {value[1] for value in values if value[0] == "ext"}:
                        handlers.append((function, owner_of(function)))
            for node, call in self._calls(module):
                if known.CELERY_SIGNALS & set(self._outside(node, call)):
                    for argument in call.args[:1]:
                        for value in self.graph.values(argument, node):
                            if value[0] == "fn":
                                handlers.append((value[1], value[2]))
        for node, call in calls:
            if known.CELERY_APPS & set(self._outside(node, call)):
                starts = [*handlers, node, *self._imported(node[0].module)]
                starts += [one for handler in handlers for one in self._imported(handler[0].module)]
                found = Found("Celery application", node[0].label, node[0].module, call.lineno, starts)
                found.anchors.append((node[0].module, call.lineno, call.end_lineno or call.lineno))
                self._add(found)

    def _gunicorn(self) -> None:
        for module in self.tree.modules.values():
            if module.path.name in known.GUNICORN_FILES:
                starts = [node for hook in known.GUNICORN_HOOKS for node in self.named(module, hook)]
                found = Found(
                    "Gunicorn configuration", module.name, module, 1, starts + self._imported(module)
                )
                found.serves = True
                found.anchors.append((module, 1, 1))
                self._add(found)


def _on_startup(function: Function) -> bool:
    for decorator in function.decorators:
        if isinstance(decorator, ast.Call) and live.dotted(decorator.func).endswith(".on_event"):
            first = decorator.args[0] if decorator.args else None
            if isinstance(first, ast.Constant) and first.value == "startup":
                return True
    return False


def _has_word(module: Module, word: str) -> bool:
    return word.encode() in module.text


def _interesting(node: Node, call: ast.Call, more: set[str]) -> bool:
    """Whether a call can be one of those looked for: evaluating each call of a large tree takes minutes."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    names = node[0].module.call_names
    return (
        name in names
        or name in more
        or any(keyword.arg in ("target", "initializer", "fn") for keyword in call.keywords)
    )
