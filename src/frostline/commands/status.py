"""``frostline status``: every Python process of a session, and what is in force there."""

import json

import click

from frostline.reach import overview


@click.command(short_help="List a session's processes, and those that were missed.")
@click.argument("session", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def status(session: "str | None", as_json: bool) -> None:
    """List every Python process of SESSION (a folder; the newest if none is named).

    With its name, interpreter, policy, thresholds, freeze and boundary; those that were not
    reached are named, each with the reason and what to do about it.
    """
    from frostline.commands._newest import newest

    found = overview.read(session or newest())
    if as_json:
        rows = [row._asdict() | {"line": row.line and row.line._asdict()} for row in found.rows]
        value = found._asdict() | {"rows": rows}
        click.echo(json.dumps(value, indent=2))
        return
    _print(found)


def _print(found: overview.Overview) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    recorded = sum(row.recorded for row in found.rows)
    missed = [row for row in found.rows if not row.recorded and row.reason]
    state = "live" if found.live else "ended"
    console.print(
        Text(
            f"{printable(str(found.path))}: {state}, {recorded} recorded, {len(missed)} missed, "
            f"helper {found.helper}"
        )
    )
    if found.rows:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in (
            "pid",
            "name",
            "state",
            "recorded",
            "python",
            "policy",
            "thresholds",
            "frozen",
            "boundary",
            "next full pass",
        ):
            table.add_column(heading, justify="right" if heading == "pid" else "left", overflow="fold")
        for row in found.rows:
            table.add_row(*(Text(printable(cell)) for cell in _cells(row)))
        # Piped, a table must not be folded at 80 columns: another program reads it.
        Console(highlight=False, width=None if console.is_terminal else 250).print(table)
    for row in found.rows:
        if row.line is not None:
            console.print(Text(printable(_followed(row, row.line))))
    for row in missed:
        meaning, remedy = overview.explain(row.reason)
        detail = f" ({row.detail})" if row.detail else ""
        console.print(Text(printable(f"missed: {row.name} (pid {row.pid}): {meaning or row.reason}{detail}")))
        if remedy:
            console.print(Text(f"  {remedy}"))
    for note in found.notes:
        console.print(Text(printable(f"note: {note}")))


def _followed(row: overview.Row, line: overview.Line) -> str:
    share = line.frozen / max(int(line.alpha * line.kept) + line.budget, 1)
    return (
        f"follow in {row.name} (pid {row.pid}): {line.state}; B {line.budget:,}, H {line.kept:,}, "
        f"F <={line.frozen:,} ({share:.0%} of its credit), alpha {line.alpha:g}; "
        f"next full pass at {line.limit:,} objects; own work in stops {line.own_ms:.1f} ms of CPU, "
        f"longest {line.own_longest_ms:.1f} ms"
    )


def _cells(row: overview.Row) -> tuple[str, ...]:
    state = "live" if row.alive else "ended" if row.exit is None else f"ended, {row.exit}"
    recorded = (
        f"yes, {row.detail}"
        if row.recorded and row.detail
        else "yes"
        if row.recorded
        else "not yet"
        if not row.reason
        else f"no: {row.reason}"
    )
    if row.recorded and row.reason:
        recorded = f"{row.reason}: {row.detail}"
    return (
        str(row.pid),
        row.name,
        state,
        recorded,
        row.python,
        row.policy,
        row.thresholds,
        row.freeze,
        row.boundary,
        row.next_full,
    )


def printable(text: str) -> str:
    """A title or path of the target's, without the control characters that a terminal would obey."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
