"""Reading a session's files, whatever somebody has put there.

A session is copied about, cut off, damaged, and has foreign files beside its own: everything in
``reach`` that reads one reads through here. No reader waits, follows a link, or takes more memory
than a file of ours can need; each gets what is not there as ``OSError`` or as nothing.
"""

import errno
import json
import os
import stat
from typing import Any

#: Larger than any file that we write: segments are at most 1 MiB, notes of thousands of processes less.
MOST = 64 << 20


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file.

    Raises:
        OSError: it is not there, is no regular file (a FIFO would wait for its writer), or a link.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def read(path: str, limit: int = 0) -> bytes:
    """What a file holds.

    Args:
        limit: how much of it is wanted; 0 for all.

    Raises:
        OSError: it cannot be read, or all of it is wanted and it is larger than `MOST`.
    """
    descriptor = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        if limit:
            return file.read(limit)
        if os.fstat(descriptor).st_size > MOST:
            raise OSError(errno.EFBIG, "larger than any file that we write", path)
        return file.read(MOST)


class Note:
    """An object of a JSON file: each field as the type that it should have, or as nothing."""

    def __init__(self, value: object = None) -> None:
        self._value: dict[str, Any] = value if isinstance(value, dict) else {}

    def __bool__(self) -> bool:
        return bool(self._value)

    def number(self, key: str) -> int:
        """An integer, 0 if it is none."""
        value = self._value.get(key)
        sound = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**64
        return value if sound and isinstance(value, int) else 0

    def optional(self, key: str) -> "int | None":
        """An integer, None if it is none."""
        return self.number(key) if isinstance(self._value.get(key), int) else None

    def true(self, key: str) -> bool:
        """Whether it is true; anything but a boolean is not."""
        return self._value.get(key) is True

    def text(self, key: str) -> str:
        """A text, empty if it is none."""
        value = self._value.get(key)
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> list[str]:
        """The texts of a list."""
        return [item for item in self._list(key) if isinstance(item, str)]

    def numbers(self, key: str) -> list[int]:
        """The integers of a list."""
        return [item for item in self._list(key) if isinstance(item, int)]

    def notes(self, key: str) -> "list[Note]":
        """The objects of a list."""
        return [Note(item) for item in self._list(key) if isinstance(item, dict)]

    def note(self, key: str) -> "Note":
        """An object, an empty one if it is none."""
        return Note(self._value.get(key))

    def items(self) -> "list[tuple[str, Note]]":
        """The objects in it, by key."""
        return [(key, Note(item)) for key, item in self._value.items() if isinstance(item, dict)]

    def _list(self, key: str) -> list[Any]:
        value = self._value.get(key)
        return value if isinstance(value, list) else []


def read_notes(folder: str, prefix: str) -> "list[Note]":
    """``PREFIX*.json`` of a session. One that cannot be read is an empty note."""
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.startswith(prefix) and name.endswith(".json"):
            try:
                found.append(Note(json.loads(read(os.path.join(folder, name)))))
            except (OSError, ValueError, RecursionError):
                found.append(Note())
    return found
