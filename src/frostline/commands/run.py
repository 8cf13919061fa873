"""``frostline run``: record a command and everything it starts."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frostline.errors import FrostlineError
from frostline.reach.start import start

if TYPE_CHECKING:
    from frostline.policy.grammar import Policy

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?$")
_SECONDS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?$", re.IGNORECASE)
_SPAN = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(=[^;=]+)?$")


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    short_help="Record a command and every Python process that it starts.",
)
@click.option("-o", "--output", metavar="DIR", help="Session folder; an existing session is joined.")
@click.option(
    "--policy",
    envvar="FROSTLINE_POLICY",
    help="freeze, follow, tune:T0,T1,T2, ...: see `frostline explain policies`. Not given: FROSTLINE_POLICY,"
    " else the program's own, if any.",
)
@click.option(
    "--span",
    "spans",
    multiple=True,
    metavar="MODULE:QUALNAME[=LABEL]",
    help="Time each call of a callable; of the program's own file with __main__ as the module. "
    "Behind a label, what to compare it by: batch=len(args[1].requests), stage=, group=.",
)
@click.option(
    "--preset",
    "presets",
    default="auto",
    show_default=True,
    metavar="auto|none|LIST",
    help="Spans for servers that are known: by what is imported, none, or those named.",
)
@click.option("--ready-url", metavar="URL", help="Start-up has ended when this answers 2xx or 3xx.")
@click.option(
    "--ready-log",
    metavar="[FILE:]REGEX",
    help="... when a line of the output, or of FILE (a path with a /), matches.",
)
@click.option("--ready-after", metavar="TIME", help="... so long after the start: 60s, 2m.")
@click.option("--no-control", is_flag=True, help="Install no signal handler in the processes.")
@click.option(
    "--sample-promotions",
    "promotions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Before each Nth gen-1 pass, count the types in generation 1: what feeds full passes.",
)
@click.option(
    "--census",
    envvar="FROSTLINE_CENSUS",
    metavar="MOMENTS",
    help="Count the tracked heap by type at attach, boundary, close, or several of them (boundary,close). "
    "Each process stops for it, a second at most or so.",
)
@click.option(
    "--no-counters", is_flag=True, help="Leave the collector's counters in the processes' memory unread."
)
@click.option(
    "--retention",
    "limit",
    default="256M",
    show_default=True,
    metavar="SIZE",
    help="Kept of one process: the oldest spans go first, then young passes. 0 keeps everything.",
)
@click.option("--no-host", is_flag=True, help="Sample no host signals (CPU, run queue, faults, memory).")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENTS]...")
def run(
    output: "str | None",
    policy: "str | None",
    spans: tuple[str, ...],
    presets: str,
    ready_url: "str | None",
    ready_log: "str | None",
    ready_after: "str | None",
    no_control: bool,
    promotions: "int | None",
    census: "str | None",
    no_counters: bool,
    limit: str,
    no_host: bool,
    command: tuple[str, ...],
) -> None:
    """Record COMMAND and every Python process that it starts, without a change to them.

    \b
        frostline run -- uvicorn app:app
        frostline run --policy freeze --ready-url http://127.0.0.1:8000/ -- ./my-server
        frostline report                      # the newest recording, also while it runs

    This process becomes COMMAND: pid, exit code and signals are its own. Exit codes 125 (a
    failure of Frostline's), 126 (cannot execute) and 127 (not found) are ours.
    """
    if not command:
        raise usage("no-command", "there is no command to run", "frostline run [OPTIONS] -- COMMAND ...")
    chosen = checked_policy(policy) if policy is not None else None
    settings = {
        # Not "off" where it was not asked for: that would overrule a program that freezes by itself.
        "policy": chosen.text if chosen else "",
        "presets": checked_presets(presets),
        "integrations": checked_integrations(os.environ.get("FROSTLINE_INTEGRATIONS", "")),
        "spans": ";".join(checked_span(span) for span in spans) or os.environ.get("FROSTLINE_SPANS", ""),
        "control": "off" if no_control else "on",
        "retention": str(size(limit)),
        "promotions": str(promotions or ""),
        "census": checked_census(census or ""),
    }
    ready = checked_ready(ready_url, ready_log, ready_after)
    if ready is not None and no_control:
        raise usage(
            "ready-without-control",
            "--ready-* tells the processes through the control channel, which --no-control leaves out",
            "Leave out one of the two.",
        )
    if ready is None and chosen is not None and chosen.boundary == "ready":
        raise usage(
            "boundary-without-ready",
            f"the policy {chosen.text!r} waits to be told when the server is ready, and nothing tells it",
            "Add --ready-url URL, --ready-log REGEX or --ready-after 60s, or leave out boundary=ready.",
        )
    start(output, settings, ready, list(command), counters=not no_counters, host=not no_host)


def usage(slug: str, message: str, remedy: str) -> FrostlineError:
    """An error of the command line: exit code 2."""
    return FrostlineError(slug, message, remedy, exit_code=2)


def checked_policy(text: str) -> "Policy":
    """The policy, if it is one. In the target a bad one could only be ignored."""
    from frostline.policy import grammar

    try:
        return grammar.parse(text)
    except ValueError as error:
        raise usage("bad-policy", str(error), "`frostline explain policies` has them all.") from error


def checked_presets(text: str) -> str:
    """The presets named, if there are such."""
    value = ",".join(part.strip() for part in text.split(",") if part.strip()) or "none"
    if value in ("auto", "none"):
        return value
    known = known_presets()
    for name in value.split(","):
        if known and name not in known:
            there = ", ".join(["auto", "none", *known])
            raise usage("bad-preset", f"there is no preset {name!r}", f"There are: {there}.")
    return value


def checked_integrations(text: str) -> str:
    """FROSTLINE_INTEGRATIONS, if each name is one."""
    from frostline.integrations import KNOWN

    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in ("auto", "none", *KNOWN):
            there = ", ".join(["auto", "none", *KNOWN])
            raise usage("bad-integration", f"there is no integration {name!r}", f"There are: {there}.")
    return ",".join(names)


def known_presets() -> list[str]:
    """The names that ``--preset`` takes."""
    from frostline.probe import presets

    return sorted(getattr(presets, "PRESETS", ()))


def checked_span(text: str) -> str:
    """A span's target, its label, and what it tells."""
    from frostline.probe import paths

    target, equals, label = text.partition("=")
    try:
        label, told = paths.split(label)
    except ValueError as error:
        raise usage(
            "bad-span",
            f"{text!r}: {error}",
            "Behind the label write for example batch=len(args[1].requests), a blank before it.",
        ) from error
    plain = f"{target}{equals}{label}"
    if _SPAN.match(target) and (not _SPAN.match(plain) or (told and ";" in text)):
        raise usage(
            "bad-span",
            f"{label!r} is not a label",
            "A label is not empty and holds neither ';' nor '='.",
        )
    if not _SPAN.match(plain):
        raise usage(
            "bad-span",
            f"{text!r} is not a callable's name",
            "Write module:qualname or module:qualname=label, for example my.engine:Engine.step=step",
        )
    return text


def checked_census(text: str) -> str:
    """The moments of censuses, if there are such."""
    from frostline.format.census import MOMENTS

    named = [part.strip() for part in text.split(",") if part.strip()]
    for moment in named:
        if moment not in MOMENTS:
            there = ", ".join(MOMENTS)
            raise usage("bad-census", f"there is no census at {moment!r}", f"There are: {there}.")
    return ",".join(dict.fromkeys(named))


def seconds(text: str) -> float:
    """A duration: ``60s``, ``2m``, ``500ms``, or a number of seconds."""
    found = _DURATION.match(text.strip())
    if not found:
        raise usage("bad-duration", f"{text!r} is not a duration", "Write for example 60s, 2m or 500ms.")
    return float(found.group(1)) * _SECONDS[found.group(2)]


def size(text: str) -> int:
    """A size in bytes: ``256M``, ``1G``, or a number of bytes."""
    found = _SIZE.match(text.strip())
    if not found:
        raise usage("bad-size", f"{text!r} is not a size", "Write for example 256M or 1G, or 0.")
    number = int(float(found.group(1)) * 1024 ** " KMGT".index(found.group(2).upper() or " "))
    if number >= 2**63:
        raise usage("bad-size", f"{text!r} is more than any machine has", "Write 0 to keep everything.")
    return number


def checked_ready(url: "str | None", log: "str | None", after: "str | None") -> "dict[str, Any] | None":
    """What readiness is told by, as the helper wants it."""
    given = [name for name, value in (("url", url), ("log", log), ("after", after)) if value is not None]
    if len(given) > 1:
        both = f"--ready-{given[0]} and --ready-{given[1]}"
        raise usage("two-ready", f"{both} exclude each other", "Give one of them.")
    if url is not None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good:
            raise usage(
                "bad-url", f"{url!r} is not a URL to ask", "Write for example http://127.0.0.1:8000/health"
            )
        return {"kind": "url", "url": url}
    if log is not None:
        file, colon, rest = log.partition(":")
        if not (colon and file.startswith(("/", "./", "../", "~/"))):
            file, rest = "", log
        try:
            re.compile(rest.encode())
        except re.error as error:
            wrong = f"{rest!r} is not a regular expression: {error}"
            raise usage("bad-regex", wrong, "Escape what is meant literally.") from error
        if not rest:
            raise usage("bad-regex", "an empty regular expression matches anything", "Give one.")
        path = str(Path(file).expanduser().absolute()) if file else ""
        return {"kind": "log", "regex": rest, "path": path, "files": []}
    if after is not None:
        return {"kind": "after", "seconds": seconds(after)}
    return None
