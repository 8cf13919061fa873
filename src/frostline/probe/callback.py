"""What runs at each pass and each span.

The functions are closures over plain local variables, not methods: a pass costs two calls of
``on_collection``, and each attribute look-up in them would be paid by the host. Nothing here
takes a lock, imports, logs, or keeps an object that the collector tracks.
"""

import _struct
import _thread
import gc
import sys
import time

from frostline import format as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap
    from types import FrameType

    from frostline.probe.recorder import Recorder
    from frostline.probe.writer import Region, Series

_WORD = layout.WORD
_LOST_PASSES = _WORD["lost_passes"]
_LOST_SPANS = _WORD["lost_spans"]
_FOLDER = __file__.rpartition("/")[0].rpartition("/")[0] + "/"
#: Frames of the import system.
_IMPORTING = "<frozen importlib"
_SIGURG = 23
#: Files whose frames are never the trigger: the stand-ins of ``hooks`` add theirs.
OURS: set[str] = set()
#: A callback that is appended while the list is being walked is called at once, and an entry that
#: is moved makes the interpreter skip another tool's: so ours is only ever appended, this often.
_MAX_TAILS = 4


def is_ours(error: BaseException) -> bool:
    """Whether an exception was raised by this package's code, and not by a signal handler that ran in it."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    # The second: an import of ours that failed, where the interpreter is ending or has no depth left.
    return innermost is None or innermost.tb_frame.f_code.co_filename.startswith((_FOLDER, _IMPORTING))


def importing(frame: "FrameType | None") -> bool:
    """Whether a signal has interrupted the import system. Who imports then, to answer, deadlocks before
    3.12, where a lock that may be held there is not re-entrant; the caller signals again.
    """
    return frame is not None and frame.f_code.co_filename.startswith(_IMPORTING)


def make_hot_functions(recorder: "Recorder") -> None:
    """Binds the recorder's hot functions. Read ``docs/design.md`` ("The callback") before a change.

    What was tried: reading thresholds and ``isenabled`` at each young pass (+0.3 us), the commit
    word as a store of its own (+0.1 us), a flag list shared with the wrappers (+0.05 us).
    """
    pack_young = _struct.Struct(layout.PASS_YOUNG_PACKED).pack_into
    pack_full = _struct.Struct(layout.PASS_PACKED).pack_into
    pack_span = _struct.Struct(layout.SPAN + "Q").pack_into
    clock = time.monotonic_ns
    get_count = gc.get_count
    get_ident = _thread.get_ident
    get_native_id = _thread.get_native_id
    get_threshold = gc.get_threshold
    is_enabled = gc.isenabled
    frame = sys._getframe
    interrupt_main = _thread.interrupt_main
    callbacks = gc.callbacks
    fetch = next

    series: "Series | None" = None
    passes: "Region | None" = None
    spans: "Region | None" = None
    # One byte that is 1 while this process may write here; in a forked child, even one forked by C,
    # it reads 0. The mapping itself and not a view of it: that is 0.1 us a pass.
    alive = recorder.alive
    buffer: "mmap | bytearray" = bytearray(8)
    # The commit word of the next pass: its slot and one.
    commit = 1
    offset = end = start = thread = begin = count0 = count1 = count2 = pending = retry_at = 0
    # Whether other tools' callbacks stand behind ours. Looked for at passes of generation 1 and 2 and
    # at explicit collections, not at each young pass: that would cost 0.05 us there.
    crowd = False
    words = memoryview(bytearray(layout.HEADER_SIZE)).cast("Q")

    def on_collection(phase: str, info: "dict[str, int]") -> None:
        nonlocal start, thread, count0, count1, count2, commit, offset
        try:
            if phase == "start":
                count0, count1, count2 = get_count()
                thread = get_ident()
                start = clock()
            elif start:
                stop = clock()
                if (offset >= end or not alive[0]) and not roll():
                    start = 0
                    return
                generation = info["generation"]
                if generation == 2:
                    full(stop, info)
                else:
                    pack_young(
                        buffer,
                        offset,
                        start,
                        stop,
                        thread,
                        info["collected"],
                        count0,
                        count1,
                        count2,
                        generation,
                        commit,
                    )
                    # Side by side: a signal handler that raises can land behind the call, not here.
                    commit += 1
                    offset += 128
                start = 0
                if crowd or (generation and callbacks[-1] is not on_collection):
                    others()
        except RecursionError:
            # Near the limit any call fails, so there is none here: the host sees what it would see
            # with an empty callback.
            start = 0
            words[_LOST_PASSES] += 1
        except BaseException as error:
            failed(error)

    def full(stop: int, info: "dict[str, int]") -> None:
        """A pass of the oldest generation: rare, so everything that may explain it is written."""
        nonlocal commit, offset
        file = line = function = 0
        try:
            at = frame(2)
        except ValueError:
            pass  # no Python frame: the interpreter is ending
        else:
            while at.f_code.co_filename in OURS and at.f_back is not None:
                at = at.f_back  # our own stand-in for gc.collect: its caller is meant
            file = recorder.name_id(at.f_code.co_filename)
            function = recorder.name_id(at.f_code.co_name)
            line = at.f_lineno or 0
        flags = layout.PASS_FULL | (0 if is_enabled() else layout.PASS_DISABLED)
        if callbacks[0] is not on_collection:
            flags |= layout.PASS_NOT_FIRST
        threshold0, threshold1, threshold2 = get_threshold()
        pack_full(
            buffer,
            offset,
            start,
            stop,
            thread,
            info["collected"],
            count0,
            count1,
            count2,
            info["generation"],
            flags,
            0,
            get_native_id(),
            info["uncollectable"],
            threshold0,
            threshold1,
            threshold2,
            file,
            line,
            function,
            info.get("candidates", -1),
            info.get("duration", -1.0),
            0,
            0,
            commit,
        )
        commit += 1
        offset += 128

    def others() -> None:
        """Other tools' callbacks stand behind ours: note how many, and measure them by a tail."""
        nonlocal pending
        last = offset - 128
        foreign = look_around()
        buffer[last + 46 : last + 48] = min(foreign, 65535).to_bytes(2, "little")
        if begin > int.from_bytes(buffer[last : last + 8], "little"):
            buffer[last + 96 : last + 104] = begin.to_bytes(8, "little")
        pending = last
        if foreign and callbacks[-1] is not on_tail and recorder.tails < _MAX_TAILS:
            recorder.tails += 1
            callbacks.append(on_tail)

    def look_around() -> int:
        """How many callbacks are not ours; each new one is named."""
        nonlocal crowd
        foreign = 0
        for callback in callbacks:
            if (
                callback is not on_collection
                and callback is not on_tail
                and callback is not recorder.policy_callback
                and callback is not recorder.sampler
            ):
                foreign += 1
        if foreign:
            recorder.note_other_callbacks()
        crowd = foreign > 0
        return foreign

    def on_tail(phase: str, info: "dict[str, int]") -> None:
        nonlocal begin, pending
        try:
            if phase == "start":
                begin = clock()
            elif pending:
                buffer[pending + 104 : pending + 112] = clock().to_bytes(8, "little")
                if callbacks[-1] is on_tail:
                    pending = 0
        except RecursionError:
            pending = 0
        except BaseException as error:
            failed(error)

    def failed(error: BaseException) -> None:
        """Something was raised while our callback ran. What is the host's goes back to the host."""
        nonlocal start, commit, offset
        start = 0
        if 0 <= offset < end and int.from_bytes(buffer[offset + 120 : offset + 128], "little") == commit:
            commit += 1  # the record was whole when the exception came
            offset += 128
        if isinstance(error, KeyboardInterrupt):
            interrupt_main()  # Ctrl-C arrived while we ran: the interpreter would swallow it here
        elif isinstance(error, Exception) and is_ours(error):
            recorder.switch_off(layout.OFF_ERROR, 0)
        elif recorder.control:
            # A signal handler of the host's raised (a time-out, an exit). The interpreter would
            # swallow that too: it is raised again by our own handler, outside the callback.
            recorder.foreign = error
            interrupt_main(_SIGURG)  # type: ignore[arg-type,unused-ignore]
        else:
            raise error

    def roll() -> bool:
        """The pass region is full, or this is a child of a fork that ran no at-fork hook."""
        nonlocal passes, buffer, offset, end, commit, start
        begun = start
        if forked_raw():
            start = begun  # the pass that is ending is this child's own
            return passes is not None
        if series is None or passes is None:
            return False
        grown = grow(passes, "lost_passes")
        if grown is None:
            return False
        passes = grown
        buffer, offset, end, commit = passes.buffer, passes.base, passes.end, 1
        return True

    def grow(full_region: "Region", lost: str) -> "Region | None":
        """The next segment, or None, counted as lost. After a failure it is not tried for a second:
        a full disk must not cost the host three system calls an event.
        """
        nonlocal retry_at
        assert series is not None
        if clock() >= retry_at:
            try:
                return series.grow(full_region)
            except OSError as error:
                if error.errno is None:
                    raise  # a time-out that a signal handler of the host's raised, no failure of the system
                retry_at = clock() + 1_000_000_000
                series.note_failure(error)
        series.count(lost)
        return None

    def forked_raw() -> bool:
        if alive[0] or series is None:
            return False
        recorder.reopen_in_child()
        return True

    def record_span(
        begun: int, stop: int, label: int, kind: int, flags: int, value0: int, value1: int, task: int
    ) -> None:
        nonlocal spans
        region = spans
        if region is None:
            return
        try:
            if not alive[0]:
                forked_raw()
                region = spans
                if region is None:
                    return
            number = fetch(region.slots, -1)
            while number < 0:
                grown = grow(region, "lost_spans")
                if grown is None:
                    return
                spans = region = grown
                number = fetch(region.slots, -1)
            pack_span(
                region.buffer,
                region.base + number * 64,
                begun,
                stop,
                get_ident(),
                label,
                kind,
                flags,
                value0,
                value1,
                task,
                number + 1,
            )
        except (_struct.error, TypeError, OverflowError, RecursionError):  # type: ignore[attr-defined,unused-ignore]
            # No wider: what a signal handler of the host's raises here (a time limit) is the host's.
            words[_LOST_SPANS] += 1

    def position() -> "tuple[Region | None, int]":
        return passes, commit - 1

    def flag_since(place: "tuple[Region | None, int]", flags: int, asked: object) -> int:
        """Sets flags in the pass that a collection of generation ``asked`` by this thread has made since
        ``place``: the last of that generation. (Earlier ones are automatic: our own code allocates too.)
        Returns 1, or 0 if there was none.
        """
        region, first = place
        mine = get_ident()
        found = None
        at = 0
        while region is not None and passes is not None:
            until = commit - 1 if region is passes else region.capacity
            for number in range(first, until):
                here = region.base + number * 128
                if (
                    region.buffer[here + 44] == asked
                    and int.from_bytes(region.buffer[here + 16 : here + 24], "little") == mine
                ):
                    found, at = region, here
            if region is passes:
                break
            region, first = passes, 0
        if found is None:
            return 0
        found.buffer[at + 45] |= flags
        return 1

    def in_flight() -> int:
        """The thread that is inside a pass, 0 for none."""
        return thread if start or (pending and callbacks and callbacks[-1] is on_tail) else 0

    def forget_pass() -> None:
        """No pass is in flight, whatever it looked like: its "stop" will not come."""
        nonlocal start, pending
        start = pending = 0

    def use(new: "Series | None") -> None:
        nonlocal series, passes, spans, buffer, offset, end, commit, start, pending, words
        series = new
        if new is None:
            passes = spans = None
            start = pending = 0  # a pass in flight belongs to the file that is left
            offset = end = 0
            alive[0] = 0
            return
        words = new.words
        passes = new.regions[layout.REGION_PASSES]
        spans = new.regions[layout.REGION_SPANS]
        buffer, offset, end, commit = passes.buffer, passes.base, passes.end, 1
        alive[0] = 1

    recorder.position = position
    recorder.flag_since = flag_since
    recorder.in_flight = in_flight
    recorder.grow = grow
    recorder.look_around = look_around
    recorder.forget_pass = forget_pass
    recorder.on_collection = on_collection
    recorder.on_tail = on_tail
    recorder.record_span = record_span
    recorder.use = use
