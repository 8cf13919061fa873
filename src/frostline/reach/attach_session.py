"""A session for processes that run already: `frostline run`'s own, without the command."""

import os
from typing import Any

from frostline.errors import FrostlineError
from frostline.reach import environment, launch, proc, session


class Session:
    """A session for processes that run already: folder, note, helper."""

    def __init__(
        self,
        output: "str | None",
        root: int,
        settings: dict[str, str],
        ready: "dict[str, Any] | None",
        host: bool = True,
    ):
        """Makes the folder, or joins one.

        Args:
            root: the process whose tree is watched.
            settings: as ``run`` has them, names without prefix in lower case.
            ready: how the boundary is told, None for not at all.
            host: whether host signals are sampled.

        Raises:
            FrostlineError: ``session-folder`` or ``no-process``.
        """
        about = proc.stat(root)
        if about is None:
            raise FrostlineError("no-process", f"there is no process {root}", "Name one that runs.")
        created = output is None or not os.path.lexists(output)
        self.folder, warnings = session.prepare(session.default_folder() if output is None else output)
        with session.lock(self.folder):
            self.fallback = environment.write_fallback(self.folder)
        command = proc.arguments(root)
        self.run_file = session.write_run(self.folder, command, settings, warnings)
        self.run_name = os.path.basename(self.run_file)[len("run-") : -len(".json")]
        self.warning = ""
        self.config = {
            "root": root,
            "start_ticks": about.start_ticks,
            "attached": True,
            "session": self.folder,
            "run": self.run_name,
            "run_file": self.run_file,
            "created": created,
            "fallback": self.fallback,
            "retention": int(settings["retention"]) or 0,
            "ready": ready,
            "warnings": warnings,
            "cwd": proc.working_folder(),
            "host": host,
        }
        self.helper: launch.Helper | None = None
        try:
            self.helper = launch.Helper(self.config, environment.for_helper(environment.started_with()))
        except FrostlineError as error:
            self.warning = error.message
            session.add_warning(self.run_file, error.message)

    def variables(self, settings: dict[str, str]) -> dict[str, str]:
        """The environment variables that the processes get."""
        found = environment.for_target(self.folder, self.run_name, settings, self.fallback)
        return {
            name: value
            for name, value in found.items()
            if name.startswith(environment.PREFIX) and name not in environment.THEIRS
        }

    def give_up(self) -> None:
        """Nothing was attached: nothing stays."""
        if self.helper is not None:
            self.helper.abandon()
        else:
            from frostline.reach.helper import take_back

            take_back(self.config)

    def keep(self) -> None:
        """The helper begins to watch."""
        session.remember(self.folder)
        if self.helper is not None:
            self.helper.release()
