"""The tables as CSV, with a README of their columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from frostline.analysis import Analysis
from frostline.errors import FrostlineError
from frostline.report.schema import Column, Kind, readme
from frostline.report.tables import Coded, Known, Rows, Values, tables

_SHOWN: dict[Kind, Callable[[object], str]] = {
    "text": str,
    "int": str,
    "ints": lambda values: " ".join(map(str, values)),  # type: ignore[call-overload]
    "flag": lambda value: str(int(bool(value))),
    "share": lambda value: f"{value:.6f}",
    # Nine digits of a second, six of a millisecond: whole ns.
    "instant": lambda value: f"{value / 1e9:.9f}",  # type: ignore[operator]
    "length": lambda value: f"{value / 1e6:.6f}",  # type: ignore[operator]
}


def write_csv(analysis: Analysis, folder: Path) -> list[Path]:
    """Writes the tables into ``folder``, which is made if need be, and says which files it wrote.

    Raises:
        FrostlineError: ``csv-unwritable``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "README.md"]
        written[0].write_text(readme("csv"), encoding="utf-8")
        for rows in tables(analysis):
            written.append(folder / f"{rows.file}.csv")
            write_rows(rows, written[-1])
    except OSError as error:
        raise FrostlineError(
            "csv-unwritable",
            f"cannot write {error.filename or folder}: {error.strerror}",
            "give --csv a folder that can be written to",
        ) from error
    return written


def write_rows(rows: Rows, path: Path) -> None:
    """Writes one table, a line of names first."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([column.name for column in rows.schema.columns])
        for piece in rows.pieces:
            cells = (_cells(column, piece[column.name]) for column in rows.schema.columns)
            writer.writerows(zip(*cells, strict=True))


def _cells(column: Column, values: Values) -> Iterator[str]:
    shown = _SHOWN[column.kind]
    if isinstance(values, Coded):
        return (values.texts[code] for code in values.codes.tolist())
    if isinstance(values, Known):
        both = zip(values.values.tolist(), values.known.tolist(), strict=True)
        return (shown(value) if known else "" for value, known in both)
    plain: Sequence[object] = values if isinstance(values, (list, tuple)) else values.tolist()  # type: ignore[union-attr]
    return ("" if value is None else shown(value) for value in plain)
