"""Whom a policy is for: ``follow@EngineCore`` leaves every other process as it is (A10).

What a process is, it may say only after its start: at ``frostline.install(role=...)``, or by the name that
``multiprocessing`` gives it once its own start-up is over. So such a policy is looked at again at ``install``
and at the boundary, and where it is for another process it is put aside: nothing is in force there.
"""

import os
import sys

import frostline
from frostline import format as layout
from frostline import probe
from frostline.format.naming import means, process_role
from frostline.policy.grammar import Policy

#: A policy for some processes only, as it was asked for last; empty where there is none.
asked = ""


def role() -> str:
    """What this process is called, without the pid: the name that the report prints."""
    pid, told, rank = frostline._identity
    if pid != os.getpid():  # what was said in the process that forked this one is that one's name
        told, rank = os.environ.get("FROSTLINE_ROLE"), os.environ.get("FROSTLINE_RANK")
    try:
        rank = int(rank)  # type: ignore[arg-type]  # the recorder does the same: environments hold text
    except (TypeError, ValueError):
        pass
    process = sys.modules.get("multiprocessing.process")
    current = process.current_process().name if process is not None else ""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    module = getattr(spec, "name", None) or getattr(main, "__file__", None) or ""
    arguments = tuple(getattr(sys, "orig_argv", ()))
    return process_role(told or "", rank, "", current, module.removesuffix(".__main__"), arguments)


def concern(policy: Policy) -> bool:
    """Whether a policy is for this process."""
    global asked
    asked = policy.text if policy.roles else ""
    if not policy.roles:
        return True
    name = role()
    return any(means(wanted, name) for wanted in policy.roles) != policy.others


def put_aside(text: str) -> None:
    """It is for others, as far as is known now."""
    global asked
    asked = text
    recorder = probe.recorder_of_this_process()
    if recorder is not None and recorder.policy == text:  # the header says what was asked for
        recorder.policy = "off"
        recorder.mark(layout.MARK_POLICY, layout.MARK_FLAG_OURS, recorder.name_id("off"))
