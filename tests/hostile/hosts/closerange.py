"""Closes every descriptor it did not open, as a daemon does, then opens files of its own."""

import gc
import os
import socket
import sys

passes, threads = int(sys.argv[1]), sys.argv[2] == "fork"
gc.collect(0)
os.closerange(3, 65536)
files = [open(f"file-{number}", "w") for number in range(60)]  # noqa: SIM115
pair = socket.socketpair()
for number, file in enumerate(files):
    file.write(f"first {number}\n")
for _ in range(passes):
    gc.collect(0)
for number, file in enumerate(files):
    file.write(f"second {number}\n")
pair[0].sendall(b"still open")
print(pair[1].recv(100), all(os.fstat(file.fileno()).st_size >= 0 for file in files))
for file in files[:20]:
    file.close()
if threads:
    if os.fork() == 0:
        for _ in range(passes):
            gc.collect(0)
        for file in files[20:40]:
            file.seek(0)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
# The others are left open with text in their buffers: the interpreter writes it at its exit.
sys.modules["keeper"] = files  # type: ignore[assignment]
