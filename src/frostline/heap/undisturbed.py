"""A look at lists of the heap, with the collector off meanwhile.

Such a list is a young one, and a pass would walk all of it. Between the lists of two generations a pass
would move objects from the one to the other, where they were counted again.
"""

import gc

from frostline.policy import acts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Found = TypeVar("Found")


def undisturbed(look: "Callable[[], Found]") -> "Found":
    """What ``look`` returns. Whatever it does, the collector is on afterwards if it was before."""
    enabled = gc.isenabled()
    if enabled:
        acts.real("disable")()
    try:
        return look()
    finally:
        if enabled:
            acts.real("enable")()
