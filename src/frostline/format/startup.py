"""The file of imports that ``frostline startup`` has each process write: its name, and what a line says.

Text, one event a line, each written by one call, so that what a killed process wrote is whole up to
its last line. Fields are separated by one blank; the name of a module is the rest of its line.

::

    frostline-startup 1 PID SERIES INTERPRETER THREAD     the first line
    B NS THREAD COUNT0 MODULE                             the module's import begins
    E NS THREAD COUNT0                                    the newest one of that thread that is open has ended
    C NS THREAD OBJECTS                                   so many were tracked, with those frozen since

NS is ``time.monotonic_ns()``, THREAD ``threading.get_ident()`` (on the first line: of the thread that
started the recording), COUNT0 ``gc.get_count()[0]`` at that moment.
"""

MAGIC = "frostline-startup"
VERSION = 1
PREFIX, SUFFIX = "startup-", ".imports"
#: Events that one process writes at most: a program that imports for ever is not to fill the disk.
MOST = 400_000


def file_name(pid: int, series: int, interpreter: int) -> str:
    """Name of the file in the session folder; the same three numbers as its segments have."""
    return f"{PREFIX}{pid}-{series}-{interpreter}{SUFFIX}"
