"""The caller's side of the mailbox: a request to a recorded process, and its answer.

The words live in the first segment of the process's series. The caller writes opcode and
arguments, then the request's number **last**, then wakes the main thread by SIGURG (ignored
by default, so a process whose handler has gone is not harmed). The target answers by writing
``reply`` last. No socket, no thread, no descriptor in the target.
"""

import contextlib
import fcntl
import mmap
import os
import signal
import time
from typing import NamedTuple

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.format import meanings, request
from frostline.reach import files, linux, proc, segments

_MASK = (1 << 64) - 1
_WORD = layout.WORD
_STATUS = dict(meanings.REPLIES)
#: How often a busy process is asked again, seconds.
_BUSY_PAUSE = 0.01
#: How often a process that has not answered is signalled again, seconds. CPython can lose one: a signal
#: that lands between the end of a handler and the system call that is then resumed sets a flag which
#: nobody looks at before that call returns.
AGAIN = 0.05


class Reply(NamedTuple):
    """An answer. ``status`` is a REPLY_*; REPLY_NONE means none within the time given."""

    status: int
    result: int
    number: int
    #: What the target said in words, where it was asked with a text.
    text: str = ""

    @property
    def done(self) -> bool:
        return self.status == layout.REPLY_DONE

    @property
    def detail(self) -> str:
        if self.status == layout.REPLY_NONE:
            return "no answer: its main thread is in C"
        if self.text and self.status == layout.REPLY_REFUSED:
            return f"refused: {self.text}"
        if self.text and self.status == layout.REPLY_ERROR:
            return f"failed inside the target: {self.text}"
        return _STATUS.get(self.status, f"status {self.status}")


class Mailbox:
    """One process's words, mapped. Use as a context manager."""

    def __init__(self, path: str, pid: int = 0) -> None:
        """Args:
            path: the first segment of the process's series.
            pid: the process's number here, if it lives in another pid namespace.

        Raises:
            FrostlineError: it is gone, was replaced, or answers no requests.
        """
        try:
            self._file = files.open_regular(path, os.O_RDWR)
        except OSError as error:
            raise FrostlineError(
                "no-mailbox", f"cannot open {path}: {error.strerror}", "Ask as the user who runs the process."
            ) from error
        try:
            # Of the file that is mapped: another one may have that name by now.
            header = segments.parse_header(os.pread(self._file, layout.HEADER_SIZE, 0))
            if header is None or header.segment != 0:
                raise ValueError
            self._map = mmap.mmap(self._file, layout.HEADER_SIZE)
        except (OSError, ValueError) as error:  # ValueError of mmap: it is being truncated
            os.close(self._file)
            raise FrostlineError(
                "no-mailbox",
                f"{path} is not the first segment of a recording",
                "Ask a process that `frostline status` lists as recorded.",
            ) from error
        self.pid = pid or header.pid
        self.start_ticks = header.process_start
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("Q")

    def __enter__(self) -> "Mailbox":
        return self

    def __exit__(self, *_: object) -> None:
        self._words.release()
        self._bytes.release()
        self._map.close()
        os.close(self._file)

    def word(self, name: str) -> int:
        """A live word's value."""
        return self._words[_WORD[name]]

    @property
    def alive(self) -> bool:
        """Whether the pid is still the process that wrote the header."""
        now = proc.stat(self.pid)
        return now is not None and now.alive and now.start_ticks == self.start_ticks

    def _check(self) -> None:
        if not self.alive:
            raise FrostlineError(
                "process-gone", f"process {self.pid} has ended", "Nothing to do: ask one that is alive."
            )
        if self.word("handler") != 1 or self.word("state") != layout.STATE_RECORDING:
            raise FrostlineError(
                "no-control",
                f"process {self.pid} answers no requests: control is off in it",
                "Start it without --no-control, or use `frostline attach`.",
            )

    def request(self, op: int, args: tuple[int, ...] = (), text: "bytes | None" = None) -> int:
        """Writes a request, wakes the process, and returns the request's number.

        Args:
            text: for OP_POLICY and OP_LOOK, at most ``request.TEXT_SIZE`` bytes; its length and checksum are
                the first two arguments then, and ``args`` those behind them.

        Raises:
            FrostlineError: ``long-request``: behind the room for it stand the header's own texts.
        """
        if text is not None and len(text) > request.TEXT_SIZE:
            raise FrostlineError(
                "long-request",
                f"what is asked takes {len(text)} bytes, and a process has room for {request.TEXT_SIZE}",
                "Nothing was asked. Is the name of the class right? One so long cannot be asked for.",
            )
        self._check()
        number = (self.word("request") + 1) & _MASK
        # A target that is just taking up an older request must not do its operation with our arguments.
        self._words[_WORD["opcode"]] = 0
        if text is not None:
            self._bytes[request.TEXT : request.TEXT + len(text)] = text
            args = (len(text), request.checksum(text), *args)
        for position, name in enumerate(("arg0", "arg1", "arg2")):
            self._words[_WORD[name]] = (args[position] if position < len(args) else 0) & _MASK
        self._words[_WORD["opcode"]] = op
        self._words[_WORD["request"]] = number
        self.wake()
        return number

    def wake(self) -> None:
        """Signals the main thread. Start ticks are looked at just before: a pid is used again."""
        self._check()
        linux.signal_thread(self.pid, self.pid, signal.SIGURG)

    def answer(self, number: int) -> "Reply | None":
        """The answer to a request if it is there."""
        if self.word("reply") != number:
            return None
        result = self.word("result")
        return Reply(self.word("status"), result - (1 << 64) if result >> 63 else result, number)

    def text(self) -> str:
        """The text of the last reply that had one."""
        data = bytes(self._bytes[request.TEXT : request.TEXT + request.TEXT_SIZE])
        return data.partition(b"\0")[0].decode("utf-8", "replace")

    def wait(self, number: int, until: float) -> "Reply | None":
        """The answer, or None at ``until`` (time.monotonic()). Signals again while it waits."""
        pause = 0.0002
        again = time.monotonic() + AGAIN
        while True:
            found = self.answer(number)
            now = time.monotonic()
            if found is not None or now >= until or not self.alive:
                return found
            if now >= again and self.word("request") == number:
                with contextlib.suppress(FrostlineError, OSError):  # it is ending: seen at the next look
                    self.wake()
                again = now + AGAIN
            time.sleep(min(pause, max(0.0, until - now)))
            pause = min(pause * 2, 0.01)

    def locked(self, until: float) -> bool:
        """Takes the callers' lock (two commands at once); released by closing."""
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= until:
                    return False
                time.sleep(0.005)
            else:
                return True

    def unlock(self) -> None:
        """Lets other callers ask."""
        fcntl.flock(self._file, fcntl.LOCK_UN)


