"""The broken twin of ``frostline.demo.disaggregated.DecodeProcess``, kept as a test input (A6).

Its ``run`` overrides the base's and does all of it by itself, but for the policy: that stood in the base, and
nobody missed it. The process starts, warms up, says READY and answers as the real one does.
"""

from __future__ import annotations

import contextlib

import frostline
from frostline.demo.disaggregated import DecodeProcess
from frostline.demo.launch import ENGINE_GRACE, Ended, Lifeline, Settings, tell
from frostline.demo.names import Place
from frostline.demo.protocol import ProcessReady, Ready


class Twin(DecodeProcess):
    def run(self) -> None:
        self.alive = Lifeline(ENGINE_GRACE)
        with contextlib.ExitStack() as closing:
            closing.callback(self.line.close)
            try:
                self.build(closing)
                self.start_up()
                tell(self.socket, self.encode(self.ready()))
                self.serve()
            except Ended:
                pass

    def ready(self) -> Ready:
        """Its own part of READY: the workers' is the base's business, and is forgotten, too."""
        import gc
        import os

        frozen = gc.get_freeze_count()
        tracked = len(gc.get_objects()) + frozen
        process = ProcessReady("EngineCore", self.rank, os.getpid(), tracked, frozen)
        return Ready([process], [frostline.process_name()])


def decode(settings: Settings, place: Place, address: str) -> None:
    """Entry point of the spawned process."""
    Twin(settings, place, address).run()
