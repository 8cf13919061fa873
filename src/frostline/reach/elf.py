"""What a process has mapped, and the addresses of functions in it: from /proc and the files."""

import os
import struct
from typing import NamedTuple

from frostline.reach import proc

_PAGE = 4096
_LOAD, _EXECUTE = 1, 1
_DYNAMIC_SYMBOLS = 11
X86_64 = 62
_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


class Segment(NamedTuple):
    """A part of the file that is loaded: offset and sizes in the file, address before the bias."""

    executable: bool
    offset: int
    address: int
    size: int


class Image(NamedTuple):
    """One mapped ELF file."""

    #: As it is opened from here: /proc/PID/exe for the program, which may have been replaced on disk.
    path: str
    name: str
    machine: int
    #: What is added to an address of the file.
    bias: int
    segments: tuple[Segment, ...]

    @property
    def spare(self) -> list[tuple[int, int]]:
        """(address, bytes) behind the code, up to the end of its last page: mapped, executable, never run."""
        found = []
        for segment in self.segments:
            end = segment.address + segment.size
            if segment.executable and end % _PAGE:
                start = -(-end // 16) * 16
                found.append((self.bias + start, -(-end // _PAGE) * _PAGE - start))
        return found


def images(pid: int) -> list[Image]:
    """The ELF files that a process has mapped, by address; unreadable ones are left out."""
    program = proc.executable(pid)
    starts: dict[str, tuple[int, int, str]] = {}
    for line in proc.mapped(pid).splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        name = fields[5].removesuffix(" (deleted)")
        if name not in starts:
            starts[name] = int(fields[0].partition("-")[0], 16), int(fields[2], 16), fields[4]
    found = []
    for name, (start, offset, inode) in starts.items():
        path = f"/proc/{pid}/exe" if name == program else name
        try:
            if str(os.stat(path).st_ino) == inode:  # not one that was put in its place since
                image = _image(path, name, start, offset)
                found += [image] if image is not None else []
        except (OSError, ValueError, struct.error):
            continue
    return found


def _image(path: str, name: str, start: int, offset: int) -> "Image | None":
    with open(path, "rb") as file:
        head = file.read(_ELF.size)
        if len(head) < _ELF.size or head[:6] != b"\x7fELF\x02\x01":
            return None
        _, _, machine, _, _, table, _, _, _, size, count, _, _, _ = _ELF.unpack(head)
        file.seek(table)
        data = file.read(size * count)
    segments = []
    bias = None
    for number in range(count):
        kind, flags, at, address, _, length, _, _ = _SEGMENT.unpack_from(data, number * size)
        if kind == _LOAD:
            segments.append(Segment(bool(flags & _EXECUTE), at, address, length))
            if bias is None and at // _PAGE == offset // _PAGE:
                bias = start - address // _PAGE * _PAGE
    return Image(path, name, machine, bias, tuple(segments)) if bias is not None else None


def symbols(image: Image, wanted: tuple[str, ...]) -> dict[str, int]:
    """Addresses in the process of those of the names that the file exports."""
    return {name: place + image.bias for name, (place, _) in _exported(image.path, wanted).items()}


def sized_symbol(path: str, name: str) -> tuple[int, int]:
    """(address before the bias, bytes) of a name that a file exports; (0, 0) if it does not.

    Raises:
        OSError, struct.error: it cannot be read as ELF.
    """
    return _exported(path, (name,)).get(name, (0, 0))


def _exported(path: str, wanted: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    left = {name.encode() for name in wanted}
    found: dict[str, tuple[int, int]] = {}
    with open(path, "rb") as file:
        head = _ELF.unpack(file.read(_ELF.size))
        size, count = head[11], head[12]
        file.seek(head[6])
        table = file.read(size * count)
        sections = [_SECTION.unpack_from(table, number * size) for number in range(count)]
        for section in sections:
            if section[1] != _DYNAMIC_SYMBOLS:
                continue
            names = sections[section[6]]
            file.seek(names[4])
            texts = file.read(names[5])
            file.seek(section[4])
            data = file.read(section[5] // _SYMBOL.size * _SYMBOL.size)
            for name, _, _, place, value, length in _SYMBOL.iter_unpack(data):
                if place and name < len(texts):
                    text = texts[name : texts.find(b"\0", name)]
                    if text in left:
                        found[text.decode()] = value, length
    return found


def word(pid: int, address: int) -> int:
    """Eight bytes of a process's memory.

    Raises:
        OSError: they cannot be read.
    """
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int.from_bytes(os.pread(descriptor, 8, address), "little")
    finally:
        os.close(descriptor)
