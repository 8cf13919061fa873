"""Reports for people and for programs: text, JSON, CSV, Parquet, and two sessions side by side."""

from frostline.report.blocks import Block, Line, Table, plain, write
from frostline.report.sidebyside import sidebyside
from frostline.report.text import report
from frostline.report.tocsv import write_csv
from frostline.report.tojson import to_json
from frostline.report.toparquet import write_parquet

__all__ = [
    "Block",
    "Line",
    "Table",
    "plain",
    "report",
    "sidebyside",
    "to_json",
    "write",
    "write_csv",
    "write_parquet",
]
