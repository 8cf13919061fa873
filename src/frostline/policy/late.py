"""A policy that comes to a process which runs already: what it does about a boundary that is past."""

import os

from frostline import format as layout
from frostline.policy import engine
from frostline.policy.engine import _engine as state


def catch_up(changed: bool, ended: bool) -> None:
    """A policy that came while the process ran does what it does at a late boundary, if that has been told.

    Args:
        changed: it is another one than before.
        ended: start-up has ended, says who brings the policy.
    """
    process = os.getpid()
    told = state.told if state.told_in == process else 0
    frozen = state.frozen_by == process
    if ended and not told & 1 << engine.BY_SUPERVISOR:
        engine.boundary(engine.BY_SUPERVISOR)
        told = 0 if not frozen else state.told
    policy = state.policy
    by_ready, by_program = told & 1 << engine.BY_SUPERVISOR, told & ~(1 << engine.BY_SUPERVISOR)
    if policy is None or not {"ready": by_ready, "program": by_program}.get(policy.boundary, told):
        return
    if not frozen:
        engine.reached(policy, late=True)
    elif changed and state.keeper is not None:
        state.keeper.begin(False)  # frozen under the policy before


def standing() -> int:
    """What has come of the policy in this process, a POLICY_*."""
    policy = state.policy
    if policy is None:
        return layout.POLICY_NONE
    if policy.kind not in engine.FREEZING:
        return layout.POLICY_ACTS
    if not state.frozen:
        return layout.POLICY_WAITS
    if state.frozen_by != os.getpid():
        return layout.POLICY_INHERITED
    return layout.POLICY_SPLICED if state.spliced else layout.POLICY_FROZEN
