"""The half of the labelled set that is made by somebody who did not write the analysis.

Write it from ``docs/method.md``'s definitions and ``docs/format.md`` alone, or with real processes under
``frostline run``; do not look at ``src/frostline/analysis``, at the other generators here, or at what
the report says of your sessions. It must not be changed after its first score is known, except where a
label is shown to be wrong, and then the commit says so.

It is one module with one function, ``benchmarks/labelled/blind/generate.py``::

    def sessions(folder: Path, seed: int) -> Iterator[Labelled]: ...

- ``folder`` is empty and yours; each session goes into a folder of its own below it.
- The same ``seed`` gives the same synthetic sessions (real ones cannot repeat themselves exactly).
- What is yielded is ``benchmarks.labelled.truth.Labelled``: a source (say "blind synthetic"), the
  session's folder, and its stalls.
- A ``Stall`` names the process whose work stood still, the label of the step that took long, when the
  cause began and ended, and the process whose collector caused it (0: none did). Every stall should
  make its step take over 20 ms and over 3 times the label's median: shorter ones are not slow.
- At least 300 stalls, of at least eight causes: the collector of the process itself, of another
  process on its path, and none among them; and passes that merely coincide (``coincides``).
- Some 20 normal steps, at least, between two stalls of a label.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from benchmarks.labelled.truth import Labelled

_NAME = f"{__name__}.generate"


def there() -> bool:
    """Whether somebody has written it."""
    return importlib.util.find_spec(_NAME) is not None


def sessions(folder: Path, seed: int) -> Iterator[Labelled]:
    """The blind sessions, one after the other.

    Raises:
        ModuleNotFoundError: nobody has written them yet.
    """
    found: Iterator[Labelled] = importlib.import_module(_NAME).sessions(folder, seed)
    yield from found
