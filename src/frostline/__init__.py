"""Frostline: the pauses of CPython's cyclic collector, found, explained, removed, proved away.

Four lines in every process that serves::

    import frostline
    frostline.install(role="EngineCore", rank=dp_rank)   # reads FROSTLINE_*; inert when nothing asks
    frostline.startup_complete()                         # the boundary: collect, freeze
    frostline.shutdown()                                 # thaw, collect

Everything is imported when it is first needed: this file runs in every recorded interpreter.
"""

import os

#: Here and not in a module of its own: a module is a cost in every recorded interpreter.
__version__ = "0.1.0"

__all__ = (
    "NameFilter",
    "add_arguments",
    "apply",
    "begin",
    "defer",
    "die_with_parent",
    "end",
    "idle",
    "install",
    "pause_log",
    "process_name",
    "ranks",
    "request",
    "rpc_freeze",
    "rpc_thaw",
    "set_title",
    "shutdown",
    "span",
    "startup_complete",
    "step",
    "unwrap",
    "wrap",
)

#: Names that are imported when they are first used, and where from.
_LATER = {
    "NameFilter": "embed.names",
    "add_arguments": "embed.flags",
    "apply": "embed.flags",
    "begin": "probe.spans",
    "defer": "policy.regions",
    "die_with_parent": "embed.parents",
    "end": "probe.spans",
    "pause_log": "embed.pauses",
    "process_name": "embed.names",
    "ranks": "embed.names",
    "rpc_freeze": "embed.rpc",
    "rpc_thaw": "embed.rpc",
    "set_title": "embed.names",
    "span": "probe.spans",
    "unwrap": "probe.spans",
    "wrap": "probe.spans",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from frostline.embed.flags import add_arguments as add_arguments
    from frostline.embed.flags import apply as apply
    from frostline.embed.names import NameFilter as NameFilter
    from frostline.embed.names import process_name as process_name
    from frostline.embed.names import ranks as ranks
    from frostline.embed.names import set_title as set_title
    from frostline.embed.parents import die_with_parent as die_with_parent
    from frostline.embed.pauses import pause_log as pause_log
    from frostline.embed.rpc import rpc_freeze as rpc_freeze
    from frostline.embed.rpc import rpc_thaw as rpc_thaw
    from frostline.policy.moments import Request
    from frostline.policy.regions import defer as defer
    from frostline.probe.spans import begin as begin
    from frostline.probe.spans import end as end
    from frostline.probe.spans import span as span
    from frostline.probe.spans import unwrap as unwrap
    from frostline.probe.spans import wrap as wrap

#: Who this process is, as ``install`` was told: pid, role, rank.
_identity: "tuple[int, str | None, int | str | None]" = (0, None, None)
#: What was said on stderr last: ``site`` reads the start-up hook of a virtual environment twice.
_complained = ""


def _boot() -> None:
    """The start-up hook's entry: never raises, and does its work once an interpreter."""
    if os.environ.get("FROSTLINE_DISABLE"):
        return
    try:
        _record(None)
    except Exception:
        pass  # the host must start whatever happens here; the missing recording is reported
    text = os.environ.get("FROSTLINE_POLICY", "")
    try:
        _adopt(text)
        if "boundary=ready" in text.replace(" ", "") and "FROSTLINE_RUN" not in os.environ:
            _complain(
                f"{text!r} waits to be told when the server is ready, and nobody tells it without"
                " `frostline run --ready-url URL` (or --ready-log, --ready-after): nothing will be frozen;"
                " leave out boundary=ready, or use that"
            )
    except ValueError as error:
        _refuse(text, str(error))
    except Exception:
        pass


def _refuse(text: str, why: str) -> None:
    """FROSTLINE_POLICY is a policy that nobody can apply: set by hand (``run`` checks it first), or not one
    for this interpreter. To say nothing would leave a server without the policy that its operator believes
    in; to raise would end it for his slip.
    """
    _complain(why)
    try:
        import sys

        probe = sys.modules.get("frostline.probe")
        recorder = probe.recorder_of_this_process() if probe is not None else None
        if recorder is not None and recorder.policy == text:
            from frostline import format as layout

            # The header says what was asked for, and would those of forked children.
            recorder.policy = f"off, {text[:40]!r} refused"
            recorder.mark(layout.MARK_POLICY, layout.MARK_FLAG_OURS, recorder.name_id(recorder.policy))
    except Exception:
        pass


def _complain(what: str) -> None:
    """A line on stderr about FROSTLINE_POLICY, once, and not in our own commands: theirs is the command's."""
    global _complained
    import sys

    program = ""
    for word in getattr(sys, "orig_argv", ())[1:]:
        if not word.startswith("-"):
            program = os.path.basename(word)
            break
    if what == _complained or program.partition(".")[0] == "frostline" or sys.stderr is None:
        return
    _complained = what
    try:
        sys.stderr.write(f"frostline: FROSTLINE_POLICY: {what}\n")
    except (OSError, ValueError):
        pass  # full or closed: the host starts all the same


def _record(policy: "str | None") -> None:
    if os.environ.get("FROSTLINE_OUTPUT"):
        from frostline.probe import hooks

        hooks.start(policy=policy)


def _adopt(text: str) -> None:
    if text and text != "off":
        from frostline import integrations
        from frostline.policy import engine

        engine.adopt(text)
        integrations.arm()


def install(role: "str | None" = None, rank: "int | str | None" = None, policy: "str | None" = None) -> None:
    """Makes this process known to Frostline. Idempotent; inert when nothing asks for anything.

    Args:
        role: what this process is, for example ``"EngineCore"``; the name in every report.
        rank: its data- or tensor-parallel rank; a text that is no number ("dp0-tp1") joins the name.
        policy: a policy in the grammar of ``docs/policies.md``; the environment's
            FROSTLINE_POLICY wins over it, so that an operator can overrule the program. Between the
            two stands what ``frostline.apply`` in a parent has chosen by the server's flags.

    A FROSTLINE_POLICY that is none is said on stderr, and counts as not set: the program serves on.

    Raises:
        ValueError: ``policy`` is not a policy; the message says what was meant.
    """
    global _identity
    if role is not None or rank is not None:
        _identity = (os.getpid(), role, rank)
    if os.environ.get("FROSTLINE_DISABLE"):
        return
    asked = os.environ.get("FROSTLINE_POLICY", "")
    chosen = os.environ.get("FROSTLINE_PROGRAM_POLICY") or policy or ""
    _record(asked or chosen)
    try:
        _adopt(asked or chosen)
    except ValueError as error:
        if not asked:
            raise
        _refuse(asked, str(error))
        _adopt(chosen)
    if os.environ.get("FROSTLINE_PROGRAM_PAUSE_LOG"):
        from frostline.embed import flags

        flags.begin_pause_log()
    if role is None and rank is None:
        return
    from frostline.probe import recorder_of_this_process

    recorder = recorder_of_this_process()
    if recorder is not None:
        from frostline.probe import hooks

        hooks.identify_program(recorder, role, rank)


def startup_complete(owner: object = None) -> "int | None":
    """The boundary: start-up has ended and no request has been admitted yet.

    Under a policy that freezes it collects every generation and freezes what is left, and returns how
    many objects were frozen since the interpreter's start. Called again it extends what is frozen.
    Returns None where no such policy is in force. Blocks for one full collection: call it before
    READY is announced. Called while requests are in flight (``request``) it only splices, for
    microseconds, and returns -1: garbage may be frozen then, until an idle moment puts it right.

    Args:
        owner: whose objects these are, a name or the object itself (which is not kept alive). What is
            frozen is given back when the last owner has called ``shutdown`` or is gone.
    """
    from frostline.policy import engine

    return engine.boundary(engine.BY_PROGRAM, owner)


def shutdown(collect: bool = True, owner: object = None) -> None:
    """Gives back what the policy took: thaws what was frozen and collects it.

    Args:
        collect: False skips the collection after the thaw (the next full pass does it).
        owner: who gives up, as in ``startup_complete``. Nothing is thawed while another owner is left.

    Does nothing where nothing was frozen. Not needed at the interpreter's exit.
    """
    from frostline.policy import engine

    engine.release(collect, owner)


def request() -> "Request":
    """``with frostline.request():`` around each request, so that a policy knows when nothing is in flight.

    Costs two additions. An integration that cannot use ``with`` calls ``enter`` and ``leave`` of
    ``frostline.policy.moments``.
    """
    from frostline.policy import moments

    return moments.REQUEST


def idle() -> bool:
    """Tells the policy that this is an idle moment: a walk of the whole heap may be made now, if one is due.

    An event loop need not say it; a server of threads or a loop over a queue calls this when there is
    nothing to do. Blocks for one full collection at most. Whether anything was done.
    """
    from frostline.policy import moments

    return moments.now()


def step(number: int = -1) -> bool:
    """One step of a job in which every rank does the same steps. Under ``sync:N`` each Nth one collects.

    Args:
        number: the number of the step, where ranks do not all begin at the first one; else they are counted.

    Returns whether there was a collection. Does nothing under another policy.
    """
    from frostline.policy import engine

    keeper = engine.keeper()
    return keeper is not None and keeper.step(number)


def __getattr__(name: str) -> "Any":
    place = _LATER.get(name)
    if place is None:
        raise AttributeError(f"module 'frostline' has no attribute {name!r}")
    # Not importlib, which an interpreter need not have loaded.
    module = __import__(f"frostline.{place}", fromlist=(name,))
    value = globals()[name] = getattr(module, name)  # the next call does not come here
    return value
