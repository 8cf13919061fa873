"""Collects, then something happens to the ground under it, then it collects on and forks."""

import gc
import os
import resource
import shutil
import signal
import sys
import time


def collect(many: int) -> None:
    run = gc.collect
    for _ in range(many):
        run(0)


def nothing(argument: str) -> None:
    pass


def remove(argument: str) -> None:
    for folder in argument.split(":"):
        shutil.rmtree(folder, ignore_errors=True)


def drop(argument: str) -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def jail(argument: str) -> None:
    os.mkdir("jail")
    os.chroot("jail")
    os.chdir("/")


def few_files(argument: str) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def small_files(argument: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


action, argument, before, after = sys.argv[1:]
collect(int(before))
globals()[action](argument)
collect(int(after))
if action == "few_files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    time.sleep(1.2)  # the recorder tries again a second after a failure
    collect(500)
pid = os.fork()
if pid == 0:
    collect(200)
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), signal.getsignal(signal.SIGXFSZ), gc.isenabled())
