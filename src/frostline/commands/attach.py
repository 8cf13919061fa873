"""``frostline attach``: record a server that runs already and was started without Frostline."""

import json
import os
import shlex
import sys

import click

from frostline.commands._numbers import Range
from frostline.commands.run import (
    checked_census,
    checked_policy,
    checked_presets,
    checked_span,
    size,
    usage,
)
from frostline.commands.status import printable
from frostline.reach import asking
from frostline.reach import attach as attaching
from frostline.reach.attach_session import Session

#: Processes that are named at the most.
_NAMED = 8
_RISKS = """\
What an attach does, in each of {count}:
  - it runs a few lines of Python in the main thread, between two bytecodes: 20 to 200 ms (a second on
    a machine without a free processor) in which it
    does nothing else (what it took is printed);
  - before Python 3.14 the main thread is stopped by ptrace first, for about a millisecond, and one
    system call of it may end with EINTR; from 3.14 on nothing is stopped;
  - the recorder goes into gc.callbacks, stand-ins take the place of gc.collect and its neighbours,
    SIGURG gets a handler, servers that are known get spans;
  - os.environ gets FROSTLINE_* and PYTHONPATH, for what the process starts from now on (--no-children: not).
`frostline detach` takes it out again; what stays: loaded modules, an empty at-fork function, and 1 KiB
of unused bytes behind a library's code, written once."""


@click.command(short_help="Record a server that runs already, without a restart.")
@click.argument("where", metavar="PID")
@click.option("--tree", is_flag=True, help="Its descendants as well: each Python process of a server.")
@click.option("-o", "--output", metavar="DIR", help="Session folder; an existing session is joined.")
@click.option("--policy", help="off, tune:T0,T1,T2, freeze, ...: applied at once, in each process.")
@click.option("--span", "spans", multiple=True, metavar="MODULE:QUALNAME[=LABEL]", help="As for `run`.")
@click.option(
    "--preset", "presets", default="auto", show_default=True, metavar="auto|none|LIST", help="As for `run`."
)
@click.option("--no-control", is_flag=True, help="Install no signal handler: then it cannot be detached.")
@click.option(
    "--no-children", is_flag=True, help="Leave os.environ alone: processes that start later are missed."
)
@click.option("--retention", "limit", default="256M", show_default=True, metavar="SIZE", help="As for `run`.")
@click.option("--no-host", is_flag=True, help="Sample no host signals, as for `run`.")
@click.option(
    "--census",
    metavar="MOMENTS",
    help="Count the heap by type at attach, boundary, close: as for `run`. A longer stop.",
)
@click.option(
    "--wait",
    "seconds",
    type=Range(min=0.1, max=3600.0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each process is waited for.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed where there is no terminal to ask on.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for programs; nothing is asked then, so give --yes."
)
def attach(
    where: str,
    tree: bool,
    output: "str | None",
    policy: "str | None",
    spans: tuple[str, ...],
    presets: str,
    no_control: bool,
    no_children: bool,
    limit: str,
    no_host: bool,
    census: "str | None",
    seconds: float,
    yes: bool,
    as_json: bool,
) -> int:
    """Record the process PID, which runs already, into a session as `frostline run` would.

    \b
        frostline attach 4711 --tree          # a server, with its workers
        frostline report                      # while it runs, or later
        frostline detach 4711 --tree          # everything out again, the server runs on

    Ends with 0 if every process meant is recorded, 1 if any is not.
    """
    pid = _checked_pid(where)
    wanted = checked_policy(policy) if policy is not None else None
    settings = {
        "policy": wanted.text if wanted is not None else "",
        "presets": checked_presets(presets),
        "spans": ";".join(checked_span(span) for span in spans),
        "control": "off" if no_control else "on",
        "retention": str(size(limit)),
        "census": checked_census(census or ""),
    }
    acts = wanted is not None and wanted.kind not in ("off", "tune")
    if acts and no_control:
        raise usage(
            "policy-without-control",
            "a policy is told to begin through the control channel, which --no-control leaves out",
            "Leave out one of the two.",
        )
    pids = attaching.processes(pid, tree)
    left_out = [] if tree else attaching.left_out(pid)
    if all(attaching.is_recorded(one) for one in pids):
        remedy = "`frostline status` shows it, `frostline detach` takes the recorder out."
        if left_out:
            remedy = f"{_left_out(left_out)}:\n  {_with_tree(pid, asking.session_of(pid))}"
        raise usage(
            "already-recorded",
            f"{'each of them' if tree else f'process {pid}'} is recorded already{attaching.into(pid)};"
            " nothing was done",
            remedy,
        )
    hopeless = attaching.refused(pids)
    if hopeless is not None:  # said before anybody is asked, and no session is made for it
        _print(None, hopeless, pids, left_out, as_json)
        return 1
    what = "1 process" if len(pids) == 1 else f"{len(pids)} processes"
    if not yes:
        _ask(_RISKS.format(count=what) + (f"\n{_left_out(left_out)}" if left_out else ""), as_json)
    # READY has come long ago: the policy begins now, and in processes that start later once they serve.
    ready = {"kind": "after", "seconds": 0.0} if acts else None
    session = Session(output, pid, settings, ready, not no_host)
    rows: list[attaching.Attached] = []
    try:
        injector = attaching.Injector(
            session.folder, session.fallback, session.variables(settings), not no_children, seconds
        )
        for one in pids:
            rows.append(injector.attach(one))
            if not as_json:
                click.echo("\n".join(printable(line) for line in _lines(rows[-1], pids)))
    finally:
        if any(row.done for row in rows):
            session.keep()
        else:
            session.give_up()
    if as_json:
        _print(session.folder, rows, pids, left_out, True)
    else:
        done = sum(row.done for row in rows)
        _close(session, rows, done, no_children)
        if left_out:
            click.echo(printable(_left_out(left_out)) + ":")
            click.echo(f"  {_with_tree(pid, _shown(session.folder) if done else '')}")
    return 0 if all(row.done or row.recorded for row in rows) else 1


def _print(
    folder: "str | None",
    rows: list[attaching.Attached],
    pids: list[int],
    left_out: list[asking.Target],
    as_json: bool,
) -> None:
    done = sum(row.done for row in rows)
    if as_json:
        value = {
            "session": folder if done else None,
            "attached": done,
            "processes": [row._asdict() for row in rows],
            "left_out": [{"pid": one.pid, "name": one.name} for one in left_out],
        }
        click.echo(json.dumps(value, indent=2))
        return
    for row in rows:
        click.echo("\n".join(printable(line) for line in _lines(row, pids)))
    click.echo(f"{done} of {len(rows)} processes attached")
    if left_out:
        click.echo(f"{printable(_left_out(left_out))}:\n  {_with_tree(pids[0], '')}")


def _checked_pid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text)):
        raise usage(
            "bad-pid", f"{text!r} is not a pid", "Name a process by its number; `pgrep -af NAME` finds it."
        )
    return int(text)


