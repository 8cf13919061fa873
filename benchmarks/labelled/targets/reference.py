"""The reference server with something put into some of its processes. Same arguments as ``frostline.demo``.

- ``LABELLED_SETTINGS``, JSON as in ``server.py``: faults in the engine core's steps and the worker's.
- ``ABLATION_ROLES``, separated by commas: these roles get the policy ``freeze``, the others none.

multiprocessing runs this file again in every child (as ``__mp_main__``), before the child's own entry
point: so what stands at its top is in force in each process.
"""

import json
import os
import sys

import faults

import frostline
from frostline.demo import engine, worker


class Injected:
    """Counts the steps of this process, and makes those of the plan stand still."""

    def __init__(self, role: str, settings: dict) -> None:
        self.role, self.settings, self.steps = role, settings, 0
        self.made: faults.Faults | None = None

    def step(self) -> None:
        if self.made is None:  # not before the child is up: it starts a thread
            plan = self.settings["plan"].get(self.role, {})
            self.made = faults.Faults(
                self.role, plan, self.settings["log"], None, f"{self.settings['scratch']}-{self.role}", 0
            )
        self.made.inside(self.steps)
        self.steps += 1


def put_into(owner: type, injected: Injected) -> None:
    real = owner.step  # type: ignore[attr-defined]

    def step(self, *arguments):  # type: ignore[no-untyped-def]
        injected.step()
        return real(self, *arguments)

    owner.step = step  # type: ignore[attr-defined]


def treat(roles: "frozenset[str]") -> None:
    real = frostline.install

    def install(role=None, rank=None, policy=None):  # type: ignore[no-untyped-def]
        real(role, rank, "freeze" if role in roles else policy)

    frostline.install = install


if "LABELLED_SETTINGS" in os.environ:
    _settings = json.loads(os.environ["LABELLED_SETTINGS"])
    put_into(engine.Engine, Injected("engine", _settings))
    put_into(worker.Worker, Injected("worker", _settings))
if "ABLATION_ROLES" in os.environ:
    treat(frozenset(os.environ["ABLATION_ROLES"].split(",")))

if __name__ == "__main__":
    from frostline.demo.__main__ import main

    sys.exit(main())
