"""What each span tells beside its times, its own or of the spans with it: stage, batch size, a name (B11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.analysis.nested import Forest, forest
from frostline.analysis.steps import label_ids
from frostline.format import told
from frostline.recording import Series
from frostline.recording.layout import Array

#: Spans of a label, or of a group, that are too few to have a median to speak of.
FEW = 20
#: The bucket of a span that tells no batch size.
NO_BATCH = 255


@dataclass(frozen=True)
class Attributes:
    """One entry a span of the series, in its order."""

    #: Labels by number, and the number of each span's.
    texts: tuple[str, ...]
    label: Array
    #: A place in ``told.STAGES``.
    stage: Array
    #: -1 where none is told.
    batch: Array
    #: Names by number, the first one empty.
    names: tuple[str, ...]
    name: Array
    #: Spans that one thread ran, of labels that are not few: a span of the whole life of a thread would
    #: else be the only step there is.
    tree: Forest
    #: Whether any span tells anything.
    tells: bool


def attributes_of(series: Series) -> Attributes:
    """A span that tells nothing has what the outermost one with it tells, and an outermost one what the
    last span in it tells that tells a stage (else a batch size): of vLLM's engine step, the scheduler's
    output that it has waited for.
    """
    spans = series.spans
    texts, label = numbered(series, spans["label"])
    usual = np.bincount(label, minlength=len(texts)) >= FEW
    which = np.flatnonzero((spans["kind"] == fmt.SPAN_SYNC) & usual[label])
    tree = forest(spans["start"], spans["stop"], spans["thread"], which)
    flags = spans["flags"]
    n = len(flags)
    if not bool(np.any(flags & told.ANY)):
        nothing = np.broadcast_to(np.uint8(0), n)
        none = np.broadcast_to(np.int32(-1), n)
        return Attributes(texts, label, nothing, none, ("",), nothing, tree, False)
    stage = (flags & told.STAGE_MASK) >> told.STAGE_SHIFT
    stage[stage >= len(told.STAGES)] = 0
    batch = np.where(flags & told.FLAG_BATCH, spans["batch"], np.int32(-1))
    named = (flags & told.FLAG_GROUP) != 0
    names: tuple[str, ...] = ("",)
    name = np.zeros(n, np.uint32)
    if bool(np.any(named)):
        found, numbers = numbered(series, spans["group"][named])
        names = ("", *found)
        name[named] = numbers.astype(np.uint32) + 1
    _share(tree, stage, batch, name)
    return Attributes(texts, label, stage, batch, names, name, tree, True)


def numbered(series: Series, ids: Array) -> tuple[tuple[str, ...], Array]:
    """The texts of these name ids, and for each id the place of its text: ids of one text are one."""
    present = label_ids(ids)
    texts: dict[str, int] = {}
    of = np.array([texts.setdefault(series.name(int(i)), len(texts)) for i in present], np.int64)
    small = of.astype(np.uint16 if len(texts) < 2**16 else np.uint32)
    if not len(present):
        return (), small
    if int(present[-1]) < 1_000_000:
        table = np.zeros(int(present[-1]) + 1, small.dtype)
        table[present] = small
        return tuple(texts), table[ids]
    return tuple(texts), small[np.searchsorted(present, ids)]


def _share(tree: Forest, stage: Array, batch: Array, name: Array) -> None:
    """Fills what spans do not tell themselves from the others of their tree, in place."""
    if tree.flat:
        return
    which, inner = tree.which, ~tree.outermost
    above = which[tree.root]
    tells = (stage > 0) | (batch >= 0)
    silent = inner & ~tells[above]
    # Of several the last one stands, since numpy assigns in order: first those with a size alone.
    for best in (silent & (batch[which] >= 0), silent & (stage[which] > 0)):
        stage[above[best]], batch[above[best]] = stage[which[best]], batch[which[best]]
    named = inner & (name[above] == 0) & (name[which] > 0)
    name[above[named]] = name[which[named]]
    silent = inner & ~tells[which]
    stage[which[silent]], batch[which[silent]] = stage[above[silent]], batch[above[silent]]
    unnamed = inner & (name[which] == 0)
    name[which[unnamed]] = name[above[unnamed]]


# --- batch sizes ----------------------------------------------------------------------
def buckets(batch: Array) -> Array:
    """Each size by itself up to 15, then eight buckets a doubling; NO_BATCH where there is none."""
    size = np.maximum(batch, 1).astype(np.int64)
    power = np.floor(np.log2(size)).astype(np.int64)
    fine = 16 + (power - 4) * 8 + ((size >> np.maximum(power - 3, 0)) & 7)
    found: Array = np.where(batch < 0, NO_BATCH, np.where(batch < 16, batch, fine))
    return found


def sizes(bucket: int) -> tuple[int, int]:
    """The smallest and the largest size of a bucket; (-1, -1) of NO_BATCH."""
    if bucket == NO_BATCH:
        return -1, -1
    if bucket < 16:
        return bucket, bucket
    power, part = divmod(bucket - 16, 8)
    width = 1 << (power + 1)
    low = (1 << (power + 4)) + part * width
    return low, low + width - 1


def shown(bucket: int) -> tuple[int, int]:
    """The sizes that a table shows in one row: 0, 1, 2-3, 4-7, 8-15 and so on by doubling."""
    low, _ = sizes(bucket)
    if low < 1:
        return low, low
    power = low.bit_length() - 1
    return 1 << power, (2 << power) - 1
