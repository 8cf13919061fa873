"""``frostline check``: does every process that serves, and every spawned one, reach the policy's calls?

Static, by ``ast``: nothing of what is checked is imported or run. The entry points are found in the
source, so that a new one is noticed the day it is written; the configuration only adds to them or
excuses them, each with a reason (row A6: lists went stale twice).
"""

from frostline.checking.config import Config, load
from frostline.checking.model import Entry, Finding, Result
from frostline.checking.rules import check

__all__ = ("Config", "Entry", "Finding", "Result", "check", "load")
