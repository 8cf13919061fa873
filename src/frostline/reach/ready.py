"""Is the server ready? By its health URL, by a line of its output, or by the clock."""

import contextlib
import os
import re
import shlex
import threading
import time
from typing import Any

from frostline import format as layout
from frostline.reach import linux

_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_LINE_LIMIT = 1 << 16
_PAUSE = 0.05
#: How often a health URL is asked, and how long one answer may take, seconds.
_URL_PERIOD = 0.5
_URL_TIMEOUT = 2.0


class Ready:
    """Watches for readiness; ``found`` is set once it is there."""

    def __init__(self, config: dict[str, Any], started: float) -> None:
        """Args:
        config: ``{"kind": "url", "url": ...}``, ``{"kind": "after", "seconds": ...}`` or
            ``{"kind": "log", "regex": ..., "files": [{"path", "offset", "stream"}]}``.
        started: time.monotonic() at the start of the command.
        """
        self.config = config
        self.found: dict[str, Any] | None = None
        #: What could not be passed on, for the session's notes.
        self.warnings: list[str] = []
        self._started = started
        self._last = ""
        self._lines: dict[str, int] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        if config["kind"] == "url":
            self._start(self._watch_url, config["url"])
        elif config["kind"] == "log":
            for file in config["files"]:
                self._start(self._follow, file)

    def _start(self, what: Any, argument: Any) -> None:
        thread = threading.Thread(target=what, args=(argument,), daemon=False)
        thread.start()
        self._threads.append(thread)

    def poll(self) -> "dict[str, Any] | None":
        """``{"kind", "at_ns", "detail", "option"}`` once it is ready."""
        if self.config["kind"] == "after" and self.found is None:
            seconds = self.config["seconds"]
            if time.monotonic() - self._started >= seconds:
                self._set(f"{seconds:g} s after the start")
        return self.found

    def pending(self, over: bool) -> dict[str, Any]:
        """What READY waits for, as ``poll`` has it but with ``at_ns`` 0.

        Args:
            over: whether it has ended in vain.
        """
        kind = self.config["kind"]
        if kind == "url":
            url = layout.redact([self.config["url"]])[0]
            last = f" (last: {self._last})" if self._last else ""
            detail = f"--ready-url {url} {'never answered' if over else 'has not answered'} 2xx or 3xx{last}"
        elif kind == "log":
            count = sum(self._lines.values())
            detail = f"--ready-log {self.config['regex']!r} matched none of {count} line{'s' * (count != 1)}"
        else:
            when = "all processes ended before it" if over else "not yet"
            detail = f"--ready-after {self.config['seconds']:g}s: {when}"
        return {"kind": kind, "at_ns": 0, "detail": detail, "option": self._option()}

    def _option(self) -> str:
        """The option of ``run`` that this is, to be typed again; empty if it holds a secret."""
        kind = self.config["kind"]
        value: str = self.config.get("url", "")
        if kind == "log":
            path = self.config.get("path", "")
            value = f"{path}:{self.config['regex']}" if path else self.config["regex"]
        elif kind == "after":
            value = f"{self.config['seconds']:g}s"
        return f"--ready-{kind} {shlex.quote(value)}" if layout.redact([value]) == [value] else ""

    def finish(self, seconds: "float | None" = None) -> None:
        """Ends the watching. Output that is passed on is passed on to its end first.

        Args:
            seconds: how long that is awaited; None for as long as it takes.
        """
        self._stop.set()
        until = time.monotonic() + (seconds or 0.0)
        for thread in self._threads:
            thread.join(None if seconds is None else max(0.0, until - time.monotonic()))

    def _set(self, detail: str) -> None:
        if self.found is None:
            self.found = {
                "kind": self.config["kind"],
                "at_ns": time.monotonic_ns(),
                "detail": detail,
                "option": self._option(),
            }

    def _watch_url(self, url: str) -> None:
        import urllib.error
        import urllib.request

        shown = layout.redact([url])[0]
        request = urllib.request.Request(*_with_credentials(url))
        # No proxy: a health URL is the server's own.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not self._stop.is_set():
            try:
                with opener.open(request, timeout=_URL_TIMEOUT) as answer:
                    self._set(f"{shown} answered {answer.status}")
                    return
            except urllib.error.HTTPError as error:
                self._last = f"it answered {error.code}"
            except Exception as error:  # refused, reset, half an answer: it is not ready
                self._last = _why(error)
            self._stop.wait(_URL_PERIOD)

    def _follow(self, file: dict[str, Any]) -> None:
        """Reads a growing file; passes it on where it stands in for a stream of the target's."""
        pattern = re.compile(self.config["regex"].encode())
        stream: int | None = file.get("stream")
        at = file["offset"]
        rest = b""
        done = 0
        descriptor = -1
        while True:
            last = self._stop.is_set()
            if descriptor < 0:
                with contextlib.suppress(OSError):
                    descriptor = os.open(file["path"], os.O_RDONLY if stream is None else os.O_RDWR)
            data = b""
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    if os.fstat(descriptor).st_size < at:
                        at = 0  # it was truncated: log rotation
                    data = os.pread(descriptor, 1 << 16, at)
            if not data:
                if last or (stream is None and self.found is not None):
                    break
                self._stop.wait(_PAUSE)
                continue
            if stream is not None and not _pass_on(stream, data):
                stream = None  # nobody reads it any more; the file has it
                name = os.path.basename(file["path"])
                self.warnings.append(f"the reader of the output had gone: from byte {at} on it is in {name}")
            if stream is not None:
                linux.punch(descriptor, at + len(data))
            at += len(data)
            if self.found is None:
                *lines, rest = (rest + data).split(b"\n")
                done += len(lines)
                self._lines[file["path"]] = done + bool(rest)
                rest = rest[-_LINE_LIMIT:]
                for line in (*lines, rest):
                    if pattern.search(_ANSI.sub(b"", line)):
                        shown = _ANSI.sub(b"", line)[:200].decode("utf-8", "replace").strip()
                        self._set(f"a line of {os.path.basename(file['path'])}: {shown}")
                        break
        if descriptor >= 0:
            os.close(descriptor)
        if stream is not None:
            os.close(stream)


def _with_credentials(url: str) -> tuple[str, None, dict[str, str]]:
    """What ``Request`` takes for a URL that may hold a user and a password: urllib knows no such."""
    import base64
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None, {}
    token = base64.b64encode(unquote(user).encode()).decode()
    return parts._replace(netloc=host).geturl(), None, {"Authorization": f"Basic {token}"}


def _why(error: Exception) -> str:
    """A failure in a few words; urllib wraps the one that says something."""
    reason = getattr(error, "reason", None)
    cause = reason if isinstance(reason, Exception) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {_URL_TIMEOUT:g} s"
    said = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return str(said)[:200]


def _pass_on(stream: int, data: bytes) -> bool:
    import select

    while data:
        try:
            data = data[os.write(stream, data) :]
        except BlockingIOError:
            select.select([], [stream], [], 1.0)
        except OSError:
            return False
    return True
