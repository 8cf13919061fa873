"""What a recording lacks, as data: a loss is reported beside the numbers, never swallowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """One thing that could not be read, or that the recorder itself says it lost.

    ``slug`` is stable and documented in ``docs/messages.md``; ``count`` is how many records it
    cost, 0 where that cannot be known; ``path`` is the file, or the session's folder.
    """

    slug: str
    message: str
    path: str
    count: int = 0
    pid: int = 0
    series: int = 0

    def __str__(self) -> str:
        return f"{self.message} ({self.path}) [{self.slug}]"


#: Losses of whole files, or of parts of them, that no recorder leaves behind: a bad copy, a full disk.
DAMAGE = frozenset(
    (
        "segment-unreadable",
        "segment-empty",
        "segment-short",
        "segment-header",
        "segment-missing",
        "region-short",
        "region-damaged",
    )
)


class Losses:
    """Collects losses, and bounds them: ten thousand damaged files make a summary, not a flood."""

    LIMIT = 1000

    def __init__(self) -> None:
        self.items: list[Loss] = []
        self.more = 0

    def add(
        self, slug: str, message: str, path: object, count: int = 0, pid: int = 0, series: int = 0
    ) -> None:
        if len(self.items) >= self.LIMIT:
            self.more += 1
            return
        self.items.append(Loss(slug, message, str(path), int(count), pid, series))

    def all(self) -> tuple[Loss, ...]:
        if not self.more:
            return tuple(self.items)
        return (*self.items, Loss("more-losses", f"{self.more} more losses of this kind", "", 0))
