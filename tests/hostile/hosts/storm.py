"""Forks, spawns and starts many children at once; each makes garbage and says what it found."""

import gc
import multiprocessing
import os
import subprocess
import sys


def work(seed: int) -> int:
    gc.collect()
    for _ in range(50 + seed):
        loop: list = []
        loop.append(loop)
    del loop
    return gc.collect()


def report(seed: int, out: "multiprocessing.SimpleQueue") -> None:
    out.put((seed, work(seed), os.getpid()))


def main(forks: int, spawns: int, servers: int, commands: int) -> None:
    found: dict[str, list] = {"fork": [], "command": [], "spawn": [], "forkserver": []}
    pids = []
    pipes = []
    for seed in range(forks):
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writable, b"%d" % work(seed))
            os._exit(0)
        os.close(writable)
        pipes.append((pid, readable))
    code = "import sys; sys.path.insert(0, sys.argv[1]); import storm; print(storm.work(int(sys.argv[2])))"
    here = os.path.dirname(os.path.abspath(__file__))
    running = [
        subprocess.Popen([sys.executable, "-c", code, here, str(seed)], stdout=subprocess.PIPE)
        for seed in range(commands)
    ]
    for method, many in (("spawn", spawns), ("forkserver", servers)):
        context = multiprocessing.get_context(method)
        out = context.SimpleQueue()
        children = [context.Process(target=report, args=(seed, out)) for seed in range(many)]
        for child in children:
            child.start()
        answers = sorted(out.get() for _ in children)
        for child in children:
            child.join()
            assert child.exitcode == 0
        found[method] = [answer[:2] for answer in answers]
        pids += [answer[2] for answer in answers]
    for pid, readable in pipes:
        found["fork"].append(int(os.read(readable, 100)))
        os.waitpid(pid, 0)
        pids.append(pid)
    for child in running:
        found["command"].append(int(child.communicate()[0]))
        pids.append(child.pid)
    print(found)
    with open("pids", "w") as file:
        file.write(" ".join(map(str, pids)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
