"""An event loop with requests in flight and a heap of 800,000; each line of its input is a boundary told."""

import asyncio
import sys

import frostline

heap = [[i] for i in range(800_000)]


async def request(end: asyncio.Event) -> None:
    with frostline.request():
        await end.wait()


async def main() -> None:
    end: asyncio.Event = asyncio.Event()
    tasks = [asyncio.ensure_future(request(end)) for _ in range(50)]
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()

    def read() -> None:
        if sys.stdin.readline() == "boundary\n":
            print(frostline.startup_complete(), flush=True)
        else:
            end.set()

    loop.add_reader(0, read)
    print("up", flush=True)
    await end.wait()
    loop.remove_reader(0)
    await asyncio.gather(*tasks)


asyncio.run(main())
