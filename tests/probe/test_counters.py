"""``gc.get_count`` is asked in few places, none of them a poll (case 35), and never on a free-threaded build.

Between two passes the counters tell little that the passes do not, and whoever polls them wakes for it. So a
new place has to say here why it is no poll.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.test_architecture import IN_TARGET, ROOT

#: File and function -> why it is no poll.
ALLOWED = {
    ("agent/promotions.py", "_make_callback"): "in the callback, at the end of a pass",
    (
        "agent/startup.py",
        "start",
    ): "at each import's beginning and end, under `frostline startup`",
    ("heap/audit.py", "audit"): "in an interpreter of our own (doctor --self)",
    ("policy/following.py", "make_callback"): "in the callback, at the end of a pass",
    (
        "policy/keeping.py",
        "Idle.due",
    ): "once a moment in which the program is idle",
    ("probe/callback.py", "make_hot_functions"): "in the callback, at the beginning of a pass",
    ("probe/hooks.py", "_Freeze.__call__"): "once a gc.freeze() of the program's",
    (
        "probe/recorder.py",
        "Recorder._state",
    ): "once as a recording begins (in a forked child too) and ends",
}


def asked(path: Path) -> set[str]:
    """The functions of a file in which the word stands, but for the text of a docstring."""
    found: set[str] = set()

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inside_function = names and names[-1].endswith("()")
            names = (
                names
                if inside_function
                else (*names, node.name + "()" * (not isinstance(node, ast.ClassDef)))
            )
        word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if isinstance(node, ast.Constant) and node.value == "get_count":  # by getattr
            word = "get_count"
        if isinstance(node, ast.ImportFrom) and any(alias.name == "get_count" for alias in node.names):
            word = "get_count"
        if word == "get_count" and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            found.add(".".join(names).replace("()", ""))
        for child in ast.iter_child_nodes(node):
            visit(child, names)

    visit(ast.parse(path.read_text()), ())
    return found


def test_nothing_polls_the_counters() -> None:
    places = {
        (str(path.relative_to(ROOT)), name)
        for package in IN_TARGET
        for path in (ROOT / package).rglob("*.py")
        for name in asked(path)
    }
    assert places == set(ALLOWED)


def test_a_place_is_found_however_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Says get_count."""\nimport gc\nfrom gc import get_count\nclass A:\n'
        "    def one(self):\n        def inner(): return gc.get_count()\n        return inner\n"
        "    def two(self): return getattr(gc, 'get_count')()\n    def three(self): return gc.get_stats()\n"
    )
    assert asked(path) == {"", "A.one", "A.two"}
