"""A file of lines that one interpreter of one process writes into the session's folder.

Each line is written at once, so that a killed process has told all up to it. The descriptor is checked
before each write, since a host that closes "all" descriptors may have got its number for a file of its own.
"""

import os

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Lines:
    """The file, or none: then nothing is written. In a forked child ``open`` it anew."""

    __slots__ = ("_descriptor", "_file")

    def __init__(self) -> None:
        self._descriptor = -1
        self._file = (0, 0)

    def open(self, path: str, head: str) -> None:
        """Makes the file, its first line in it; the one before, a parent's, is left to the parent.

        Raises:
            OSError: it cannot be made, and nothing is written from now on.
        """
        self.close()
        descriptor = os.open(path, _FLAGS, 0o600)
        about = os.fstat(descriptor)
        self._file = (about.st_dev, about.st_ino)
        self._descriptor = descriptor
        self.write(head)

    def write(self, line: str) -> int:
        """Writes a line, which holds no other end of a line than its own; returns its bytes, 0 if there is
        no file.

        Raises:
            OSError: as ``os.write``.
        """
        if not self.mine():
            self._descriptor = -1
            return 0
        data = line.encode("utf-8", "replace") + b"\n"
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        return len(data)

    def mine(self) -> bool:
        """Whether there is a file, and the descriptor is still that file's."""
        if self._descriptor < 0:
            return False
        try:
            about = os.fstat(self._descriptor)
        except OSError:
            return False
        return (about.st_dev, about.st_ino) == self._file

    def close(self) -> None:
        """Nothing is written any more."""
        if self.mine():
            os.close(self._descriptor)
        self._descriptor = -1
