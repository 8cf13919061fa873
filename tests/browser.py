"""Drives a headless Chromium through its debugging pipe: no network, no library, no fixed port.

``--remote-debugging-pipe`` speaks the DevTools protocol on descriptors 3 (to it) and 4 (from it), one
JSON text after another, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: Seconds that any answer may take on a busy machine.
LIMIT = 120.0
#: Puts the two pipes where Chromium looks for them, in a process of its own.
_PLACE = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


#: Key -> its code, its number, the text that it types.
KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "+": ("Equal", 187, "+"),
    "0": ("Digit0", 48, "0"),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "Home": ("Home", 36, ""),
}


class BrowserError(Exception):
    """It did not answer, or said that something failed."""


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self, profile: str) -> None:
        assert CHROMIUM is not None
        to_it, ours = os.pipe()
        self._from, its = os.pipe()
        # Out of the way of 3 and 4, which they may have got.
        high = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10) for number in (to_it, its)]
        flags = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PLACE, *map(str, high), CHROMIUM, *flags, f"--user-data-dir={profile}"],
            pass_fds=high,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for number in (*high, to_it, its):
            os.close(number)
        self._to = os.fdopen(ours, "wb")
        self._buffer = bytearray()
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait(self, method: str) -> dict[str, Any]:
        """The first event of this name that has not been waited for."""
        while True:
            for i, event in enumerate(self.events):
                if event.get("method") == method:
                    return self.events.pop(i)
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + LIMIT
        while (end := self._buffer.find(0)) < 0:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self._from, 1 << 20) if ready else b""
            if not piece:
                raise BrowserError("no answer" if not ready else "it is gone")
            self._buffer += piece
        message: dict[str, Any] = json.loads(self._buffer[:end])
        del self._buffer[: end + 1]
        return message

    def close(self) -> None:
        with contextlib.suppress(BrowserError, OSError):
            self.call("Browser.close")
        with contextlib.suppress(OSError):
            self._to.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)


class Page:
    """One tab."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        # A window without a screen never has the focus: its elements would get no event of it.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self._session, **parameters)

    def size(self, width: int, height: int = 900) -> None:
        """The window's, in CSS pixels; under 600 it is a phone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, file: Path) -> None:
        """Loads it; returns when its load event has fired."""
        self.call("Page.navigate", url=file.as_uri())
        self.browser.wait("Page.loadEventFired")

    def do(self, script: str) -> Any:
        """The value of an expression, waited for if it is a promise."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise BrowserError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def key(self, key: str) -> None:
        """Presses a key and lets it go: one of KEYS."""
        code, number, text = KEYS[key]
        same = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **same, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **same)

    def failures(self) -> list[str]:
        """What the page threw or complained of since it was last asked."""
        found = [
            e for e in self.browser.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
        ]
        self.browser.events = [e for e in self.browser.events if e not in found]
        return [json.dumps(event["params"])[:500] for event in found]

    def picture(self, file: Path, whole: bool = True) -> None:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def pdf(self, file: Path) -> None:
        """A4, as a reader prints it."""
        data = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]
        file.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def page() -> Iterator[Page]:
    """A tab of a browser of its own, both gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="frostline-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            yield Page(browser)
        finally:
            browser.close()
