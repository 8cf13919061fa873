"""The reference server with a kind of engine whose start-up ends when a test says so. Same arguments.

LATE_SETTINGS, JSON: ``reached``, a file that it makes when the base's start-up has ended, and ``go``, a fifo
from which it reads before its own ends. What it builds after that must be frozen like all the rest.
"""

import json
import os
import sys
from pathlib import Path

from frostline.demo import disaggregated, engine

OBJECTS = 30_000


class Late(engine.EngineProcess):
    """Adds to the base's start-up, as a subclass does."""

    def start_up(self) -> None:
        super().start_up()
        settings = json.loads(os.environ["LATE_SETTINGS"])
        Path(settings["reached"]).touch()
        Path(settings["go"]).read_bytes()
        self.own = [[number] for number in range(OBJECTS)]


class LateDecode(Late, disaggregated.DecodeProcess):
    """The same of a subclass's subclass."""


engine.EngineProcess = Late
disaggregated.DecodeProcess = LateDecode

if __name__ == "__main__":
    from frostline.demo.__main__ import main

    sys.exit(main())
