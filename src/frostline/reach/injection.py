"""Leaving a line of Python with a process that runs: CPython 3.10 to 3.13 on x86-64, by ptrace.

From 3.14 on the interpreter has a door for this (`sys.remote_exec`). Before it, a debugger must call
``Py_AddPendingCall`` in the process, and the interpreter runs what was added between two bytecodes of
its main thread. gdb does that with a breakpoint: killed in between it leaves an ``int3`` behind, which
kills the process, and it reads the symbols of every library while the process stands still. Here
nothing but the main thread is stopped, for the time of a few system calls, and at no instant would
the end of this process harm the other:

* The code goes into bytes that are mapped executable and never run, behind the end of a library's own.
* It saves all registers, makes the call, restores them and jumps back to where the thread was, by itself.
  So the last act is to set the instruction pointer; there is nothing to clean up after.
* A thread that waits in a system call gets what a signal would give it: the call again, or EINTR.

A main thread that waits in such a call without the GIL (epoll, poll, sleep, accept, waitpid) would run no
bytecode before it wakes. There the code takes the GIL, as any C code may, and runs the line at once.
"""

import ctypes
import os
import struct
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from frostline.errors import FrostlineError
from frostline.reach import elf, permission

#: What the process's Python must export.
FUNCTIONS = (
    "PyRun_SimpleString",
    "Py_AddPendingCall",
    "PyGILState_Check",
    "PyGILState_Ensure",
    "PyErr_Occurred",
    "PyGILState_Release",
)
_SEIZE, _INTERRUPT, _GETREGS, _SETREGS, _CONT, _DETACH = 0x4206, 0x4207, 12, 13, 7, 17
_EVENT_STOP = 128
#: __WALL and __WNOTHREAD: the stop of a thread that is not our child, for this thread alone.
_WAIT = 0x40000000 | 0x20000000 | os.WNOHANG
#: Places in user_regs_struct.
_RAX, _ORIG_RAX, _RIP, _RSP = 10, 15, 16, 19
_REGISTERS = 27
_EINTR = 4
#: The kernel's wishes to have a system call made again; the last cannot be granted from outside.
_AGAIN, _AGAIN_WITH_BLOCK = (512, 513, 514), 516
_FUTEX = 202
#: read, poll, select, nanosleep, recvfrom, recvmsg, accept, wait4, rt_sigtimedwait, pause, clock_nanosleep,
#: epoll_wait, waitid, pselect6, ppoll, epoll_pwait, accept4, epoll_pwait2: who waits in one holds no lock
#: of the allocator's or the interpreter's.
_WAITING = frozenset((0, 7, 23, 35, 45, 47, 43, 61, 128, 34, 230, 232, 247, 270, 271, 281, 288, 441))
_MAGIC = b"frostline stub 1"
#: What one use takes of the spare bytes, at most.
_STRIDE = 1024
_PATIENCE = 2.0

# fmt: off
_CODE = bytes.fromhex(
    "488d642480"                                      # lea rsp, [rsp-128]: past the red zone
    "9c5053515256575541504151415241534154415541564157"  # flags and the general registers
    "fc4889e5"                                        # cld; mov rbp, rsp
    "4881ec004000004883e4c0"                          # 16 KiB for the vector registers, aligned
    "31c04889842400020000488984240802000048898424100200004889842418020000"
    "48898424200200004889842428020000488984243002000048898424380200 00"  # their header must be zero
    "b8ffffffffbaffffffff480fae2424"                  # xsave64
    "4c8d25cc000000"                                  # lea r12, text
    "48833d8c000000007436"                            # direct? else to "later"
    "ff159c00000085c0752c"                            # PyGILState_Check: held, then "later"
    "ff159a00000089c3"                                # PyGILState_Ensure
    "ff159a0000004989c54885c07509"                    # PyErr_Occurred: then not now
    "4c89e7ff1569000000"                              # PyRun_SimpleString(text)
    "89dfff1589000000"                                # PyGILState_Release
    "4d85ed7410"                                      # done, unless there was an error
    "488b3d550000004c89e6ff1554000000"                # later: Py_AddPendingCall(PyRun_SimpleString, text)
    "b8ffffffffbaffffffff480fae2c24"                  # out: xrstor64
    "4889ec415f415e415d415c415b415a415941585d5f5e5a595b589d"
    "488da42480000000ff25040000000f1f4000".replace(" ", "")  # jmp back
)
# fmt: on
_POINTERS = struct.Struct("<8Q")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Planted(NamedTuple):
    """How it went."""

    #: How long the main thread was stopped, ns: from asking for the stop to letting go, an upper bound.
    stopped_ns: int
    #: Whether the line runs at once, and not when the main thread comes to bytecode.
    direct: bool


