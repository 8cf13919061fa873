"""How the rows do their work: options, a folder of runs that are made once, Frostline's own commands."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, environment
from benchmarks.labelled.real import forget
from frostline.experiment.ablation.machine import Busy

FROSTLINE = (sys.executable, "-m", "frostline.commands.main")


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Attributes:
        folder: of this row.
        server: a command of somebody else's server in place of the reference server, with ``{port}``;
            empty for the latter.
        health: its path that answers 200 once it is ready.
        roles: what its front end, its engine and its workers are called in the report.
        ladder: of a ladder of rates against it: ``rates``, ``seconds`` of each, ``deadline`` (s), ``limit``
            (p99 that a rate must keep, ms), ``load`` (further options of ``frostline load``).
    """

    quick: bool
    folder: Path
    server: str = ""
    health: str = "/health"
    roles: tuple[str, str, str] = ("APIServer", "EngineCore", "Worker")
    ladder: Mapping[str, Any] = field(default_factory=dict)


def options(row: str, arguments: Sequence[str], servers: bool = False, ladder: bool = False) -> Options:
    """Parses what stands behind the row's name; the folder is made.

    Args:
        servers: whether the row can be run on somebody else's server.
        ladder: whether that is by a ladder of rates.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.paper {row}")
    parser.add_argument("--quick", action="store_true", help="try the way; nothing is judged")
    parser.add_argument("--dir", type=Path, default=Path("paper-runs"), help="where the runs are kept")
    if servers:
        parser.add_argument("--server", default="", help="a command with {port}: vllm serve ...")
        parser.add_argument("--health", default="/health", help="its path that answers once it is ready")
        parser.add_argument(
            "--roles",
            nargs=3,
            default=Options.roles,
            metavar=("FRONT", "ENGINE", "WORKER"),
            help="what its processes are called in the report",
        )
    if ladder:
        parser.add_argument("--rates", type=float, nargs="+", default=[2.0, 4.0, 6.0], help="a second")
        parser.add_argument("--seconds", type=float, default=30.0, help="of each rate")
        parser.add_argument("--deadline", type=float, default=10.0, help="seconds")
        parser.add_argument("--limit", type=float, default=2000.0, help="p99 that a rate must keep, ms")
        parser.add_argument(
            "--load", default="--api completions --max-tokens 16", help="further options of `frostline load`"
        )
    given = parser.parse_args(list(arguments))
    server = getattr(given, "server", "")
    if server and "{port}" not in server:
        parser.error("--server needs {port}, where the port is to stand")
    name = row + ("-server" if server else "") + ("-quick" if given.quick else "")
    folder = (given.dir / name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not servers:
        return Options(given.quick, folder)
    names = ("rates", "seconds", "deadline", "limit", "load") if ladder else ()
    steps = {name: getattr(given, name) for name in names}
    return Options(given.quick, folder, server, given.health, tuple(given.roles), steps)


def frostline(*arguments: str, ends: Sequence[int] = (0,), **settings: str) -> str:
    """``frostline ...``: what it printed. Its progress goes where ours does.

    Raises:
        RuntimeError: it ended with none of ``ends``.
    """
    done = subprocess.run(
        [*FROSTLINE, *arguments], stdout=subprocess.PIPE, text=True, env=environment(**settings), cwd=ROOT
    )
    if done.returncode not in ends:
        raise RuntimeError(f"frostline {shlex.join(arguments)} ended with {done.returncode}")
    return done.stdout


def reported(session: Path, *more: str) -> dict[str, Any]:
    """``frostline report SESSION --json``."""
    found: dict[str, Any] = json.loads(frostline("report", str(session), "--json", *more))
    return found


def toml(value: object) -> str:
    """A value of a plan. JSON's strings, numbers and lists are TOML's."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + " }"
    return json.dumps(value)


