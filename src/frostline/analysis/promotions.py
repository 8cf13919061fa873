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
class PromotedFrom:
    """Objects of one type that one line allocated, as tracemalloc tells (B9).

    Attributes:
        file, line: where.
        name: of the type: module and qualified name.
        share: of the objects that tracemalloc was asked about, those that it does not know included.
        objects: of them before a gen-1 pass, mean over the samples in which it was asked.
        samples: in how many it was among the most frequent.
    """

    file: str
    line: int
    name: str
    share: float
    objects: float
    samples: int


@dataclass(frozen=True)
class Allocated:
    """Where the objects came from that stood in generation 1 just before gen-1 passes.

    Attributes:
        samples: censuses in which tracemalloc was asked.
        asked: objects that it was asked about. unknown: those of which it knows nothing, since they were
            allocated before it was on; on 3.11 instances of classes in Python too.
        cost: ns that asking took, a part of the cost of the censuses.
        sites: those that were written down, six of each census at most; the most frequent first.
    """

    samples: int
    asked: int
    unknown: int
    cost: int
    sites: tuple[PromotedFrom, ...]


@dataclass(frozen=True)
class Promotions:
    """What stood in generation 1 just before gen-1 passes, by type; the most frequent first.

    Attributes:
        samples: censuses taken.
        objects: in generation 1, mean of them.
        cost, longest: ns that they took of the main thread, together and at most.
        types: those that were written down, six of each census at most.
        allocated: None where tracemalloc was off.
    """

    samples: int
    objects: float
    cost: int
    longest: int
    types: tuple[PromotedType, ...]
    allocated: Allocated | None = None


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
    sizes = {time: marks[0].values[3] for time, marks in censuses.items()}
    told = (len(censuses), size / len(censuses), sum(costs), max(costs), tuple(types))
    return Promotions(*told, _allocated(series, sizes))


def _allocated(series: Series, sizes: dict[int, int]) -> Allocated | None:
    """What tracemalloc said at the censuses; ``sizes`` are their objects by time."""
    asked: dict[int, list[Mark]] = defaultdict(list)
    for mark in series.marks:
        if mark.kind == fmt.MARK_ALLOCATED and mark.time in sizes:
            asked[mark.time].append(mark)
    if not asked:
        return None
    firsts = [marks[0].values for marks in asked.values()]
    looked = sum(values[2] for values in firsts)
    count: dict[tuple[str, int, str], int] = defaultdict(int)
    objects: dict[tuple[str, int, str], float] = defaultdict(float)
    seen: dict[tuple[str, int, str], int] = defaultdict(int)
    for time, marks in asked.items():
        for mark in marks:
            name, of_it, of, _, _ = mark.values
            if name and of > 0:
                key = (mark.file, mark.line, series.name(name))
                count[key] += of_it
                objects[key] += of_it * sizes[time] / of
                seen[key] += 1
    sites = [
        PromotedFrom(*key, number / max(1, looked), objects[key] / len(asked), seen[key])
        for key, number in sorted(count.items(), key=lambda item: -item[1])
    ]
    unknown, cost = sum(values[3] for values in firsts), sum(max(0, values[4]) for values in firsts)
    return Allocated(len(asked), looked, unknown, cost, tuple(sites))
