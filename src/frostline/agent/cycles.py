"""What the passes of a program reclaim, as cycles (B10): ``frostline cycles -- COMMAND``.

Loaded only where it was asked for. No pass is added to see what a pass of the program's own reclaims: a
callback switches the interpreter's DEBUG_SAVEALL on at its start and off at its stop. The look itself, and
the pass that frees what was kept, come at the next safe point of the main thread, never in the callback.
At the exit there is one pass of ours, kept likewise. Of a span each of the first calls is looked at
(``agent.spanned``).

What is found is written at once, and nothing of it stays here: to add up is the reader's job.
"""

import _signal  # type: ignore[import-not-found]
import gc
import os

from frostline.agent import tracing
from frostline.agent.saving import NONE, SIGNUM, Saver
from frostline.format import cycles as told
from frostline.probe import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from frostline.agent.spanned import Spans
    from frostline.probe.recorder import Recorder

_saver: "Saver | None" = None
_spans: "Spans | None" = None
_previous: "Any" = None


def start(recorder: "Recorder", text: str) -> None:
    """Begins to keep what passes reclaim, as FROSTLINE_CYCLES (``text``) asks. Does nothing where that is not
    possible: in a sub-interpreter, or beside ``--sample-promotions``.
    """
    global _saver, _spans, _previous
    if not recorder.recording or recorder.sampler is not None or _saver is not None:
        return
    looks_at, calls, budget = told.parse(text)
    if not looks_at:
        return
    try:
        _previous = _signal.signal(SIGNUM, _on_signal)
    except (ValueError, OSError):
        return
    tracing.start()
    _saver = Saver(recorder, looks_at, budget)
    if looks_at == told.SPANS:
        from frostline.agent import spanned

        _spans = spanned.start(_saver, calls)
    recorder.sampler = _saver.on_pass
    gc.callbacks.append(_saver.on_pass)
    os.register_at_fork(after_in_child=_in_child)


def _on_signal(signum: int, frame: "Any") -> None:
    if _saver is not None:
        hooks._quietly(_saver.safe_point)
    if callable(_previous):
        _previous(signum, frame)


def _in_child() -> None:
    if _spans is not None:
        hooks._quietly(_spans.in_child)
    if _saver is not None:
        hooks._quietly(_saver.in_child)


def finish() -> None:
    """At the interpreter's exit."""
    if _spans is not None:
        _spans.finish()
    if _saver is not None:
        _saver.exit()


def stop() -> None:
    """For a detach. The callback goes with the recorder's own."""
    global _saver, _spans
    if _saver is None:
        return
    if _spans is not None:
        _spans.most = 0
        _spans.forget()
    _saver.off()
    _saver.least = NONE
    _saver = _spans = None
    if _signal.getsignal(SIGNUM) is _on_signal:
        _signal.signal(SIGNUM, _previous if _previous is not None else _signal.SIG_DFL)
