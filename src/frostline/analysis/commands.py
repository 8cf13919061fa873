"""What to type: the command that was started, the policy for it, and how READY is told."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from frostline import format as fmt
from frostline.analysis.choice import RARE, THRESHOLDS, base
from frostline.analysis.model import Advice, ProcessReport
from frostline.analysis.serving import SUPERVISOR
from frostline.analysis.verdict import some

#: What a process wraps of servers whose integration tells the boundary, where a policy is in force.
INTEGRATED = ("uvicorn.", "hypercorn.", "gunicorn.", "celery.", "vllm.", "sglang.", "dynamo.")
_RUN = "frostline run --policy "


def command(process: ProcessReport) -> str:
    """What was started with ``frostline run`` and became this process."""
    return " ".join(map(_quoted, process.launched)) if process.launched else "COMMAND"


def _quoted(word: str) -> str:
    """One word for a shell. What would be shown escaped is written as bash's ``$'...'``."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    escaped = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t"}
    return "$'" + "".join(escaped.get(c) or _escaped(c) for c in word) + "'"


def _escaped(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def attached(process: ProcessReport) -> bool:
    """Whether its recording began by ``frostline attach``, on a server that ran already."""
    return any(m.kind == fmt.MARK_ATTACH and m.values[0] > 0 for m in process.series.marks)


def run(process: ProcessReport, policy: str, came: str) -> str:
    """Its command under a policy. ``came``: the option by which READY was told, empty if by none.

    What was timed is timed again: a recording without steps could not say what the policy was worth.
    """
    when = "" if policy.startswith(("prefork", "tune:")) else when_ready(process, came)
    spans = "".join(f" --span {_quoted(text)}" for text in process.launched_spans)
    return f"{_RUN}{policy}{when}{spans} -- {command(process)}"


def elsewhere(most: ProcessReport, gaining: Iterable[ProcessReport], policy: str, came: str) -> list[Advice]:
    """The same policy for what else gains and was started by a ``frostline run`` of its own (a front end
    and its workers): the command for ``most`` does not reach it.
    """
    found: dict[tuple[str, ...], list[ProcessReport]] = {}
    for process in gaining:
        if process.launched and process.launched != most.launched:
            found.setdefault(process.launched, []).append(process)
    return [
        Advice(
            f"the same for {some([p.name for p in mine])}: another command started it",
            run(mine[0], policy, came),
        )
        for mine in found.values()
    ]


def policy_text(kind: str, thresholds: tuple[int, int, int], keeps: str = "freeze") -> str:
    """What to write after ``--policy``; ``keeps`` is the kind that freezes where thresholds do the rest."""
    if kind == THRESHOLDS:
        first, second, _ = base(thresholds)
        return f"{keeps},thresholds={first}/{second}/{RARE}"
    return kind if kind != "freeze" else keeps


def when_ready(process: ProcessReport, came: str) -> str:
    """The option that tells when start-up is over, by which it came this time; none where the program, or
    an integration, tells it.
    """
    if any(m.kind == fmt.MARK_BOUNDARY and m.values[0] != SUPERVISOR for m in process.series.marks):
        return ""
    if came:
        return f" {came}"
    if any(word.rpartition("/")[2] == "celery" for word in process.launched[:3]):
        return ""  # it has no URL to ask, and where a policy is in force the integration tells it
    if any(text.startswith(INTEGRATED) for text in process.wrapped):
        return ""
    if is_script(process):  # of a short run a quarter: its end would come before half a minute is over
        return f" --ready-after {min(30, max(1, round(process.wall / 4e9)))}s"
    return " --ready-url URL"


def is_script(process: ProcessReport) -> bool:
    """``python g.py``: without requests too, nothing says that it has a URL to ask."""
    launched = process.launched
    python = bool(launched) and launched[0].rpartition("/")[2].startswith("python")
    requests = any(label.kind == fmt.SPAN_ASYNC or label.label == "request" for label in process.labels)
    return python and "-m" not in launched[:3] and not requests


def top(process: ProcessReport, processes: Iterable[ProcessReport]) -> int:
    """The pid from which ``--tree`` reaches all that was attached to beside it."""
    by_pid = {p.pid: p for p in processes if p.session == process.session and attached(p)}

    def root(pid: int) -> int:
        seen = {pid}
        while (above := by_pid[pid].series.parent) in by_pid and above not in seen:
            pid = above
            seen.add(pid)
        return pid

    roots = {root(pid) for pid in by_pid}
    if len(roots) == 1:
        return roots.pop()
    parents = {by_pid[pid].series.parent for pid in roots}  # of workers alone: whoever forked them
    return parents.pop() if len(parents) == 1 and min(parents) > 1 else root(process.pid)


def one_at_a_time(found: list[Advice]) -> list[Advice]:
    """One policy to run, not two that exclude each other: what comes after the first is for later."""
    kept: list[Advice] = []
    first = ""
    targets: set[str] = set()
    for advice in found:
        policy = advice.command.removeprefix(_RUN).partition(" ")[0]
        target = advice.command.partition(" -- ")[2]
        if not advice.command.startswith(_RUN):
            kept.append(advice)
        elif not first:
            first = policy
            kept.append(advice)
        elif policy != first:
            if policy.startswith("tune:"):  # beside what the first one freezes, not instead of it
                policy = f"{first.partition(',')[0]},thresholds={policy[5:].replace(',', '/')}"
            text = f"{advice.text}. One at a time: first {first}, then {policy} if it is still needed"
            if policy == first:
                text = f"{advice.text}. {first} does that, too"
            kept.append(Advice(text, "", advice.saving, advice.how))
        else:
            # Again only what the first one does not start.
            again = "" if target in targets else advice.command
            kept.append(Advice(advice.text, again, advice.saving, advice.how))
        targets.add(target)
    return kept
