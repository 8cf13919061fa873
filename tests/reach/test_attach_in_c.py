"""``frostline attach`` to a process whose main thread is in C and stays there (case: no answer)."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

from tests.interpreters import Interpreter, every_interpreter
from tests.reach.test_attach import attach, target
from tests.reach.under_run import wait_for

#: Spins in C for a lock on a page that it shares with us, until we let it go: as long as we want.
IN_C = """
import ctypes, mmap, os, sys
page = mmap.mmap(os.open("page", os.O_RDWR), mmap.PAGESIZE)
libc = ctypes.CDLL(None)
lock = ctypes.byref(ctypes.c_int.from_buffer(page))
libc.pthread_spin_init(lock, 1)
libc.pthread_spin_lock(lock)
print("up", flush=True)
libc.pthread_spin_lock(lock)
print("back", flush=True)
sys.stdin.readline()
print("frostline" in sys.modules, flush=True)
sys.stdin.read()
"""


@every_interpreter
def test_a_main_thread_in_c_is_named_and_nothing_follows(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes(bytes(mmap.PAGESIZE))
    with target(interpreter, IN_C, tmp_path) as process, (tmp_path / "page").open("r+b") as file:
        found = attach(tmp_path, process.pid, "--wait", "0.5")
        assert process.stdin is not None and process.stdout is not None
        assert found["code"] == 1 and "its main thread is in C" in found["processes"][0]["why_not"]
        wait_for(lambda: not (tmp_path / "rec").exists(), "the session's folder is taken away")
        with mmap.mmap(file.fileno(), mmap.PAGESIZE) as page:
            lock = ctypes.c_int.from_buffer(page)
            ctypes.CDLL(None).pthread_spin_unlock(ctypes.byref(lock))
            del lock  # it holds the page
        assert process.stdout.readline() == "back\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "False\n"
