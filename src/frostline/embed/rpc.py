"""The boundary over a server's own RPC (A2): where only a parent knows that warm-up is over.

Module-level functions, so that pickle sends them by their names.
"""

from frostline.policy import engine


def rpc_freeze(worker: object = None, owner: "str | None" = None) -> int:
    """``frostline.startup_complete()`` for a call over RPC: always returns a number.

    A caller that waits for a reply hangs on a call that returns nothing.

    Args:
        worker: not used and not kept. ``collective_rpc(frostline.rpc_freeze)`` and its like pass the
            worker to whatever they call.
        owner: whose objects these are, as in ``startup_complete``; a name, since it is pickled.

    Returns how many objects are frozen since the interpreter's start; 0 where no policy that freezes is
    in force, or where a pass was running; -1 where requests were in flight, so that the heap was spliced
    and not counted. Blocks for one full collection.
    """
    frozen = engine.boundary(engine.BY_PROGRAM, owner)
    return 0 if frozen is None else frozen


def rpc_thaw(worker: object = None, owner: "str | None" = None) -> int:
    """``frostline.shutdown()`` for a call over RPC.

    Returns how many objects were given back; 0 where nothing was frozen or another owner is left.
    Blocks for a count of what is frozen (10 to 30 ms a million objects) and one full collection.
    """
    frozen = engine.frozen_since_start()
    return frozen if engine.release(True, owner) else 0
