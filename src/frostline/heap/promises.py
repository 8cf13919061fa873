"""What code that is not to feed the collector promises, checked: no cyclic garbage, and released at once.

The fixtures ``no_cycles`` and ``released`` of the pytest plugin are these two. They need no pytest, so they
work in a process that has none: a server under test, an interpreter of another version.
"""

import gc
from _weakref import ref

from frostline.heap import edges, hang
from frostline.heap.cycles import cycles_of
from frostline.heap.saved import let_go, saved_pass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

#: Cycles shown where an object lives by cycles alone.
SHOWN = 5


class Broken(AssertionError):
    """A promise was not kept; the text names the cycle, or who holds the object."""


class NoCycles:
    """``with NoCycles():`` raises ``Broken`` if the block leaves cyclic garbage.

    Automatic passes are held back in it, so that none takes the garbage away before it is seen; an
    explicit one in the block does take it away.

    Args:
        allow: a text, or several, of paths or patterns of cycles that may be there.
    """

    __slots__ = ("_allow", "_enabled")

    def __init__(self, allow: "str | tuple[str, ...]" = ()) -> None:
        # A text alone is one text: each of its letters would excuse every cycle.
        self._allow = (allow,) if isinstance(allow, str) else tuple(allow)
        self._enabled = False

    def begin(self) -> None:
        """The block begins."""
        gc.collect()
        self._enabled = gc.isenabled()
        gc.disable()

    def check(self) -> None:
        """The block is over; raises ``Broken``."""
        saved = saved_pass()
        told = cycles_of(saved)
        let_go(saved)
        bad = [
            one for one in told.kinds if not any(text in f"{one.path} {one.pattern}" for text in self._allow)
        ]
        if bad:
            lines = ["cyclic garbage was made, which only the collector can free:"]
            for one in bad:
                lines.append(f"  {one.count:,} x  {one.path}")
                if one.pattern:
                    lines.append(f"      {one.pattern}: {one.remedy}")
            raise Broken("\n".join(lines))

    def restore(self) -> None:
        """The collector is as it was before the block."""
        if self._enabled:
            gc.enable()

    def __enter__(self) -> "NoCycles":
        self.begin()
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        try:
            if kind is None:  # else what the block raised is the news, and holds its frames
                self.check()
        finally:
            self.restore()


class Released:
    """Objects that must die at once, by their reference count.

    The collector is to be off from the first of them until ``check``, or it may free them.
    """

    __slots__ = ("_watched",)

    def __init__(self) -> None:
        self._watched: list[tuple[str, ref[Any]]] = []

    def __call__(self, one: object) -> "Callable[[], None]":
        """Watches an object; returns ``check``, to be called once the test has let go of it.

        Raises:
            TypeError: it cannot be weakly referenced.
        """
        self._watched.append((edges.named(type(one)), ref(one)))
        return self.check

    def check(self) -> None:
        """Raises ``Broken`` if any of them is alive, and says by a cycle or by whom."""
        alive = [(name, one) for name, one in self._watched if one() is not None]
        self._watched = []
        if alive:
            raise Broken(_why_alive(alive))


def _why_alive(alive: "list[tuple[str, ref[Any]]]") -> str:
    saved = saved_pass()
    inside = {id(one) for one in saved.objects}
    gone = [name for name, one in alive if one() is None or id(one()) in inside]
    told = cycles_of(saved)
    let_go(saved)
    # The pass found what all before had left as well: what names the class comes first, alone if it is there.
    kinds = [kind for kind in told.kinds if any(name in kind.path for name in gone)] or told.kinds
    lines = []
    for name, one in alive:
        target = one()
        if target is None or name in gone:
            lines.append(f"{name} was alive, by cycles alone: the collector would free it")
        else:
            lines.append(f"{name} is alive, held by {hang.way(target)}")
    lines += [f"  {kind.count} x  {kind.path}" for kind in kinds[:SHOWN]]
    return "\n".join(lines)
