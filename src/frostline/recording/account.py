"""What a series lacks, as its files and its own recorder say."""

from __future__ import annotations

import os
from pathlib import Path

from frostline import format as fmt
from frostline.format import meanings
from frostline.recording.loss import Losses
from frostline.recording.model import Series
from frostline.recording.segment import Segment

#: Records: that a process ends with just so many is not to be expected.
_LARGE = 1000


def note_gaps(series: Series, segments: list[Segment], losses: Losses) -> None:
    numbers = {segment.number for segment in segments}
    folder = segments[0].path.parent
    if 0 not in numbers:
        message = "the first segment is missing: names, marks and the process's own account are lost"
        losses.add("segment-missing", message, folder, 0, series.pid, series.series)
        series.names = {}
        series.incomplete = True
    missing = max(numbers) + 1 - len(numbers) - (0 not in numbers)
    if missing > 0 and not series.words.get("dropped_spans") and not series.dropped_passes:
        message = f"{missing} segments between the first and the last are missing"
        losses.add("segment-missing", message, folder, 0, series.pid, series.series)
        series.incomplete = True


def note_end(series: Series, full: dict[int, int], folder: Path, losses: Losses) -> None:
    """Whether a segment after the last one is missing, as after a copy that was interrupted.

    ``full`` are the regions whose newest segment holds as many records as it can, with that number.
    The next record opens another segment. There is none only if the process ended before it, which
    for a region of some size is not to be expected, or if it could not be opened, which is counted.
    """
    if series.live or series.incomplete or series.words.get("state") == fmt.STATE_OFF:
        return
    if series.words.get("dropped_spans") or series.dropped_passes:
        return
    for kind, word in ((fmt.REGION_PASSES, "passes"), (fmt.REGION_SPANS, "spans")):
        if not full.get(kind) or series.words.get(f"lost_{word}"):
            continue
        if series.words.get("closed") and full[kind] < _LARGE:
            continue  # a short program may end just there; its passes are counted in another way, too
        message = f"the last segment of {word} is full, and the one that follows it is missing"
        losses.add("segment-missing", message, folder, 0, series.pid, series.series)
        series.incomplete = True


def note_losses(series: Series, path: Path, losses: Losses) -> None:
    pid, number = series.pid, series.series
    for label, count in series.damaged.items():
        losses.add("records-damaged", f"{count} damaged {label} left out", path, count, pid, number)
    for label, count in series.unfinished.items():
        message = f"{count} {label} unfinished: being written when it was read, or when the process died"
        losses.add("records-unfinished", message, path, count, pid, number)
    for word, what in (("lost_passes", "passes"), ("lost_spans", "spans"), ("lost_marks", "marks or names")):
        count = series.words.get(word, 0)
        if count > 2**40:
            losses.add("word-damaged", f"the count of lost {what} makes no sense", path, 0, pid, number)
            series.words[word] = 0
        elif count:
            losses.add(
                word.replace("_", "-"), f"{count} {what} seen and not recorded", path, count, pid, number
            )
    dropped = series.words.get("dropped_spans", 0)
    if 0 < dropped <= 2**40:
        message = f"the {dropped} oldest spans were dropped to stay within the retention limit"
        losses.add("spans-dropped", message, path, dropped, pid, number)
    if series.dropped_passes:
        message = f"the {series.dropped_passes} oldest young passes were dropped to stay within the limit"
        losses.add("passes-dropped", message, path, series.dropped_passes, pid, number)
    if series.words.get("off_reason", 0) not in (0, fmt.OFF_REMOVED):  # a detach has lost nothing
        reason = dict(meanings.OFF_REASONS).get(series.words["off_reason"], "an unknown reason")
        number_of_error = series.words.get("off_errno", 0)
        if 0 < number_of_error < 4096:
            reason += f" ({os.strerror(number_of_error)})"
        if series.words.get("state") == fmt.STATE_OFF:
            losses.add("recorder-off", f"recording stopped: {reason}", path, 0, pid, number)
        else:
            losses.add("records-refused", f"records were lost at times: {reason}", path, 0, pid, number)