def _left_out(processes: list[asking.Target]) -> str:
    shown = ", ".join(f"{one.name} (pid {one.pid})" for one in processes[:_NAMED])
    more = f" and {len(processes) - _NAMED} more" if len(processes) > _NAMED else ""
    return f"without --tree its Python children are not attached to: {shown}{more}"


def _with_tree(pid: int, session: str) -> str:
    return f"frostline attach {pid} --tree" + (f" -o {shlex.quote(session)}" if session else "")


def _shown(folder: str) -> str:
    """A session as the user types it from here."""
    where = os.path.relpath(folder)
    return folder if where.startswith("..") else where


def _ask(risks: str, as_json: bool) -> None:
    terminal = sys.stdin is not None and sys.stdin.isatty() and not as_json
    if not terminal:
        raise usage(
            "needs-yes", "there is no terminal to ask on", "Read `frostline explain attach`, then give --yes."
        )
    click.echo(risks)
    click.confirm("Attach?", abort=True)


def _lines(row: attaching.Attached, pids: list[int]) -> list[str]:
    width = max(len(str(one)) for one in pids)
    if row.done:
        stop = f"stopped {row.stopped_ns / 1e6:.1f} ms, " if row.stopped_ns else "not stopped, "
        what = f"attached (Python {row.python}; {stop}main thread busy {row.busy_ns / 1e6:.0f} ms,"
        what += f" {row.cpu_ns / 1e6:.0f} ms of it on a processor)"
    else:
        what = f"{'' if row.recorded else 'NOT DONE: '}{row.why_not}"
    lines = [f"{row.pid:>{width}}  {row.name:<16}  {what}"]
    return [*lines, f"{'':>{width}}  {row.remedy}"] if row.remedy else lines


def _close(session: Session, rows: list[attaching.Attached], done: int, alone: bool) -> None:
    click.echo(
        f"{done} of {len(rows)} processes attached; stopped: from the ptrace call to letting go, by our clock"
    )
    if session.warning:
        click.echo(f"frostline: {session.warning}", err=True)
    if not done:
        return
    if alone:
        click.echo("processes that they start from now on are not recorded (--no-children)")
    where = printable(shlex.quote(_shown(session.folder)))
    click.echo(
        f"session {where} - next: frostline status, frostline report {where}, frostline detach {where}"
    )
