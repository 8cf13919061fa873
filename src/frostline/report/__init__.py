"""Reports for people and for programs: text, JSON, CSV, and two sessions side by side."""

from frostline.report.blocks import Block, Line, Table, plain, write
from frostline.report.sidebyside import sidebyside
from frostline.report.tables import write_csv
from frostline.report.text import report
from frostline.report.tojson import to_json

__all__ = ["Block", "Line", "Table", "plain", "report", "sidebyside", "to_json", "write", "write_csv"]
