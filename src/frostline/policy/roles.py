"""Whom a policy is for: ``follow@EngineCore`` leaves every other process as it is (A10).

What a process is, it may say only after its start: at ``frostline.install(role=...)``, or by the name that
``multiprocessing`` gives it once its own start-up is over, or by the title that it sets itself, as vLLM's
engine core does (``VLLM::EngineCore``). So such a policy is looked at again at ``install`` and at the
boundary, and where it is for another process it is put aside: nothing is in force there.
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
#: A command line that is longer is no title.
_LONGEST = 1 << 16


def role(title: str = "") -> str:
    """What this process is called, without the pid. With its title: the name that the report prints."""
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
    return process_role(told or "", rank, title, current, module.removesuffix(".__main__"), arguments)


def names() -> "tuple[str, ...]":
    """What it may be called: as the report does, and as it was called before it set its title."""
    title = _title()
    return (role(), role(title)) if title else (role(),)


def _title() -> str:
    """What stands in place of the command line, as the watcher outside reads it; empty if that still does."""
    started = getattr(sys, "orig_argv", ())
    try:
        descriptor = os.open("/proc/self/cmdline", os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, _LONGEST)
        finally:
            os.close(descriptor)
        words = [os.fsencode(word) for word in started]
    except (OSError, UnicodeError):
        return ""
    if not words or len(line) == _LONGEST:
        return ""  # an interpreter inside of another program has no command line of its own
    title = line.replace(b"\0", b" ").strip()
    return "" if title == b" ".join(words).strip() else title.decode("utf-8", "replace")


def concern(policy: Policy) -> bool:
    """Whether a policy is for this process."""
    global asked
    asked = policy.text if policy.roles else ""
    if not policy.roles:
        return True
    return any(means(wanted, name) for wanted in policy.roles for name in names()) != policy.others


def put_aside(text: str) -> None:
    """It is for others, as far as is known now."""
    global asked
    asked = text
    recorder = probe.recorder_of_this_process()
    if recorder is not None and recorder.policy == text:  # the header says what was asked for
        recorder.policy = "off"
        recorder.mark(layout.MARK_POLICY, layout.MARK_FLAG_OURS, recorder.name_id("off"))
