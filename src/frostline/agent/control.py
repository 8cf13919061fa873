"""Answers a request that somebody left in the live words (``docs/format.md``).

Runs in the main thread, between two bytecodes, after SIGURG. The request is a number that grows;
its operation and arguments are written before it. Nothing here waits, and a request that is not
understood is answered as such: a hostile caller of the same user can only waste one signal.
"""

import os
import sys
import time

import frostline
from frostline import format as layout
from frostline.format import request
from frostline.policy import engine, late, moments
from frostline.policy.grammar import parse
from frostline.probe.callback import is_ours
from frostline.probe.recorder import Recorder
from frostline.probe.writer import Series

_WORD = layout.WORD
_SIGN = 1 << 63
#: What may start a pass.
_COLLECTING = (
    layout.OP_COLLECT, layout.OP_TUNE, layout.OP_BOUNDARY, layout.OP_POLICY, layout.OP_DETACH, request.OP_LOOK,
)  # fmt: skip

#: How long a walk of the heap is put off at most, so that others do theirs meanwhile.
_LONGEST_MS = 60_000

#: The series whose request is being done. A signal that lands inside finds it: callers signal again
#: while they wait, and what was done inside a collection of ours was "busy", so that it was begun again.
_doing: "Series | None" = None


def answer(recorder: Recorder) -> None:
    """Does what the words ask for and writes the reply, its number last."""
    global _doing
    series = recorder.series
    if series is None:
        return
    words = series.words
    number = words[_WORD["request"]]
    if number == words[_WORD["reply"]]:
        return
    if _doing is series:
        series.count("nested")
        return  # one that has come in meanwhile signals again
    status, result = layout.REPLY_ERROR, 0
    _doing = series
    try:
        status, result = _perform(recorder, series)
    finally:
        _doing = None
        # An exception of the host's own handlers goes on its way; the request is not done twice for it.
        if recorder.series is series:  # else a finalizer has forked, and these words are the parent's
            words[_WORD["result"]] = result & (2**64 - 1)
            words[_WORD["status"]] = status
            words[_WORD["reply"]] = number


def _perform(recorder: Recorder, series: Series) -> "tuple[int, int]":
    words = series.words
    operation = words[_WORD["opcode"]]
    arguments = [_signed(words[_WORD[name]]) for name in ("arg0", "arg1", "arg2")]
    if words[_WORD["opcode"]] != operation:
        # The next caller is writing: these may be its arguments. It signals when it has done so.
        return layout.REPLY_BUSY, 0
    if operation == layout.OP_PING:
        return layout.REPLY_DONE, time.monotonic_ns()
    if recorder.in_flight():
        # The signal landed inside a pass: the collector's lists are not ours to touch now.
        return layout.REPLY_BUSY, 0
    asks = operation == layout.OP_POLICY and not arguments[0]
    if operation in _COLLECTING and not asks and _deferred():
        # The program wants no pass and no finalizer just now, as in a graph capture.
        return layout.REPLY_BUSY, 0
    try:
        if operation == layout.OP_FREEZE:
            engine.splice()
            if not engine.puts_right():
                return layout.REPLY_DONE, layout.FREEZE_STAYS
            moments.put_off(min(max(arguments[0], 0), _LONGEST_MS) / 1000)
            return layout.REPLY_DONE, layout.FREEZE_PUT_RIGHT
        if operation == layout.OP_THAW:
            return layout.REPLY_DONE, int(engine.thaw(collect_after=False))
        if operation == layout.OP_COLLECT:
            if not 0 <= arguments[0] <= 2:
                return layout.REPLY_REFUSED, 0
            found = engine.collect(arguments[0])
            return (layout.REPLY_DONE, found) if found >= 0 else (layout.REPLY_BUSY, 0)
        if operation == layout.OP_TUNE:
            if min(arguments) < 0 or max(arguments) > 2**31 - 1:
                return layout.REPLY_REFUSED, 0
            engine.tune(*arguments)
            return layout.REPLY_DONE, 0
        if operation == layout.OP_DETACH:
            from frostline.agent import detaching

            return layout.REPLY_DONE, detaching.detach(recorder)
        if operation == layout.OP_BOUNDARY:
            count = engine.boundary(engine.BY_SUPERVISOR)
            return layout.REPLY_DONE, 0 if count is None else count
        if operation == layout.OP_POLICY:
            return _policy(series, arguments)
        if operation == request.OP_LOOK:
            return _look(series, arguments)
    except Exception as error:
        if not is_ours(error):
            raise
        return layout.REPLY_ERROR, 0
    return layout.REPLY_UNKNOWN, 0


def _policy(series: Series, arguments: "list[int]") -> "tuple[int, int]":
    """Puts a policy in force, or takes out the one that is ("off"). Nobody is stalled: no collection."""
    length, checksum, ended = arguments
    if not 0 <= length <= request.TEXT_SIZE:
        return layout.REPLY_REFUSED, 0
    given = series.first.mapping[request.TEXT : request.TEXT + length]
    if request.checksum(given) != checksum:
        return layout.REPLY_BUSY, 0  # the next caller is writing its own
    if length:
        try:
            policy = parse(given.decode())
            text = policy.text
            before = engine.in_force()
            if policy.kind == "off":
                engine.abandon()
            else:
                frostline._adopt(text)
        except ValueError as error:
            _write_text(series, str(error))
            return layout.REPLY_REFUSED, 0
        # For programs started from here on, and for an install() that comes later.
        os.environ["FROSTLINE_POLICY"] = "off" if policy.kind == "off" else text
        late.catch_up(engine.in_force() != before, ended == 1)
    _write_text(series, engine.in_force())
    return layout.REPLY_DONE, late.standing()


def _look(series: Series, arguments: "list[int]") -> "tuple[int, int]":
    """A look at the heap, for as long as that takes: the caller has said that it may."""
    length, checksum, _ = arguments
    if not 0 < length <= request.TEXT_SIZE:
        return layout.REPLY_REFUSED, 0
    given = series.first.mapping[request.TEXT : request.TEXT + length]
    if request.checksum(given) != checksum:
        return layout.REPLY_BUSY, 0
    from frostline.agent import looking

    try:
        return layout.REPLY_DONE, looking.look(series.first.path, given.decode())
    except ValueError as error:
        _write_text(series, str(error))
        return layout.REPLY_REFUSED, 0
    except Exception as error:
        _write_text(series, _failure(error))
        raise


def _failure(error: Exception) -> str:
    """For whoever is to mend it: what kind of error, and which line of ours. Nothing of the program's."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    words = type(error).__name__
    if at is not None:
        words += f", {at.tb_frame.f_code.co_filename.rpartition('/')[2]}:{at.tb_lineno}"
    return f"{words} ({error.strerror})" if isinstance(error, OSError) else words


def _write_text(series: Series, text: str) -> None:
    size = request.TEXT_SIZE
    data = text.encode("utf-8", "replace")[:size]
    series.first.mapping[request.TEXT : request.TEXT + size] = data + bytes(size - len(data))


def _deferred() -> bool:
    regions = sys.modules.get("frostline.policy.regions")
    return regions is not None and regions.host_threshold() >= 0


def _signed(word: int) -> int:
    return word - 2 * _SIGN if word >= _SIGN else word
