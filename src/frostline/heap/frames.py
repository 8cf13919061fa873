"""A frame's local variables, without leaving anything behind."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CellType, FrameType

_SNAPSHOTS = sys.version_info < (3, 13)
#: Of a code object: its variables stand in slots, as a function's do (CO_OPTIMIZED).
_OPTIMIZED = 1


def variables(frame: "FrameType") -> "dict[str, object]":
    """A frame's local variables, as a copy.

    Before 3.13 asking a function's frame leaves a dict on it that keeps what the variables hold now, for as
    long as the frame lives: of a server's main loop that is for ever. So they are taken out of it
    again (not what ``exec`` has put there), unless somebody else has it too: the program by ``locals()``, or
    a trace function, whose changes to it are written back.
    """
    snapshot = frame.f_locals
    optimized = bool(frame.f_code.co_flags & _OPTIMIZED)
    if not optimized and type(snapshot) is not dict:
        # A class body's or an exec's own mapping: asked, it may run code of the program's.
        return dict(dict.items(snapshot)) if issubclass(type(snapshot), dict) else {}
    found = dict(snapshot)
    if _SNAPSHOTS and optimized and type(snapshot) is dict:
        traced = frame.f_trace is not None or sys.gettrace() is not None
        if not traced and sys.getrefcount(snapshot) <= 3:  # the frame's, ours, the argument's
            code = frame.f_code
            for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
                snapshot.pop(name, None)
    return found


def contents(cell: "CellType") -> object:
    """What a cell holds; None where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
