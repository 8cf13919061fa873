"""A policy that comes to a process which runs already: what it does about a boundary that is past."""

import os

from frostline import format as layout
from frostline.policy import engine
from frostline.policy.engine import _engine as state
from frostline.policy.grammar import Policy


def catch_up(changed: bool, ended: bool) -> None:
    """A policy that came while the process ran does what it does at a late boundary, if that has been told.

    Args:
        changed: it is another one than before.
        ended: start-up has ended, says who brings the policy.
    """
    frozen = state.frozen_by == os.getpid()
    if ended and not _told() & 1 << engine.BY_SUPERVISOR:
        engine.boundary(engine.BY_SUPERVISOR)
        if not frozen:
            return  # it has acted on that
    policy = state.policy
    if policy is None or not _past(policy):
        return
    if not frozen:
        engine.reached(policy, late=True)
    elif changed and state.keeper is not None:
        state.keeper.begin(False)  # frozen under the policy before


def _told() -> int:
    """Who has told the boundary in this process, a bit for each BY_*."""
    return state.told if state.told_in == os.getpid() else 0


def _past(policy: Policy) -> bool:
    """Whether one has told it whose word counts."""
    by_ready = 1 << engine.BY_SUPERVISOR
    counts = {"ready": by_ready, "program": ~by_ready}.get(policy.boundary, -1)
    return bool(_told() & counts)


def standing() -> int:
    """What has come of the policy in this process, a POLICY_*. Without one: what is frozen all the same."""
    policy = state.policy
    if policy is not None and policy.kind not in engine.FREEZING:
        return layout.POLICY_ACTS
    if not state.frozen:
        if policy is None:
            return layout.POLICY_NONE
        return layout.POLICY_PAST if _past(policy) else layout.POLICY_WAITS
    if state.frozen_by != os.getpid():
        return layout.POLICY_INHERITED
    return layout.POLICY_SPLICED if state.spliced else layout.POLICY_FROZEN
