"""Whose what is frozen is: names, or objects that are not kept alive by it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def key(owner: object) -> object:
    """What stands for an owner in the table."""
    return owner if owner is None or isinstance(owner, (str, int)) else ("object", id(owner))


def claim(owners: "dict[object, object]", owner: object, given_up: "Callable[[], object]") -> None:
    """Remembers who asked, without keeping it alive. One that dies without ``shutdown`` has given up;
    ``given_up`` is called, maybe inside a pass, when the last one has.
    """
    name = key(owner)
    held: Any = None
    if isinstance(name, tuple):
        from _weakref import ref

        def gone(_: object) -> None:
            if owners.pop(name, None) is not None and not owners:
                given_up()

        try:
            held = ref(owner, gone)
        except TypeError:
            held = None  # no weak references to it: only shutdown(owner) ends its claim
    owners[name] = held if held is not None else True
