"""The grammar of policies, for ``--policy``, FROSTLINE_POLICY and ``install(policy=)`` alike.

off | tune:50000,20,100 | freeze[,thresholds=700/10/1000]
"""

#: Kinds that ``docs/design.md`` names and a later version brings.
PLANNED = ("follow", "idle", "sync", "periodic", "prefork")
KINDS = ("off", "tune", "freeze")
_LARGEST = 2**31 - 1


class Policy:
    """A parsed policy.

    Attributes:
        text: as it was given, for marks and reports.
        kind: one of KINDS.
        thresholds: three numbers for ``gc.set_threshold``, or None to leave the host's.
    """

    __slots__ = ("kind", "text", "thresholds")

    def __init__(self, text: str, kind: str, thresholds: "tuple[int, int, int] | None") -> None:
        self.text = text
        self.kind = kind
        self.thresholds = thresholds


def parse(text: str) -> Policy:
    """Reads a policy.

    Raises:
        ValueError: with what is wrong and what could have been meant.
    """
    given = text.strip()
    head, *options = given.split(",") if not given.startswith("tune") else [given]
    kind, colon, value = head.partition(":")
    kind = kind.strip().lower()
    if kind == "tune":
        return Policy(given, "tune", _thresholds(value, ",", "tune:50000,20,100"))
    if kind in PLANNED:
        raise ValueError(f"policy {kind!r} is not in this version; it has {', '.join(KINDS)}")
    if kind not in KINDS:
        raise ValueError(
            f"unknown policy {text!r}{_nearest(kind)}; policies are off, tune:T0,T1,T2 and freeze"
        )
    if colon:
        raise ValueError(f"policy {kind!r} takes no value after ':' (given {text!r})")
    thresholds = None
    for option in options:
        name, equals, value = option.strip().partition("=")
        if name != "thresholds" or not equals:
            raise ValueError(f"unknown option {option!r} in policy {text!r}; there is thresholds=700/10/1000")
        if kind == "off":
            raise ValueError("policy 'off' takes no options; for thresholds alone use tune:700,10,1000")
        thresholds = _thresholds(value, "/", "thresholds=700/10/1000")
    return Policy(given, kind, thresholds)


def _thresholds(value: str, separator: str, example: str) -> "tuple[int, int, int]":
    parts = [part.strip() for part in value.split(separator)]
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"thresholds are three whole numbers from 0 up, as in {example!r} (given {value!r})")
    numbers = (int(parts[0]), int(parts[1]), int(parts[2]))
    if max(numbers) > _LARGEST:
        raise ValueError(f"a threshold is at most {_LARGEST} (given {value!r})")
    return numbers


def _nearest(kind: str) -> str:
    """A hint for a slip of a letter or two; ``difflib`` would cost the target seven modules."""
    for known in KINDS + PLANNED:
        if kind and (known.startswith(kind) or kind.startswith(known) or sorted(kind) == sorted(known)):
            return f" (did you mean {known!r}?)"
    return ""
