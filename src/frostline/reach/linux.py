"""The few calls that Python does not offer: a signal to one thread, and holes in files."""

import ctypes
import os

_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2
#: tgkill's number; other machines fall back to ``os.kill``.
_SYS_TGKILL = {"x86_64": 234, "aarch64": 131, "riscv64": 131, "ppc64le": 250, "s390x": 241}

_libc = ctypes.CDLL(None, use_errno=True)


def signal_thread(pid: int, tid: int, number: int) -> None:
    """Send a signal to one thread.

    ``kill`` lets the kernel choose the thread, and a main thread that is blocked in a
    system call would then not notice: only a signal of its own interrupts it.

    Raises:
        OSError: as the system call says, ``ProcessLookupError`` if the thread has gone.
    """
    call = _SYS_TGKILL.get(os.uname().machine)
    if call is None:
        os.kill(pid, number)
        return
    if _libc.syscall(ctypes.c_long(call), ctypes.c_int(pid), ctypes.c_int(tid), ctypes.c_int(number)):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def punch(descriptor: int, length: int, start: int = 0) -> bool:
    """Give back the memory behind a file that others may still map. False if not supported."""
    fallocate = getattr(_libc, "fallocate64", None) or getattr(_libc, "fallocate", None)
    if fallocate is None:
        return False
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return bool(fallocate(descriptor, _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE, start, length) == 0)
