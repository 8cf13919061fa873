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
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def doctor(python: "str | None", as_json: bool) -> int:
    """Check that an interpreter, its environment and this machine are fit.

    Starts the interpreter once as `run` would and looks for its recording. Ends with 1 if it
    could not be recorded.
    """
    findings = fitness.examine(python or sys.executable)
    good = fitness.fit(findings)
    if as_json:
        click.echo(json.dumps({"fit": good, "findings": [f._asdict() for f in findings]}, indent=2))
        return 0 if good else 1
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        click.echo(printable(f"{finding.level:<8}{finding.what:<{width}}  {finding.found}"))
        if finding.remedy:
            click.echo(printable(f"{'':<{8 + width}}  {finding.remedy}"))
    click.echo("fit" if good else "not fit: see what is marked as a problem")
    return 0 if good else 1
