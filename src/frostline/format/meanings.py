"""What the layout's numbers mean, in words. Loaded outside the target only."""

from frostline.format import (
    OP_BOUNDARY,
    OP_COLLECT,
    OP_DETACH,
    OP_FREEZE,
    OP_PING,
    OP_POLICY,
    OP_THAW,
    OP_TUNE,
    POLICY_ACTS,
    POLICY_FROZEN,
    POLICY_INHERITED,
    POLICY_NONE,
    POLICY_PAST,
    POLICY_SPLICED,
    POLICY_WAITS,
    REPLY_BUSY,
    REPLY_DONE,
    REPLY_ERROR,
    REPLY_NONE,
    REPLY_REFUSED,
    REPLY_UNKNOWN,
)
from frostline.format.request import OP_LOOK

#: One line a version: what changed, and why.
HISTORY = (
    (1, "first layout: passes, spans, marks and names; one file series an interpreter"),
    (1, "since then: the freeze mark's b and c, 0 before, tell of open requests and of what was allocated"),
    (1, "since then: the text of a request, for OP_POLICY, where there were zeroes"),
    (
        1,
        "since then: live words line_* and line marks 13 to 15, what the policy follow is doing; 0 in older files",
    ),
    (1, "since then: the attach mark's b, 0 before, tells how many objects were tracked"),
    (1, "since then: a freeze that is asked for has an argument, and -2 as a result; POLICY_PAST"),
    (1, "since then: the text key session"),
    (1, "since then: batch size, stage and name of a span, by bits 2 to 6 of its flags; 0 in older files"),
    (1, "since then: line marks 16 and 17, whether anybody tells `idle` of idle moments"),
    (1, "since then: mark 18 (thread) is taken out: nothing ever wrote it"),
    (1, "since then: the mark promoted"),
    (1, "since then: the forked mark's c, 0 before, tells how long ago the fork began"),
    (1, "since then: the mark look: how long a process stood still for a look at its heap"),
    (1, "since then: the mark allocated"),
    (1, "since then: the mark census; look 3 (audit); the freeze mark's b of the program's own too"),
)

TEXT_KEYS = (
    ("python", "sys.version"),
    ("executable", "sys.executable"),
    ("argv", "one line an argument, redacted, in order (sys.orig_argv)"),
    ("module", "what runs: the -m module or the script's path"),
    ("policy", "policy in force at opening"),
    ("frostline", "version of the recorder"),
    ("session", "the session's folder, as the process saw it at opening"),
    ("parent_series", "series of the process that forked this one, if it did"),
    ("truncated", "1 if something did not fit"),
)

STATES = ((0, "opening"), (1, "recording"), (2, "closed"), (3, "off"))

#: What ``follow`` is doing: the live word ``line_state``.
LINE_STATES = (
    (0, "not following"),
    (1, "following"),
    (2, "waiting: what was frozen dies by itself, so full passes are held back"),
    (3, "credit exhausted: nothing more is frozen until the whole heap is walked or enough has died"),
)

OFF_REASONS = (
    (0, "not off"),
    (1, "no space left where segments are written"),
    (2, "the folder of the recording is gone"),
    (3, "no permission to write a segment"),
    (4, "an error inside the recorder, which switched itself off"),
    (5, "a free-threaded build: this version does not record it"),
    (6, "removed by request"),
)

OPS = (
    (OP_PING, "ping", "answers; result = monotonic ns"),
    (
        OP_FREEZE,
        "freeze",
        "splice, no collect; result = -1 (not counted), or -2 where the policy in force puts it right in the"
        " next idle moment, by a walk of the whole heap; no earlier than arg0 ms from now, 60,000 at most",
    ),
    (OP_THAW, "thaw", "unfreeze what we froze; result = 1 if anything was done"),
    (OP_COLLECT, "collect", "collect generation arg0; result = objects reclaimed"),
    (OP_TUNE, "tune", "thresholds arg0, arg1, arg2"),
    (OP_BOUNDARY, "boundary", "start-up has ended, says a supervisor: the policy acts, late"),
    (
        OP_POLICY,
        "policy",
        "puts the policy in force that the text of the request names; arg0 = its bytes, 0 to ask which one is,"
        " arg1 = their checksum, arg2 = 1 if start-up has ended. The text of the reply is the policy in force,"
        " or why it is refused; result = POLICY_*",
    ),
    (
        OP_LOOK,
        "look",
        "a census, the cycles of one saved pass, who holds an object, or an audit of the freeze, as the text says;"
        " arg0 = its bytes, arg1 = their checksum. result = bytes of the answer, a JSON file beside the first"
        " segment, whose name ends in .look and which the caller takes away",
    ),
    (OP_DETACH, "detach", "everything of ours is taken out, and the process lives on; result = DETACH_*"),
)

REPLIES = (
    (REPLY_NONE, "no answer yet"),
    (REPLY_DONE, "done"),
    (REPLY_BUSY, "busy: inside a pass or a region of defer(), ask again"),
    (REPLY_ERROR, "failed inside the target"),
    (REPLY_UNKNOWN, "unknown request"),
    (REPLY_REFUSED, "refused: it cannot be done here, or an argument is out of range"),
)

#: What has come of the policy in force.
STANDINGS = (
    (POLICY_NONE, "none is in force"),
    (POLICY_ACTS, "in force"),
    (POLICY_WAITS, "waits for its boundary, nothing is frozen"),
    (POLICY_FROZEN, "frozen"),
    (POLICY_SPLICED, "frozen, spliced"),
    (POLICY_INHERITED, "frozen by the process that forked this one"),
    (POLICY_PAST, "its boundary is past, nothing is frozen: give the policy again to freeze"),
)

#: What a policy did and why: ``a`` of a line mark. F, H and the credit are explained in docs/policies.md.
LINES = (
    (1, "follow: the line moved up, these survivors are frozen"),
    (2, "whole heap thawed, collected and frozen again: garbage reclaimed"),
    (3, "follow: credit exhausted, freezing stops until the whole heap is walked"),
    (4, "follow: so many of the frozen objects have died that there is credit again"),
    (5, "follow: much of what was frozen had died, alpha is halved"),
    (6, "follow: the budget is below two gen-1 periods and was raised to"),
    (7, "follow: a full pass over the budget, many survivors at once; they are frozen"),
    (8, "follow: a full pass over the budget, most of it garbage"),
    (9, "follow: a full pass over the budget, left alone since it or the one before reclaimed a good part"),
    (10, "follow: a full pass over the budget, there is no credit"),
    (11, "idle: the deadline passed, the next full pass is the collector's own; waited, ns"),
    (12, "the policy could not go on and switched itself off"),
    (13, "follow: what lives of the frozen objects was counted, at a safe point"),
    (14, "follow: most of what was frozen has died by reference count; full passes wait for that. Died"),
    (
        15,
        "follow: a full pass over the budget, deaths that it had waited for did not come",
    ),
    (16, "idle: the boundary has come, and nobody has told of a request or of an idle moment so far"),
    (17, "idle: the end of a request, or an idle moment, was told for the first time"),
)