def plant(pid: int, functions: dict[str, int], images: list[elf.Image], line: str) -> Planted:
    """Has a process run one line of Python in its main thread.

    Args:
        functions: the addresses of `FUNCTIONS` in the process.
        line: it must raise nothing. The process may run it after we have given up.

    Raises:
        FrostlineError: ``no-ptrace`` or ``no-room``; nothing was changed in the process.
    """
    return _in_own_thread(pid, lambda: _plant(pid, functions, images, line.encode() + b"\0"))


def _in_own_thread(pid: int, act: Callable[[], Planted]) -> Planted:
    """In a thread of its own: with its end the kernel lets the process go, whatever has happened."""
    result: list[Planted | FrostlineError] = []

    def work() -> None:
        try:
            result.append(act())
        except FrostlineError as error:
            result.append(error)
        except OSError as error:
            result.append(_refused(pid, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(result[0], FrostlineError):
        raise result[0]
    return result[0]


def _stop(pid: int) -> "tuple[int, ctypes.Array[ctypes.c_uint64]]":
    """Stops the main thread. Returns when that began, and its registers."""
    _ptrace(_SEIZE, pid)
    begun = time.monotonic_ns()
    _ptrace(_INTERRUPT, pid)
    _await_stop(pid)
    registers = (ctypes.c_uint64 * _REGISTERS)()
    _ptrace(_GETREGS, pid, data=ctypes.addressof(registers))
    return begun, registers


def _plant(pid: int, functions: dict[str, int], images: list[elf.Image], text: bytes) -> Planted:
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        place = _room(memory, images, len(_CODE) + _POINTERS.size + len(text) + len(_MAGIC))
        entry = place + 16
        begun, registers = _stop(pid)
        direct = _settle_call(registers)
        pointers = _POINTERS.pack(
            registers[_RIP],
            direct,
            functions["PyRun_SimpleString"],
            functions["Py_AddPendingCall"],
            functions["PyGILState_Check"],
            functions["PyGILState_Ensure"],
            functions["PyErr_Occurred"],
            functions["PyGILState_Release"],
        )
        os.pwrite(memory, _MAGIC + _CODE + pointers + text, place)
        registers[_RIP] = entry
        _ptrace(_SETREGS, pid, data=ctypes.addressof(registers))
        _ptrace(_DETACH, pid)
        return Planted(time.monotonic_ns() - begun, direct)
    finally:
        os.close(memory)


def _room(memory: int, images: list[elf.Image], size: int) -> int:
    """Spare bytes that we have not used before: a stub of an earlier attach may still be running."""
    if size > _STRIDE:
        raise FrostlineError(
            "no-room", "the session folder's path is too long for an attach", "Choose a shorter one with -o."
        )
    for image in images:
        for start, length in image.spare:
            while length >= size:
                here = os.pread(memory, len(_MAGIC), start)
                if here != _MAGIC:
                    return start
                start, length = start + _STRIDE, length - _STRIDE
    raise FrostlineError(
        "no-room",
        "it has no executable bytes to spare, or earlier attaches have used them all",
        "Restart it under `frostline run`.",
    )


def _settle_call(registers: "ctypes.Array[ctypes.c_uint64]") -> bool:
    """Arranges for the system call that was interrupted; whether the line may run at once."""
    call = registers[_ORIG_RAX]
    if call >= 1 << 63:
        return False  # it was running, in no system call
    result = (1 << 64) - registers[_RAX]
    again = result in _AGAIN or result == _AGAIN_WITH_BLOCK
    if again and (call == _FUTEX or result == _AGAIN_WITH_BLOCK):
        # Of a lock's wait EINTR makes the interpreter look at its pending calls. A wait with the time
        # that is left in the kernel's hands cannot be made again: EINTR, as after a signal's handler.
        registers[_RAX] = (1 << 64) - _EINTR
    elif again:
        registers[_RAX] = call
        registers[_RIP] -= 2  # the `syscall` instruction
    registers[_ORIG_RAX] = (1 << 64) - 1  # the kernel does nothing more about it
    return (again or result == _EINTR) and call in _WAITING  # epoll is never made again


def _await_stop(pid: int) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        found, status = os.waitpid(pid, _WAIT)
        if found == 0:
            time.sleep(0.00005)
        elif not os.WIFSTOPPED(status):
            raise FrostlineError("process-gone", "it has ended", "Nothing to do.")
        elif status >> 16 == _EVENT_STOP:
            return
        else:
            # A signal of its own came first: it gets it, and the stop follows.
            _ptrace(_CONT, pid, data=os.WSTOPSIG(status))
    raise FrostlineError(
        "no-stop",
        "its main thread cannot be stopped: it waits in the kernel (state D)",
        "Try again when the disk or device that it waits for has answered.",
    )


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    ctypes.set_errno(0)
    if _libc.ptrace(request, pid, None, data) == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _refused(pid: int, error: OSError) -> FrostlineError:
    return FrostlineError("no-ptrace", f"ptrace is refused: {error.strerror}", permission.why_refused(pid))
