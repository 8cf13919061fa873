"""What a check says: the entry points that it found, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """A place where a process begins, or where one that serves is set up."""

    kind: str
    #: module:qualified.name
    name: str
    path: str
    line: int
    serves: bool
    #: Names from the entry to the start of the server, empty if it starts none.
    serving_path: tuple[str, ...] = ()
    #: Why it need not reach the calls; empty if it must.
    excuse: str = ""


@dataclass(frozen=True)
class Finding:
    """Something that must be put right."""

    slug: str
    path: str
    line: int
    entry: str
    message: str
    #: What the entry calls, in order, as far as it is in the tree.
    calls: tuple[str, ...] = ()
    #: Where the missing call is made, unreached from here.
    elsewhere: tuple[str, ...] = ()


@dataclass
class Result:
    """One check."""

    root: str
    files: int = 0
    parsed: int = 0
    #: Files left out: tests, unreadable, too large; each with the reason.
    skipped: list[tuple[str, str]] = field(default_factory=list)
    tests_left_out: int = 0
    #: Folders of recordings, which hold a copy of Frostline.
    sessions_left_out: int = 0
    entries: list[Entry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    #: Excused: what, and the reason given.
    excused: list[tuple[Finding, str]] = field(default_factory=list)
    #: Calls over an RPC that were looked at.
    rpc_functions: int = 0
    notes: list[str] = field(default_factory=list)
    require: tuple[str, ...] = ()
    require_serving: tuple[str, ...] = ()
