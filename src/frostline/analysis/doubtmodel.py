"""What a doubt is: why a number may be wrong, and which numbers those are."""

from __future__ import annotations

from dataclasses import dataclass

#: Kinds of numbers that can be doubted. The report knows in which cells each stands.
PASSES = "passes"  # how many passes there were
PAUSES = "pauses"  # how long they were, other tools' callbacks included
SINGLE = "single passes"  # the pauses of the passes named by ``Doubt.at``
WALKED = "walked"  # objects that they walked
SPANS = "spans"  # how many spans there were
LABELS = "labels"  # which labels have spans at all
LENGTHS = "lengths"  # how long spans took
ACROSS = "across"  # what one process's passes have to do with another one's time
FROZEN = "frozen"  # objects that are frozen
POLICY = "policy"  # what a policy did
RECORDED = "recorded"  # the time that was recorded
HOST = "host"  # what the host signals say
REQUESTS = "requests"  # all that a load client measured
QUANTILES = "quantiles"  # its quantiles alone
COUNTED = "counted"  # how many requests of it are counted
JOINED = "joined"  # what passes have to do with them
SESSION = "session"  # everything: the line that says what all of it rests on

#: Doubts and losses by name -> the kinds of numbers that they touch. One that is not here, such as a loss of
#: what no table shows, stands beside the process that it is about.
TOUCHES: dict[str, tuple[str, ...]] = {
    "processes-missed": (SESSION, ACROSS),
    "attached-late": (RECORDED,),
    "looked-at": (LENGTHS,),
    "passes-lost": (PASSES,),
    "spans-lost": (SPANS,),
    "records-damaged": (PASSES, SPANS),
    "segment-missing": (PASSES, SPANS),
    "files-damaged": (PASSES, SPANS),
    "span-refused": (LABELS,),
    "span-unused": (LABELS,),
    "other-callbacks": (PAUSES,),
    "slow-walk": (SINGLE,),
    "no-boundary": (POLICY,),
    "froze-nothing": (FROZEN,),
    "frozen-garbage": (FROZEN,),
    "dead-collector": (PASSES,),
    "free-threaded": (PASSES,),
    "incremental": (WALKED,),
    "still-running": (SESSION,),
    "clocks": (ACROSS,),
    "requests-late": (REQUESTS,),
    "requests-own": (REQUESTS,),
    "requests-closed-loop": (QUANTILES,),
    "requests-outside": (COUNTED,),
    "requests-unread": (COUNTED,),
    "requests-clock": (JOINED,),
    # Losses.
    "segment-unreadable": (PASSES, SPANS),
    "segment-version": (PASSES, SPANS),
    "segment-empty": (PASSES, SPANS),
    "segment-short": (PASSES, SPANS),
    "segment-unfinished": (PASSES, SPANS),
    "segment-header": (PASSES, SPANS),
    "segment-gone": (PASSES, SPANS),
    "region-short": (PASSES, SPANS),
    "region-damaged": (PASSES, SPANS),
    "records-unfinished": (PASSES, SPANS),
    "records-refused": (PASSES, SPANS),
    "recorder-off": (PASSES, SPANS),
    "lost-passes": (PASSES,),
    "passes-dropped": (PASSES,),
    "lost-spans": (SPANS,),
    "spans-dropped": (SPANS,),
    "host-damaged": (HOST,),
    "helper-died": (SESSION,),
}


@dataclass(frozen=True)
class Doubt:
    """Why a number may be wrong, or a verdict weaker than it looks."""

    slug: str
    text: str
    #: Names of the processes, or of the runs of load clients, whose numbers it touches; empty where it is
    #: about the session as a whole.
    about: tuple[str, ...] = ()
    #: When the passes began that it is about, ns; empty where it is not about single ones.
    at: tuple[int, ...] = ()

    @property
    def touches(self) -> tuple[str, ...]:
        """Kinds of numbers."""
        return TOUCHES.get(self.slug, ())