def send(
    path: str,
    op: int,
    args: tuple[int, ...] = (),
    timeout: float = 2.0,
    pid: int = 0,
    text: "bytes | None" = None,
) -> Reply:
    """Asks one process and waits for its answer.

    Args:
        path: the first segment of the process's series, in the active folder.
        op: OP_*.
        args: at most three integers of 64 bits, one where there is a text.
        timeout: seconds; a busy process (inside a pass) is asked again within them.
        pid: the process's number here, if it lives in another pid namespace.
        text: as in ``Mailbox.request``.

    Returns:
        The reply; status REPLY_NONE if none came. The request then stays in the mailbox and is
        answered when the main thread comes back from C.

    Raises:
        FrostlineError: ``no-mailbox``, ``process-gone`` or ``no-control``.
    """
    until = time.monotonic() + timeout
    with Mailbox(path, pid) as box:
        if not box.locked(until):
            return Reply(layout.REPLY_BUSY, 0, 0)
        busy = None
        while True:
            number = box.request(op, args, text)
            found = box.wait(number, until) or busy
            if found in (None, busy) and not box.alive:
                raise FrostlineError(
                    "process-gone",
                    f"process {box.pid} ended before it answered",
                    "Nothing to do: ask one that is alive.",
                )
            if found is None:
                return Reply(layout.REPLY_NONE, 0, number)
            if found.status != layout.REPLY_BUSY or time.monotonic() + _BUSY_PAUSE >= until:
                said = "" if text is None else box.text()
                if found.status == layout.REPLY_ERROR and said.encode() == text:
                    said = ""  # what was asked stands there still
                return found._replace(text=said)
            busy = found
            time.sleep(_BUSY_PAUSE)
