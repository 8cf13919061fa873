"""Which types feed the promotion: the sampled censuses of generation 1, summed up (D5)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from frostline import format as fmt
from frostline.recording import Mark, Series


@dataclass(frozen=True)
class PromotedType:
    """One type among what was about to be promoted.

    Attributes:
        name: module and qualified name.
        share: of the objects in generation 1, mean over the samples by their size.
        objects: of it before a gen-1 pass, mean over all samples.
        samples: in how many it was among the most frequent.
    """

    name: str
    share: float
    objects: float
    samples: int


@dataclass(frozen=True)
class Promotions:
    """What stood in generation 1 just before gen-1 passes, by type; the most frequent first.

    Attributes:
        samples: censuses taken.
        objects: in generation 1, mean of them.
        cost, longest: ns that they took of the main thread, together and at most.
        types: those that were written down, six of each census at most.
    """

    samples: int
    objects: float
    cost: int
    longest: int
    types: tuple[PromotedType, ...]


def promotions(series: Series) -> Promotions | None:
    """None where nothing was sampled."""
    censuses: dict[int, list[Mark]] = defaultdict(list)
    for mark in series.marks:
        if mark.kind == fmt.MARK_PROMOTED:
            censuses[mark.time].append(mark)
    if not censuses:
        return None
    objects: dict[str, float] = defaultdict(float)
    seen: dict[str, int] = defaultdict(int)
    size = 0
    costs = []
    for marks in censuses.values():
        size += marks[0].values[3]
        costs.append(max(0, marks[0].values[4]))
        for mark in marks:
            name, of_it, looked, there, _ = mark.values
            if name and looked > 0:
                objects[series.name(name)] += of_it * there / looked
                seen[series.name(name)] += 1
    types = [
        PromotedType(name, count / max(1, size), count / len(censuses), seen[name])
        for name, count in sorted(objects.items(), key=lambda item: -item[1])
    ]
    return Promotions(len(censuses), size / len(censuses), sum(costs), max(costs), tuple(types))
