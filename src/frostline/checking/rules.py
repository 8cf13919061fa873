"""The rule that every entry reaches the calls; excuses, and what is said where one does not."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from frostline.checking.config import Config
from frostline.checking.entries import Found
from frostline.checking.frameworks import Finder
from frostline.checking.graph import Graph
from frostline.checking.known import SAME
from frostline.checking.model import Entry, Finding, Result
from frostline.checking.rpc import Anchor, Rpc
from frostline.checking.source import Module
from frostline.checking.tree import Tree
from frostline.errors import FrostlineError

_MOST = 6


def check(path: Path, config: Config) -> Result:
    """Checks a file or a folder.

    Raises:
        FrostlineError: ``no-source`` if there is nothing to check, ``bad-check-config`` if the
            configuration names an entry that is not there.
    """
    if not path.exists():
        raise FrostlineError(
            "no-source", f"there is no {path}", "Name a folder or a file of Python source.", 2
        )
    tree = Tree(path.resolve(), config.tests)
    if not tree.modules:
        raise FrostlineError(
            "no-source", f"{path} holds no Python source", "Name the folder of your package.", 2
        )
    return _Check(tree, config).run(path)


class _Check:
    def __init__(self, tree: Tree, config: Config) -> None:
        self.tree, self.config = tree, config
        self.graph = Graph(tree)
        self.graph.evaluator.star_roots = tuple(
            {name.split(".")[0] for name in config.require + config.require_serving} | {"multiprocessing"}
        )
        self.graph.servers = set(config.servers)
        self.finder = Finder(self.graph)
        self.result = Result(str(tree.root), require=config.require, require_serving=config.require_serving)
        self._places: dict[str, list[str]] = {}
        self._used: set[int] = set()

    def run(self, path: Path) -> Result:
        result = self.result
        entries = self.finder.run(self.config.scripts)
        entries += self._added(entries)
        failed: dict[int, bool] = {}
        # What differs from another only by its class comes after that one.
        for found in sorted(
            entries, key=lambda one: (one.variant_of is not None, one.module.shown, one.line)
        ):
            base = found.variant_of
            if base is not None and failed.get(id(base), False):
                continue  # one cause, said once
            failed[id(found)] = self._entry(found)
        self.result.rpc_functions = Rpc(self.graph, self.config, self._report).run()
        result.files = len(self.tree.modules)
        for module in self.tree.modules.values():
            if module.problem:
                result.skipped.append((module.shown, module.problem))
            for line, reason in module.excuses.items():
                if not reason:
                    result.findings.append(
                        Finding(
                            "no-reason", module.shown, line, "", "`# frostline: ok` needs a reason behind it"
                        )
                    )
                elif line not in module.used_excuses:
                    result.notes.append(f"{module.shown}:{line}: excuses nothing: {reason}")
        result.parsed = sum(module._read and not module.problem for module in self.tree.modules.values())
        result.skipped += self.tree.skipped
        result.tests_left_out = self.tree.tests_left_out
        result.sessions_left_out = self.tree.sessions_left_out
        result.notes += self.finder.notes
        for excuse in self.config.excuses:
            if id(excuse) not in self._used:
                result.notes.append(f"excuse {excuse.entry or excuse.path!r} is not needed: {excuse.reason}")
        result.findings.sort(key=lambda one: (one.path, one.line))
        result.entries.sort(key=lambda one: (one.path, one.line))
        return result

    def _added(self, entries: list[Found]) -> list[Found]:
        made = []
        for added in self.config.entries:
            same = [one for one in entries if one.label.split(" (")[0] == added.entry]
            if same:
                for one in same:
                    one.serves |= added.serves
                continue
            module_name, _, qualified = added.entry.partition(":")
            module = self.tree.find(module_name)
            if module is None and self.config.source and Path(self.config.source).parent != self.tree.root:
                self.result.notes.append(f"{added.entry} is not below {self.tree.root}")
                continue
            nodes = self.finder.named(module, qualified) if module is not None else []
            if not nodes:
                raise FrostlineError(
                    "bad-check-config",
                    f"{self.config.source}: entries: there is no function {added.entry} in {self.tree.root}",
                    "Correct the name, or leave the entry out.",
                    exit_code=2,
                )
            for node in nodes:
                found = self.finder._of_function("configured", node[0], node[1])
                found.serves = added.serves
                made.append(found)
        return made

    # --- the calls that must be reached -----------------------------------------------
    def _entry(self, found: Found) -> bool:
        """Checks one entry; whether a call is missing in it."""
        way = self.finder.serving(found)
        serves = found.serves or bool(way)
        wanted = self.config.require + (self.config.require_serving if serves else ())
        missing = self._missing(found, wanted)
        excuse = ""
        if missing:
            finding = self._finding(found, missing, way)
            excuse = self._excused(found)
            if excuse:
                self.result.excused.append((finding, excuse))
            else:
                self.result.findings.append(finding)
        if found.variant_of is None or missing:
            self.result.entries.append(
                Entry(found.kind, found.label, found.module.shown, found.line, serves, tuple(way), excuse)
            )
        return bool(missing)

    def _missing(self, found: Found, wanted: tuple[str, ...]) -> list[str]:
        possible = [name for name in wanted if self._mentioned(name) or self._mentioned(SAME.get(name, name))]
        if not possible:
            return list(wanted)  # no file speaks of them: there is nothing to walk for
        walk = self.graph.walk(found.starts, bodies=True, until=frozenset(wanted))
        reached = set(walk.outside) | walk.labels() | {found.outside}
        return [name for name in wanted if name not in reached and SAME.get(name) not in reached]

    def _mentioned(self, name: str) -> bool:
        first, last = name.partition(".")[0].encode(), name.rpartition(".")[2].encode()
        texts = [module.text for module in self.tree.modules.values()]
        return any(first in text for text in texts) and any(last in text for text in texts)

    def _made(self, name: str) -> list[str]:
        """Where a call is made in the tree, in code that can run."""
        known = self._places.get(name)
        if known is None:
            known = self._places[name] = []
            for module in self.tree.with_text(name.rpartition(".")[2]):
                if name.partition(".")[0].encode() not in module.text:
                    continue
                for function in module.functions():
                    for call in function.calls:
                        for value in self.graph.values(call.func, (function, None)):
                            inner = value[1] if value[0] == "partial" else value
                            label = inner[1] if inner[0] == "ext" else ""
                            if inner[0] == "fn":
                                label = f"{inner[1].module.name}.{inner[1].name}"
                            if label == name:
                                known.append(f"{module.shown}:{call.lineno} in {function.name}")
        return known

    def _finding(self, found: Found, missing: list[str], way: list[str]) -> Finding:
        calls = list(dict.fromkeys(way))
        if not calls and found.starts:
            node = found.starts[0]
            callees = dict.fromkeys(one.label for one, _ in self.graph.edges(node).nodes)
            calls = [found.label, *list(callees)[:_MOST]]
            if len(callees) > _MOST:
                calls.append(f"and {len(callees) - _MOST} more")
        names = " and ".join(f"{name}()" for name in missing)
        message = f"{found.kind} {found.label} never reaches {names}"
        if found.nothing:
            message = f"{found.kind} in {found.label} cannot reach {names}: {found.nothing}"
        elsewhere = [place for name in missing for place in self._made(name)]
        return Finding(
            "unreached", found.module.shown, found.line, found.label, message, tuple(calls),
            tuple(dict.fromkeys(elsewhere[:3])),
        )  # fmt: skip

    def _report(self, finding: Finding, anchors: list[Anchor], module: Module) -> None:
        """Notes a finding of another rule, unless it is excused."""
        found = Found("rpc", finding.entry, module, finding.line, [], anchors=anchors)
        reason = self._excused(found)
        if reason:
            self.result.excused.append((finding, reason))
        else:
            self.result.findings.append(finding)

    def _excused(self, found: Found) -> str:
        for module, first, last in found.anchors:
            reason = self._comment(module, first, last)
            if reason:
                return reason
        name = found.label.split(" (")[0]
        for excuse in self.config.excuses:
            if (excuse.entry and fnmatch(name, excuse.entry)) or (
                excuse.path and fnmatch(found.module.shown, excuse.path)
            ):
                self._used.add(id(excuse))
                return excuse.reason
        return ""

    @staticmethod
    def _comment(module: Module, first: int, last: int) -> str:
        for line in range(first - 1, last + 1):
            if module.excuses.get(line):
                module.used_excuses.add(line)
                return module.excuses[line]
        return ""
