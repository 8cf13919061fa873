"""``python -m frostline.demo serve`` and ``... drive``: the server and its load, without the commands."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m frostline.demo", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    server = commands.add_parser("serve", help="run the reference server")
    server.add_argument("--host", default="127.0.0.1")
    server.add_argument("--port", type=int, default=0, help="0: the kernel chooses")
    server.add_argument("--scale", type=float, default=1.0, help="size of the heaps")
    server.add_argument(
        "--workers", "--tensor-parallel", type=int, default=1, help="of each engine, in lock-step"
    )
    server.add_argument("--data-parallel", type=int, default=1, help="engines in lock-step")
    server.add_argument("--disaggregated", action="store_true", help="prefill and decode apart")
    server.add_argument(
        "--merge",
        choices=("off", "linear", "quadratic"),
        default="off",
        help="how chunks that wait are merged; quadratic is the control",
    )
    server.add_argument(
        "--kv-events", default="", help="publish what the prefix cache holds: tcp://HOST:PORT or ipc:///PATH"
    )
    server.add_argument("--step-ms", type=float, default=5.0, help="what a step takes at least")
    server.add_argument("--hold", type=float, default=2.0, help="seconds that finished requests are kept for")
    server.add_argument("--seed", type=int, default=0, help="of the model's weights")
    server.add_argument("--announce", type=Path, help="file to write the address to")
    server.add_argument("--sockets", default="", help="existing folder for the sockets; it is removed")
    server.add_argument("--tethered", action="store_true", help="end when the standard input ends")
    client = commands.add_parser("drive", help="send it load, with an open loop")
    client.add_argument("url")
    client.add_argument("--rate", type=float, default=12.0, help="requests a second")
    client.add_argument("--seconds", type=float, default=30.0)
    client.add_argument("--warm-up", type=float, default=2.0, help="seconds before, not counted")
    client.add_argument("--seed", type=int, default=0, help="of the plan")
    client.add_argument("--tokens", type=int, default=32, help="mean length of an answer")
    client.add_argument("--logprobs", type=int, default=20, help="likeliest tokens asked for with each")
    client.add_argument("--output", type=Path, help="file for every request's times")
    client.add_argument("--tethered", action="store_true", help="give up when the standard input ends")
    chosen = parser.parse_args(arguments)
    if chosen.command == "serve":
        from frostline.demo.events import check_address
        from frostline.demo.front_end import serve
        from frostline.demo.launch import Settings

        if min(chosen.workers, chosen.data_parallel) < 1:
            parser.error("--workers and --data-parallel are at least 1")
        try:
            events = check_address(chosen.kv_events)
        except ValueError as problem:
            parser.error(f"--kv-events: {problem}")
        settings = Settings(
            scale=chosen.scale,
            workers=chosen.workers,
            data_parallel=chosen.data_parallel,
            disaggregated=chosen.disaggregated,
            merge=chosen.merge,
            events=events,
            seed=chosen.seed,
            step_ms=chosen.step_ms,
            hold=chosen.hold,
            sockets=chosen.sockets,
        )
        return serve(settings, chosen.host, chosen.port, chosen.announce, chosen.tethered)
    from frostline.demo.drive import Load, describe, drive

    load = Load(
        rate=chosen.rate, seconds=chosen.seconds, warm_up=chosen.warm_up, seed=chosen.seed,
        tokens=chosen.tokens, logprobs=chosen.logprobs,
    )  # fmt: skip
    print(describe(drive(chosen.url, load, chosen.output, chosen.tethered)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
