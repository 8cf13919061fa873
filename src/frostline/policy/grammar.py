"""The grammar of policies, for ``--policy``, FROSTLINE_POLICY and ``install(policy=)`` alike.

off | tune:50000,20,100 | freeze | follow | idle | sync:N | periodic:60s | prefork, and options behind
commas: thresholds=700/10/1000, budget=50000 or budget=5ms, major=idle|never|force, deadline=60s,
boundary=program|ready. Behind an @ may stand whom it is for: follow@EngineCore+Worker, freeze@!APIServer.
"""

KINDS = ("off", "tune", "freeze", "follow", "idle", "sync", "periodic", "prefork")
#: What may stand behind a kind, with an example of each.
OPTIONS = {
    "off": (),
    "tune": (),
    "freeze": ("thresholds", "boundary"),
    "follow": ("thresholds", "boundary", "budget", "major"),
    "idle": ("thresholds", "boundary", "deadline"),
    "sync": ("thresholds",),
    "periodic": ("thresholds", "boundary"),
    "prefork": ("thresholds", "boundary"),
}
EXAMPLES = {
    "thresholds": "thresholds=700/10/1000",
    "budget": "budget=50000 (objects) or budget=5ms",
    "major": "major=idle, major=never or major=force",
    "deadline": "deadline=60s",
    "boundary": "boundary=program or boundary=ready",
}
MAJORS = ("idle", "never", "force")
#: Who may tell the boundary: the program or an integration, or a supervisor that saw it ready. Where the
#: option is not given, whoever tells it.
BOUNDARIES = ("program", "ready")
_LARGEST = 2**31 - 1
#: Bytes of a policy's text: it travels to live processes in a page (``docs/format.md``).
LONGEST_TEXT = 200
_SMALLEST_BUDGET = 100
_UNITS = {"ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000, "h": 3_600_000_000_000}
_LONGEST = 30 * 24 * _UNITS["h"]
#: Objects a full pass may walk under ``follow`` where no budget is given.
DEFAULT_BUDGET = 50_000
DEFAULT_DEADLINE = 60 * _UNITS["s"]


class Policy:
    """A parsed policy.

    Attributes:
        text: as it was given, for marks and reports.
        kind: one of KINDS.
        thresholds: three numbers for ``gc.set_threshold``, or None to leave the host's.
        budget: objects that a full pass may walk (``follow``).
        budget_ns: the same as a time, 0 where it was given in objects.
        major: when ``follow`` may walk the whole heap once its credit is spent: one of MAJORS.
        every: steps (``sync``) or nanoseconds (``periodic``) between two acts, else 0.
        deadline: nanoseconds that a due full pass may wait for an idle moment (``idle``).
        boundary: whose word counts, one of BOUNDARIES, or "" for anybody's.
        roles: processes that it is for, by name (``policy.roles``); empty for all.
        others: it is for all but ``roles``.
    """

    __slots__ = (
        "boundary",
        "budget",
        "budget_ns",
        "deadline",
        "every",
        "kind",
        "major",
        "others",
        "roles",
        "text",
        "thresholds",
    )

    def __init__(self, text: str, kind: str, thresholds: "tuple[int, int, int] | None" = None) -> None:
        self.text = text
        self.kind = kind
        self.thresholds = thresholds
        self.budget = DEFAULT_BUDGET
        self.budget_ns = 0
        self.major = "idle"
        self.every = 0
        self.deadline = DEFAULT_DEADLINE
        self.boundary = ""
        self.roles: tuple[str, ...] = ()
        self.others = False


def parse(text: str) -> Policy:
    """Reads a policy.

    Raises:
        ValueError: with what is wrong and what could have been meant.
    """
    given = text.strip()
    if len(given.encode("utf-8", "replace")) > LONGEST_TEXT:
        raise ValueError(f"a policy is at most {LONGEST_TEXT} bytes long (given {given[:40]!r}...)")
    plain, at, whom = given.partition("@")
    head, *options = plain.split(",") if not plain.lower().startswith("tune") else [plain]
    kind, colon, value = head.partition(":")
    kind = kind.strip().lower()
    value = value.strip()
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        option = kind.partition("=")[0].strip()
        if not hint and option in EXAMPLES:
            takes = next(one for one in ("freeze", "follow", "idle") if option in OPTIONS[one])
            hint = f" ({option!r} is an option: it stands behind a policy, as in {takes},{EXAMPLES[option]})"
        raise ValueError(
            f"unknown policy {text!r}{hint}; policies are off, tune:T0,T1,T2, freeze, follow, idle,"
            " sync:N, periodic:60s and prefork"
        )
    policy = Policy(given, kind)
    if kind == "tune":
        policy.thresholds = three_thresholds(value, ",", "tune:50000,20,100")
    elif kind == "sync":
        policy.every = _number(value, "steps of sync", "sync:100", 1)
    elif kind == "periodic":
        policy.every = _duration(value, "periodic", "periodic:60s")
    elif colon:
        raise ValueError(f"policy {kind!r} takes no value after ':' (given {text!r})")
    seen: set[str] = set()
    for option in options:
        name, equals, value = option.strip().partition("=")
        name = name.strip().lower()
        _check_option(policy, name, bool(equals), text)
        if name in seen:
            raise ValueError(f"option {name!r} stands twice in policy {text!r}")
        seen.add(name)
        _set_option(policy, name, value.strip())
    if at:
        _set_roles(policy, whom.strip())
    return policy


def _set_roles(policy: Policy, whom: str) -> None:
    policy.others = whom.startswith("!")
    roles = tuple(role.strip() for role in whom.removeprefix("!").split("+"))
    if not all(roles) or any(sign in whom.removeprefix("!") for sign in "@!,"):
        raise ValueError(
            "behind @ stand names of processes, as in follow@EngineCore, follow,budget=5ms@EngineCore+Worker"
            f" or freeze@!APIServer, which is all but that one (given {whom!r})"
        )
    if policy.kind == "off":
        raise ValueError("off@ says nothing: name the processes that a policy is for, or write @!NAME")
    policy.roles = roles


def _check_option(policy: Policy, name: str, has_value: bool, text: str) -> None:
    allowed = OPTIONS[policy.kind]
    if not allowed:
        raise ValueError(
            f"policy {policy.kind!r} takes no options; for thresholds alone use tune:700,10,1000"
        )
    if name in allowed and has_value:
        return
    what = "; ".join(EXAMPLES[known] for known in allowed)
    if name in allowed:
        raise ValueError(f"option {name!r} in policy {text!r} has no value, as in {EXAMPLES[name]}")
    if name in EXAMPLES:
        raise ValueError(f"policy {policy.kind!r} has no option {name!r}; it takes {what}")
    hint = did_you_mean(name, allowed)
    raise ValueError(f"unknown option {name!r} in policy {text!r}{hint}; {policy.kind!r} takes {what}")


def _set_option(policy: Policy, name: str, value: str) -> None:
    if name == "thresholds":
        policy.thresholds = three_thresholds(value, "/", "thresholds=700/10/1000")
    elif name == "budget":
        if value.isascii() and value.isdigit():
            policy.budget = _number(value, "a budget in objects", "budget=50000", _SMALLEST_BUDGET)
        else:
            policy.budget_ns = _duration(value, "a budget", EXAMPLES["budget"])
    elif name == "major":
        if value not in MAJORS:
            hint = did_you_mean(value, MAJORS)
            raise ValueError(f"major is idle, never or force (given {value!r}){hint}")
        policy.major = value
    elif name == "boundary":
        if value not in BOUNDARIES:
            raise ValueError(
                "boundary is program (startup_complete() or an integration tells it) or ready"
                f" (a supervisor does, by --ready-url and its like; given {value!r})"
                f"{did_you_mean(value, BOUNDARIES)}"
            )
        policy.boundary = value
    else:
        policy.deadline = _duration(value, "a deadline", EXAMPLES["deadline"])


def _number(value: str, what: str, example: str, least: int) -> int:
    if value.isascii() and value.isdigit() and len(value) < 100 and least <= int(value) <= _LARGEST:
        return int(value)
    raise ValueError(f"{what}: a whole number from {least} to {_LARGEST}, as in {example} (given {value!r})")


def _duration(value: str, what: str, example: str) -> int:
    """Nanoseconds."""
    for unit in ("ms", "min", "s", "h"):
        number = value.removesuffix(unit).strip() if value.endswith(unit) else ""
        if number.isascii() and number.isdigit() and len(number) < 12:
            duration = int(number) * _UNITS[unit]
            if 0 < duration <= _LONGEST:
                return duration
            raise ValueError(f"{what}: a time from 1ms to 30 days, as in {example} (given {value!r})")
    raise ValueError(f"{what}: a whole number and ms, s, min or h, as in {example} (given {value!r})")


def three_thresholds(value: str, separator: str, example: str) -> "tuple[int, int, int]":
    """Reads what ``gc.set_threshold`` takes.

    Args:
        value: three whole numbers with ``separator`` between them.
        example: how it is written where it stands, for the message.

    Raises:
        ValueError: they are no such numbers; the message says what was meant.
    """
    parts = [part.strip() for part in value.split(separator)]
    given = f"given {value[:40]!r}" + "..." * (len(value) > 40)
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 100 for part in parts):
        raise ValueError(
            f"thresholds are three whole numbers from 0 to {_LARGEST}, as in {example!r} ({given})"
        )
    numbers = (int(parts[0]), int(parts[1]), int(parts[2]))
    if max(numbers) > _LARGEST:
        raise ValueError(f"a threshold is at most {_LARGEST} ({given})")
    return numbers


def did_you_mean(word: str, known: "tuple[str, ...]") -> str:
    """`` (did you mean 'follow'?)`` for a slip of a letter or two, else empty.

    Not by ``difflib``, which would cost the target seven modules.
    """
    word = word.lower()
    if not word or len(word) > 20:
        return ""
    best, least = "", 3
    for one in known:
        slips = _slips(word, one)
        if len(word) > 2 and (one.startswith(word) or word.startswith(one)):
            slips = min(slips, 1)
        # Two slips in four letters make another word.
        if slips < least and 2 * slips < len(one):
            best, least = one, slips
    return f" (did you mean {best!r}?)" if best else ""


def _slips(one: str, other: str) -> int:
    """Letters left out, put in, changed, or changed with their neighbour (optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            least = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        before, last = last, row
    return last[-1]
