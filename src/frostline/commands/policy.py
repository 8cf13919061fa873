"""``frostline policy``: puts a policy in force in every recorded process of a live server, or shows it."""

from pathlib import Path

import click

from frostline import format as layout
from frostline.commands import _control
from frostline.commands.run import checked_policy, usage
from frostline.format import meanings
from frostline.policy import grammar
from frostline.reach.asking import Answer

_STANDINGS = dict(meanings.STANDINGS)


@click.command(short_help="Put a policy in force in every process of a live server.")
@click.argument("text", required=False, metavar="[POLICY]")
@_control.options
@click.option(
    "--now", is_flag=True, help="Start-up has ended there: a freeze is a splice now, no collection."
)
def policy(
    text: "str | None", where: "str | None", tree: bool, seconds: float, as_json: bool, now: bool
) -> int:
    """Put POLICY in force in every live process of SESSION (the newest), or of PID; without POLICY say
    which one is in force there, and what has come of it. `frostline explain policies` has them all.

    It replaces the one in force, gives that one's thresholds back, and is that of programs started
    from there later. `off` takes it out and thaws. A process that has not been told that start-up is
    over waits for that, unless --now says so. Ends with 1 if any process did not do it.
    """
    if text is not None and where is None and not _is_policy(text):
        text, where = None, text
    arguments = (1,) if now else (0,)
    if text is None:
        if now:
            raise usage(
                "bad-policy", "--now goes with a policy", "For example: frostline policy freeze --now"
            )
        return _control.ask(layout.OP_POLICY, arguments, _say, where, tree, seconds, as_json, b"")
    wanted = checked_policy(text)
    if now and wanted.boundary == "program":
        raise usage(
            "now-and-program",
            f"under {wanted.text!r} only the program's word counts, and --now is yours",
            "Leave out boundary=program, or --now.",
        )
    return _control.ask(
        layout.OP_POLICY, arguments, _say, where, tree, seconds, as_json, wanted.text.encode()
    )


def _is_policy(text: str) -> bool:
    """One word alone may be a policy, a pid, or a session's folder. One that is a policy's name is one."""
    kind = text.partition("@")[0].partition(",")[0].partition(":")[0].strip().lower()
    return kind in grammar.KINDS or not text or not (text.isdigit() or Path(text).exists())


def _say(answer: Answer) -> str:
    if answer.result == layout.POLICY_NONE:
        return answer.detail
    if answer.detail == "off":
        return f"off; by `frostline freeze`: {_STANDINGS.get(answer.result, answer.result)}"
    standing = f"{answer.detail}: {_STANDINGS.get(answer.result, answer.result)}"
    if answer.result == layout.POLICY_WAITS:
        return f"{standing} (if start-up has ended there: frostline policy {answer.detail} --now)"
    return standing
