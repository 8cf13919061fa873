"""The one place where a process gets its name (A7). Pure: no imports, usable in the target too."""

#: What tells nothing about a process: never used as its name.
ANONYMOUS = frozenset(("", "python", "python3", "MainProcess", "-c", "-m", "-", "__main__"))

#: What the interpreter's own helpers run from ``-c``, by the module of multiprocessing.
_HELPERS = {
    "resource_tracker": "resource tracker",
    "forkserver": "fork server",
    "spawn": "spawned child",
}
#: Characters shown of a program in the command line.
_INLINE = 32


def process_name(
    pid: int,
    role: str = "",
    rank: "int | str | None" = None,
    title: str = "",
    multiprocessing: str = "",
    module: str = "",
    arguments: "tuple[str, ...]" = (),
    forked: bool = False,
) -> str:
    """Name of a process as everything prints it, such as ``EngineCore dp0 (pid 4711)``.

    The first of these that says something wins: the role that the program gave, the process
    title, the multiprocessing name, the module or script that runs, the command's first word.
    An integer rank is shown as ``dp<rank>``, a text as it is (``dp0-tp1``), unless the name
    already ends in it; a negative one is none. A fork that nothing of its own tells apart from its
    parent (Gunicorn without setproctitle) is its parent's ``child``.
    """
    return f"{process_role(role, rank, title, multiprocessing, module, arguments, forked)} (pid {pid})"


def process_role(
    role: str = "",
    rank: "int | str | None" = None,
    title: str = "",
    multiprocessing: str = "",
    module: str = "",
    arguments: "tuple[str, ...]" = (),
    forked: bool = False,
) -> str:
    """The name without the pid: what is the same for this process in another session."""
    command = _helper_of_multiprocessing(arguments) or (_last_part(arguments[0]) if arguments else "")
    candidates = (role, title, multiprocessing, _last_part(module), command)
    name = next((c.strip() for c in candidates if not _anonymous(c.strip())), "")
    name = name or _inline(arguments, command or "python")
    if forked and all(_anonymous(c.strip()) for c in (role, title, multiprocessing)):
        name += " child"
    shown = _rank_text(rank)
    if shown and not name.endswith(shown) and not name.endswith(f"_{shown.lstrip('dp')}"):
        name = f"{name} {shown}"
    return name


def _helper_of_multiprocessing(arguments: "tuple[str, ...]") -> str:
    """The interpreter's own helpers run from ``-c``: without this they would all be ``python``."""
    for argument in arguments[1:]:
        if argument.startswith("from multiprocessing."):
            module = argument[len("from multiprocessing.") :].split(" ", 1)[0]
            return _HELPERS.get(module, "")
    return ""


def _inline(arguments: "tuple[str, ...]", command: str) -> str:
    """``python -c "import sys ..."``: the first words of a program in the command line."""
    if "-c" not in arguments[1:-1]:
        return command
    text = " ".join(arguments[arguments.index("-c", 1) + 1].split())
    if len(text) > _INLINE:
        text = text[:_INLINE].rsplit(" ", 1)[0] + " ..."
    return f'{command} -c "{text}"'


def _anonymous(name: str) -> bool:
    return name in ANONYMOUS or (name.startswith("python3.") and name[8:].isdigit())


def _rank_text(rank: "int | str | None") -> str:
    if rank is None or rank == "":
        return ""
    if isinstance(rank, str):
        return rank
    return f"dp{rank}" if rank >= 0 else ""


def _last_part(path: str) -> str:
    """``/srv/app/main.py`` is ``main.py``; a ``__main__.py`` goes by its folder; modules stay whole."""
    parts = [part for part in path.split("/") if part]
    if len(parts) > 1 and parts[-1] in ("__main__.py", "__init__.py"):
        return parts[-2]
    return parts[-1] if parts else ""


def ranks(**of: int) -> str:
    """``ranks(dp=0, tp=1)`` is ``dp0-tp1``: the text for ``install(rank=...)`` where one number does not tell.

    Raises:
        ValueError: a rank is no whole number from 0 on.
    """
    for name, rank in of.items():
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise ValueError(f"rank {name}: a whole number from 0 on (given {rank!r})")
    return "-".join(f"{name}{rank}" for name, rank in of.items())


def means(wanted: str, name: str) -> bool:
    """Whether a process of this name is meant: ``Worker`` means ``Worker``, ``Worker dp0``, ``Worker_TP1``
    and ``worker-3``, and not ``WorkerPool``. A server's name in front may be left out: ``Worker`` means
    ``VLLM::Worker`` too. ``vllm`` is vLLM's front end, and not all that it has named.
    """
    wanted, name = wanted.lower(), name.lower()
    for one in (name, name.rpartition("::")[2]):
        rest = one[len(wanted) :]
        if one.startswith(wanted) and not rest[:1].isalpha() and not rest.startswith("::"):
            return True
    return False