def plan(tables: Mapping[str, Mapping[str, object]], arms: Sequence[Mapping[str, object]]) -> str:
    """The text of a plan for ``frostline ablate``."""
    lines: list[str] = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in table.items()), ""]
    for arm in arms:
        lines += ["[[arm]]", *(f"{key} = {toml(value)}" for key, value in arm.items()), ""]
    return "\n".join(lines)


def ablate(folder: Path, text: str) -> dict[str, Any]:
    """``frostline ablate`` of a plan, gone on with where it was stopped; its JSON.

    What its runs leave in the state folder stays there, so that a load may look at the newest session: its
    own server's.
    """
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    # 1: too few blocks to conclude. What is counted needs none.
    told = frostline("ablate", str(path), "--json", ends=(0, 1), XDG_STATE_HOME=str(folder / "state"))
    found: dict[str, Any] = json.loads(told)
    for live in (folder / "plan.ablation").glob("*/rec"):
        forget(live)
    return found


def rec_of(folder: Path, run: Mapping[str, Any]) -> Path:
    """The recording of a run of ``ablate``."""
    name = "".join(c if c.isalnum() else "-" for c in run["arm"])[:40]
    return folder / "plan.ablation" / f"{run['block']}-{run['place']}-{name}-{run['attempt']}" / "rec"


def port(folder: Path) -> int:
    """A free port, and the same one when the row goes on: it is a part of its plan."""
    path = folder / "port"
    if not path.exists():
        with socket.create_server(("127.0.0.1", 0)) as found:
            path.write_text(str(found.getsockname()[1]))
    return int(path.read_text())


class Runs:
    """The runs of a row, each made once: ``NAME.json`` in its folder, with a folder of its own beside it."""

    def __init__(self, row: str, folder: Path, settings: Mapping[str, object], total: int) -> None:
        """
        Raises:
            RuntimeError: the folder holds runs with other settings.
        """
        self.row, self.folder, self.total = row, folder, total
        self.made: list[float] = []
        self.done = 0
        path = folder / "settings.json"
        if not path.exists():
            path.write_text(json.dumps(settings))
        before = json.loads(path.read_text())
        if before != json.loads(json.dumps(settings)):
            raise RuntimeError(f"{folder} was made with {before}, not {settings}: use another --dir")

    def get(self, name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` found, made now if it is not there yet.

        ``others`` in it are the cores that other programs used meanwhile; None where the machine does not
        say.
        """
        path = self.folder / f"{name}.json"
        if not path.exists():
            left = f"; about {self._left() / 60:.0f} min left" if self.made else ""
            self.tell(f"{self.done + 1} of {self.total}, {name}{left}")
            place = self.folder / name
            if place.exists():  # it was interrupted
                forget(place / "rec")
                shutil.rmtree(place)
            place.mkdir()
            begun, busy = time.monotonic(), Busy()
            found = make(place)
            found["others"] = busy.others()
            forget(place / "rec")
            part = path.with_suffix(".part")
            part.write_text(json.dumps(found))
            part.replace(path)
            self.made.append(time.monotonic() - begun)
        self.done += 1
        known: dict[str, Any] = json.loads(path.read_text())
        return known

    def tell(self, text: str) -> None:
        """On stderr."""
        print(f"{self.row}: {text}", file=sys.stderr, flush=True)

    def _left(self) -> float:
        return sum(self.made) / len(self.made) * (self.total - self.done)


def run_under(
    session: Path, command: Sequence[str], *flags: str, log: Path, **settings: str
) -> subprocess.Popen[str]:
    """``frostline run -o SESSION FLAGS -- COMMAND`` in a group of its own, with pipes to and from it."""
    with log.open("wb") as errors:
        return subprocess.Popen(
            [*FROSTLINE, "run", "-o", str(session), *flags, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(**settings),
            cwd=ROOT,
            start_new_session=True,
        )


def sealed(session: Path, seconds: float = 20.0) -> None:
    """Waits for the helper's last word; what it leaves is read where it is."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):  # half written
            notes = [json.loads(path.read_text()) for path in session.glob("helper-*.json")]
            if notes and all(note.get("ended") for note in notes):
                return
        time.sleep(0.05)
