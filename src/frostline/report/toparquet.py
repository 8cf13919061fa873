"""The tables as Parquet: typed columns, times in whole ns beside seconds, for as many rows as there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from frostline import __version__
from frostline.analysis import Analysis
from frostline.errors import FrostlineError, install_of
from frostline.report.schema import Schema, readme
from frostline.report.tables import Coded, Known, Piece, Rows, Values, tables

#: What a nanosecond is in the unit of the column.
_UNIT = {"instant": 1e9, "length": 1e6}


def arrow() -> Any:
    """The library that writes it.

    Raises:
        FrostlineError: ``missing-extra``.
    """
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise FrostlineError(
            "missing-extra",
            "Parquet needs pyarrow, which is not installed",
            install_of("parquet"),
        ) from error
    return pyarrow


def write_parquet(analysis: Analysis, folder: Path) -> list[Path]:
    """Writes the tables of ``write_csv`` into ``folder`` as Parquet, and says which files it wrote.

    A row group holds ``PIECE`` rows, and no more than one is in memory. Texts are dictionary
    encoded; a flag is a bool; an instant or a length is a float64 and, in a column ending in
    ``_ns``, an int64.

    Raises:
        FrostlineError: ``missing-extra`` without pyarrow, ``parquet-unwritable``.
    """
    arrow()
    about = {
        "frostline.session": analysis.path.name,
        "frostline.start_monotonic_ns": str(analysis.start),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "README.md"]
        written[0].write_text(readme("parquet"), encoding="utf-8")
        for rows in tables(analysis):
            written.append(folder / f"{rows.file}.parquet")
            write_rows(rows, written[-1], about)
    except OSError as error:
        raise FrostlineError(
            "parquet-unwritable",
            f"cannot write {error.filename or folder}: {error.strerror or error}",
            "give --parquet a folder that can be written to",
        ) from error
    return written


def write_rows(rows: Rows, path: Path, about: dict[str, str]) -> None:
    """Writes one table; ``about`` stands in the file's metadata, beside the version.

    Raises:
        FrostlineError: ``missing-extra`` without pyarrow.
    """
    pyarrow = arrow()
    from pyarrow import parquet

    schema = _schema(pyarrow, rows.schema).with_metadata({"frostline.version": __version__, **about})
    texts = [field.name for field in schema if pyarrow.types.is_dictionary(field.type)]
    whole = [field.name for field in schema if field.type == pyarrow.int64()]
    # Dictionaries of numbers that hardly repeat cost twice the time and a third more space.
    packed = {"use_dictionary": texts, "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED")}
    with (
        path.open("wb") as file,
        parquet.ParquetWriter(file, schema, compression="zstd", **packed) as writer,
    ):
        for piece in rows.pieces:
            writer.write_table(pyarrow.table(_arrays(pyarrow, rows.schema, piece), schema=schema))


def _schema(pyarrow: Any, table: Schema) -> Any:
    types = {"text": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), "int": pyarrow.int64()}
    types |= {"flag": pyarrow.bool_(), "share": pyarrow.float64(), "ints": pyarrow.list_(pyarrow.int64())}
    fields = []
    for column in table.columns:
        about = {"about": column.about}
        if column.kind in _UNIT:
            fields.append(pyarrow.field(column.name, pyarrow.float64(), metadata=about))
            fields.append(pyarrow.field(column.in_ns, pyarrow.int64(), metadata=about))
        else:
            fields.append(pyarrow.field(column.name, types[column.kind], metadata=about))
    return pyarrow.schema(fields)


def _arrays(pyarrow: Any, table: Schema, piece: Piece) -> list[Any]:
    found = []
    for column in table.columns:
        values = piece[column.name]
        if column.kind == "text":
            found.append(_texts(pyarrow, values))
            continue
        if column.kind == "ints":
            found.append(pyarrow.array(values, pyarrow.list_(pyarrow.int64())))
            continue
        numbers, unknown = _numbers(values)
        if column.kind in _UNIT:
            found.append(pyarrow.array(numbers / _UNIT[column.kind], pyarrow.float64(), mask=unknown))
        plain = {"flag": bool, "share": np.float64}.get(column.kind, np.int64)
        found.append(pyarrow.array(numbers.astype(plain, copy=False), mask=unknown))
    return found


def _texts(pyarrow: Any, values: Values) -> Any:
    if isinstance(values, Coded):
        empty = np.array([not text for text in values.texts], bool)
        codes = values.codes.astype(np.int32)
        indices = pyarrow.array(codes, mask=empty[codes] if empty.any() else None)
        return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(values.texts, pyarrow.string()))
    texts = [value or None for value in values]  # type: ignore[union-attr]
    return pyarrow.array(texts, pyarrow.string()).dictionary_encode()


def _numbers(values: Values) -> tuple[Any, Any]:
    """(numbers, which of them are unknown or None)."""
    if isinstance(values, Known):
        return values.values, ~values.known
    if isinstance(values, np.ndarray):
        return values, None
    assert not isinstance(values, Coded)
    unknown = np.array([value is None for value in values], bool)
    return np.array([0 if value is None else value for value in values]), unknown
