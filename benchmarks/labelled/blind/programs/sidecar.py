"""A process that nobody waits for, whose full passes come by its own clock: sidecar.py SETTINGS."""

from __future__ import annotations

import json
import os
import random
import select
import sys

from acts import Acts, Log

import frostline


def main() -> None:
    settings = json.loads(sys.argv[1])
    frostline.install(role="sidecar")
    chance = random.Random(settings["seed"] + 77)
    acts = Acts(Log(settings["log"], "sidecar"), settings["scratch"] + ".sidecar", settings["ballast"])
    print("ready", flush=True)
    while not select.select([0], [], [], chance.expovariate(1 / settings["every"]))[0]:
        acts.do("explicit pass", 0)
    os.read(0, 1)


if __name__ == "__main__":
    main()
