"""Where an object hangs: a short way to it from a module or a thread's frame. Backwards, a layer at a time.

One ``gc.get_referrers`` for a whole layer is one walk of the heap in C, 10 to 30 ms a million objects. What
is frozen is not walked by it: for a way through frozen objects a walk forward is needed (``heap.forward``).
"""

import gc
import time

from frostline.heap import edges, forward, roots, ways
from frostline.heap.referents import Referents
from frostline.heap.ways import Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from frostline.heap.forward import Walk
    from frostline.heap.roots import Roots

#: Steps back at most, and objects in one layer.
DEPTH = 64
WIDTH = 5_000
#: Objects of one layer whose holders the interpreter is asked for: it compares each referent in the heap
#: with each of these (0.02 s for 1 of them and 0.2 s for 200, in a heap of a million). For more of them ids
#: are looked up in a set, which takes 0.3 to 0.5 s for any number.
FEW = 300
#: Objects whose referents are looked through at one go.
_CHUNK = 256

#: What nobody who looks for holders can see, beside C code.
_UNSEEN = "a running function beside its variables, what the collector does not track (an array of numpy)"


def found(objects: "list[object]", until: float = float("inf"), walk: "Walk | None" = None) -> "list[Way]":
    """The way to each object; where there is none, why. Of those that were not looked for by ``until``
    (``time.monotonic``) the text is empty.

    Args:
        objects: this list, and the walk, are the only things of the caller's that hold them.
        walk: a walk forward: it is asked first, and then emptied.
    """
    here = walk.roots if walk is not None else roots.Roots()
    told: list[Way | None] = [None] * len(objects)
    if walk is not None:
        # One at a time, and no chain is kept: what held the objects would be found as their holder.
        for number, chain in walk.chains(objects, until).items():
            if len(chain) > 1 or here.is_module(chain[0]):  # else a variable of a running function is all
                told[number] = _from_root(here, chain)
            chain.clear()
        walk.drop()
    for number, way in enumerate(told):
        if way is None:
            told[number] = _back(objects, number, until, here)
    return [way for way in told if way is not None]


def way(target: object) -> str:
    """The shortest way found from a root to one object, in words; looks for a few seconds at most."""
    (one,) = found([target], time.monotonic() + 5.0)
    return one.text or "something that was not found within 5 s"


def _from_root(here: "Roots", chain: "list[object]") -> Way:
    root = here.words(chain[0]) or "a variable of a function that has gone on since"
    return ways.told(root, chain, module=here.is_module(chain[0]))


def _back(objects: "list[object]", number: int, until: float, here: "Roots") -> Way:
    """From an object of the list back to a root."""
    target = objects[number]
    #: id -> what it leads to on the way to the target; the object itself is kept while we look.
    leads: dict[int, object] = {id(target): None}
    layer: list[object] = [target]
    keep: list[object] = []
    referents = Referents()
    #: What nothing that is tracked holds.
    ends: list[object] = []
    own = {id(objects), id(leads), id(layer), id(keep), id(ends)}
    around = False
    #: A running function that has it in a variable: so does every function that is at work on it just now,
    #: and who keeps it is another. That is looked for too.
    now: Way | None = None
    for depth in range(DEPTH):
        if time.monotonic() >= until:
            return now or Way("")
        for one in layer:
            root = here.words(one)
            if root and not depth and not here.is_module(one):
                now = ways.told(root, [one])
            elif root:
                way = ways.told(root, _chain(one, leads), module=here.is_module(one))
                return Way(f"{way.text}, and now by {now.text}", *_both(way)) if now is not None else way
        # A tuple, which is handed on as it is: from 3.15 on the call's own is told as a holder.
        before = tuple(layer[:WIDTH])
        keep.append(before)
        layer = []
        wanted = {id(one): one for one in before}
        own.update((id(before), id(wanted), id(layer)))
        holders = _holders(before, wanted, referents, until)
        own.add(id(holders))
        held: set[int] = set()
        running = roots.running_ids() if any(type(one) is edges.Frame for one in holders) else set()
        for one in holders:
            # Up to 3.10 a running frame is found too: its variables are looked at as roots.
            if id(one) in own or id(one) in running:
                continue
            hit = wanted.keys() & map(id, referents.of([one]))
            held |= hit
            if id(one) in leads:
                around = True
            elif hit:  # else another thread has changed it
                leads[id(one)] = wanted[hit.pop()]
                layer.append(one)
        ends.extend(one for one in before if id(one) not in held)
        del holders, one  # which may be our own frame
        if not layer and time.monotonic() < until:
            return now or _nowhere(target, ends, leads, around)
    return now or Way(f"no way of {DEPTH} steps from a module or a thread's frame")


def _holders(
    before: "tuple[object, ...]", wanted: "dict[int, object]", referents: Referents, until: float
) -> "list[object]":
    """What refers to one of these: of what is tracked and not frozen."""
    if len(before) <= FEW:
        return gc.get_referrers(*before)
    found: list[object] = []
    for generation in range(3):
        _holders_among(gc.get_objects(generation=generation), wanted, referents, until, found)
    return found


def _holders_among(
    objects: "list[object]",
    wanted: "dict[int, object]",
    referents: Referents,
    until: float,
    found: "list[object]",
) -> None:
    ids = wanted.keys()
    for start in range(0, len(objects), _CHUNK):
        if time.monotonic() >= until:
            return
        some = objects[start : start + _CHUNK]
        if not ids.isdisjoint(map(id, referents.of(some))):
            found.extend(one for one in some if not ids.isdisjoint(map(id, referents.of([one]))))


def _chain(first: object, leads: "dict[int, object]") -> "list[object]":
    chain = [first]
    while (to := leads[id(chain[-1])]) is not None:
        chain.append(to)
    return chain


def _nowhere(target: object, ends: "list[object]", leads: "dict[int, object]", around: bool) -> Way:
    """Where the search ended before it came to a root."""
    unseen = _UNSEEN + (", a frozen object" if forward.frozen_count() else "")
    # A context says more than others about who holds it.
    contexts = (one for one in ends if edges.of_contextvars(type(one)) == "Context")
    first = next(contexts, ends[0] if ends else None)
    if first is target or (first is None and not around):
        return Way(f"held from C, or by what is not seen: {unseen}")
    if first is not None:
        told = ways.told("", _chain(first, leads))
        if edges.of_contextvars(type(first)) == "Context":
            return Way(f"{told.text}: a context that only C holds, as a thread does its own", *_both(told))
        return Way(f"{told.text}; who holds that first one is not seen: C code, {unseen}", *_both(told))
    return Way(
        "no way of any length: held by a cycle of its own alone, which is garbage for a later pass, or from"
        " C, or from a frozen object"
    )


def _both(told: Way) -> "tuple[str, str]":
    return told.pattern, told.remedy
