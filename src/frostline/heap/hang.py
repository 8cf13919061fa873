"""Where an object hangs: a short way to it from a module or a thread's frame. Backwards, a layer at a time.

One ``gc.get_referrers`` for a whole layer is one walk of the heap in C, 10 to 30 ms a million objects. What
is frozen is not walked by it, so a way that runs through frozen objects is not found, and is said to be so.
"""

import gc
import sys
import time

from frostline.heap import edges, frames
from frostline.probe.kinds import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: Steps back at most, objects in one layer that may be roots, and those of it whose holders are looked for:
#: each referent in the heap is compared with each of these (5,000 took 20 s where 200 take 1).
DEPTH = 8
WIDTH = 5_000
WALKED = 200


def ways(objects: "list[object]", until: float = float("inf")) -> "list[str]":
    """A way in words to each object; where none was found, why. Of those that were not looked for by
    ``until`` (``time.monotonic``) the text is empty."""
    in_variables = _in_variables()
    return [way(one, until, in_variables) for one in objects]


def way(target: object, until: float = float("inf"), in_variables: "set[int] | None" = None) -> str:
    """The shortest way found from a root, as ``module.name['key'][3]``; empty if there was no time.
    ``in_variables``: what ``_in_variables`` says, where that has been asked already."""
    if in_variables is None:
        in_variables = _in_variables()
    owners = _module_dicts()
    own = {id(sys._getframe()), id(owners)}
    #: id -> what it leads to on the way to the target; the object itself is kept while we look.
    leads: dict[int, object] = {id(target): None}
    layer: list[object] = [target]
    keep: list[object] = []
    around = False
    for _ in range(DEPTH):
        if time.monotonic() >= until:
            return ""
        for one in layer:
            module = owners.get(id(one))
            if module is not None:
                return _told(module, one, leads)
            # The set first: a server of 50 threads has a thousand frames, a layer thousands of objects.
            holder = _frames_holding(one) if id(one) in in_variables else ""
            if holder:
                return _told(holder, one, leads)
        # A tuple, which is handed on as it is: from 3.15 on the call's own is told as a holder.
        before = tuple(layer[:WALKED])
        keep.append(before)
        layer = []
        wanted = {id(one): one for one in before}
        own.update((id(before), id(wanted), id(leads), id(keep), id(layer)))
        found = gc.get_referrers(*before)
        own.add(id(found))
        for one in found:
            around = around or id(one) in leads
            if id(one) in leads or id(one) in own or type(one) is edges.Frame:
                continue
            for held in gc.get_referents(one):
                if id(held) in wanted:
                    leads[id(one)] = held
                    layer.append(one)
                    break
            if len(layer) >= WIDTH:
                break
        del found, one  # which may be our own frame
        if not layer and around:
            return (
                "no way of any length: held by a cycle of its own alone, which is garbage for a later pass,"
                " or from C, or from a frozen object"
            )
        if not layer:
            return "held from C, from a frozen object, or by nothing that the collector tracks"
    return f"no way of {DEPTH} steps from a module or a thread's frame"


def _module_dicts() -> "dict[int, str]":
    found: dict[int, str] = {}
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType):
            owned = edges.names_of(module)
            found[id(owned)] = str(name)
    return found


def _frames_holding(one: object) -> str:
    """The running function of any thread that has it in a variable, as ``name (file:line)``."""
    for at in _running():
        for name, value in frames.variables(at).items():
            if value is one:
                where = edges.place(at.f_code, at.f_lineno or 0)
                return f"{at.f_code.co_name} ({where}) variable {name}"
    return ""


def _in_variables() -> "set[int]":
    """Ids of what is in a variable of a running function. Threads go on: what it says is to be looked up."""
    return {id(value) for at in _running() for value in frames.variables(at).values()}


def _running() -> "Iterator[FrameType]":
    """The frames of all threads, without those of modules, whose variables are found as the module's, and
    without ours.
    """
    # Our own frame is among them, and in a variable of its own it would be a cycle that keeps all it holds:
    # the next look at this process would find it. What called us holds no way back to us.
    found = {id(top): top for top in sys._current_frames().values()}
    own = found.pop(id(sys._getframe()), None)
    tops = list(found.values())
    if own is not None and own.f_back is not None:
        tops.append(own.f_back)
    del own, found
    at: FrameType | None
    while tops:
        at = tops.pop()
        while at is not None:
            if at.f_code.co_name != "<module>" and not at.f_code.co_filename.startswith(_OURS):
                yield at
            at = at.f_back


_OURS = __file__.rsplit("/", 2)[0]


def _told(root: str, first: object, leads: "dict[int, object]") -> str:
    words = [root]
    at = first
    while True:
        to = leads[id(at)]
        if to is None:
            return "".join(words)
        link = edges.edge(at, to)
        if type(at) is dict and link.startswith("['") and len(words) == 1:
            link = "." + link[2:-2]
        if edges.heap_type(type(at)) and len(words) > 1:
            words.append(f" ({edges.node(at)})")
        words.append("" if link == ".__dict__" else link or "->")
        at = to
