"""``frostline doctor``: would a recording work here, and what would not be reached."""

import json
import sys

import click

from frostline.commands.status import printable
from frostline.reach import fitness


@click.command(short_help="Check that this interpreter, environment and machine are fit.")
@click.option(
    "--python",
    default=None,
    metavar="PATH",
    help="The interpreter that the server runs on; ours if none is named.",
)
@click.option(
    "--self",
    "itself",
    is_flag=True,
    help="Prove there that the recorder makes no cycle and keeps nothing (a few seconds).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def doctor(python: "str | None", itself: bool, as_json: bool) -> int:
    """Check that an interpreter, its environment and this machine are fit.

    Starts the interpreter once as `run` would and looks for its recording. Ends with 1 if it
    could not be recorded, or with --self if a proof failed.
    """
    findings = _audited(python or sys.executable) if itself else fitness.examine(python or sys.executable)
    good = fitness.fit(findings)
    if as_json:
        click.echo(json.dumps({"fit": good, "findings": [f._asdict() for f in findings]}, indent=2))
        return 0 if good else 1
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        click.echo(printable(f"{finding.level:<8}{finding.what:<{width}}  {finding.found}"))
        if finding.remedy:
            click.echo(printable(f"{'':<{8 + width}}  {finding.remedy}"))
    if itself:
        click.echo("proved" if good else "not proved: see what is marked as a problem")
    else:
        click.echo("fit" if good else "not fit: see what is marked as a problem")
    return 0 if good else 1


def _audited(python: str) -> list[fitness.Finding]:
    from frostline.reach import selfaudit
    from frostline.recording import read_session

    def recorded(folder: str) -> tuple[int, int]:
        series = read_session(folder).series
        return sum(len(one.passes) for one in series), sum(len(one.spans["start"]) for one in series)

    return selfaudit.examine(python, recorded)
