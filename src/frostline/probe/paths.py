"""``--span 'module:name=label batch=len(args[1].requests)'``: what a call tells, by a path and never by code.

    batch=PATH  stage=PATH  group=PATH      behind the label, a blank before each
    PATH        args[N], result, each with .name.name behind it; len(PATH) for how many

``args[0]`` of a method is its object. A path is read without running anything of the host's: only what an
object holds in its dictionary or its slots, never a property; ``len`` only of what counts itself in C.
Whatever is not there tells nothing. Loaded with ``spans`` only, and by ``frostline run`` to check.
"""

from frostline.format.told import STAGES
from frostline.probe.kinds import MemberDescriptorType, WrapperDescriptorType, mro, own_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: (whether its length is meant, which argument or -1 for the result, names).
    Path = tuple[bool, int, tuple[str, ...]]
    Told = tuple[tuple[str, Path], ...]

WORDS = ("batch", "stage", "group")
_SHAPE = "the form is len(args[1].name), args[0].name or result.name"
_MOST_ARGUMENTS = 64


def split(label: str) -> "tuple[str, Told]":
    """The label, and what behind it says what a call tells.

    Raises:
        ValueError: saying what is wrong and what was probably meant.
    """
    told: list[tuple[str, Path]] = []
    while True:
        head, blank, last = label.rpartition(" ")
        word, equals, text = last.partition("=")
        if not blank or not equals:
            break
        if word not in WORDS:
            raise ValueError(f"{word!r} is nothing that a span tells; there are {', '.join(WORDS)}")
        if word in [known for known, _ in told]:
            raise ValueError(f"{word!r} is given twice")
        told.append((word, parse(text)))
        label = head.rstrip()
    return label, tuple(reversed(told))


def parse(text: str) -> "Path":
    """One path.

    Raises:
        ValueError: as ``split``.
    """
    inner = text
    length = text.startswith("len(")
    if length:
        if not text.endswith(")"):
            raise ValueError(f"{text!r} has no ')' at its end; {_SHAPE}")
        inner = text[4:-1]
    first, *names = inner.split(".")
    if first == "result":
        place = -1
    elif first.startswith("args[") and first.endswith("]") and first[5:-1].isdecimal():
        place = int(first[5:-1])
        if place >= _MOST_ARGUMENTS:
            raise ValueError(f"{text!r}: no callable has so many arguments")
    else:
        raise ValueError(f"{text!r} begins with neither args[N] nor result; {_SHAPE}")
    for name in names:
        if not name.isidentifier():
            raise ValueError(f"{text!r}: {name!r} is not a Python name; {_SHAPE}")
    return length, place, tuple(names)


def follow(path: "Path", args: "tuple[Any, ...]", result: "Any") -> "Any":
    """What a path leads to, None where it leads nowhere. Runs nothing of the host's."""
    length, place, names = path
    if place < 0:
        value = result
    elif place < len(args):
        value = args[place]
    else:
        return None
    for name in names:
        value = _held(value, name)
    if not length:
        return value
    counted = getattr(type(value), "__len__", None)
    return len(value) if type(counted) is WrapperDescriptorType else None


def _held(value: "Any", name: str) -> "Any":
    """What an object holds under a name itself, in a slot or in its dictionary."""
    for base in mro(type(value)):
        raw = type.__dict__["__dict__"].__get__(base).get(name)
        if type(raw) is MemberDescriptorType:
            return raw.__get__(value)
    owned = own_dict(value)
    if owned is None:
        raise AttributeError(name)
    return owned.get(name)


def reader(told: "Told", number: "Callable[[int, int, int], int]") -> "Callable[..., int]":
    """A reader, as ``telling`` has them for servers that we know; ``number`` is ``telling.told``."""

    def read(args: "tuple[Any, ...]", result: "Any", name: "Callable[[str], int]") -> int:
        stage, batch, group = 0, -1, 0
        for word, path in told:
            value = follow(path, args, result)
            kind = type(value)
            if word == "batch":
                if kind is int:
                    batch = value
            elif word == "stage":
                if kind is not str:
                    value = _held(value, "_name_")  # a member of an enum
                if type(value) is str and value.lower() in STAGES:
                    stage = STAGES.index(value.lower())
            elif kind is str and value:
                group = name(value)
        return number(stage, batch, group)

    return read
