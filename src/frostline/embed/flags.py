"""Flags and environment names for a server's own command line (C3), and what they put in force (A1, A4).

    frostline.add_arguments(parser, prefix="DYN")       # --freeze-gc-heap, DYN_FREEZE_GC_HEAP, ...
    frostline.apply(parser.parse_args(), role="frontend")

``apply`` leaves the choice in the environment, and ``frostline.install()`` in each child takes it from there.
"""

import os
import sys

import frostline
from frostline.embed.pauses import LONGEST_MS
from frostline.policy.grammar import parse, three_thresholds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What ``apply`` leaves for the children. FROSTLINE_POLICY, the operator's, wins over the first.
POLICY = "FROSTLINE_PROGRAM_POLICY"
PAUSE_LOG = "FROSTLINE_PROGRAM_PAUSE_LOG"

_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")


# Each reader's message says what was meant, and not of what: argparse and click name the flag themselves.
def switch(value: object) -> bool:
    """Reads a yes or a no.

    Raises:
        ValueError: it is neither; the message says what was meant.
    """
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise ValueError(f"1, true, yes, on or 0, false, no, off{_given(value)}")


def milliseconds(value: object) -> float:
    """Reads a threshold in milliseconds; 0 and None are "off".

    Raises:
        ValueError: no number, negative, infinite, or over an hour; the message says what was meant.
    """
    if value is None:
        return 0.0
    number = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value) if abs(value) <= LONGEST_MS else -1.0
    elif isinstance(value, str):
        text = value.strip()
        whole, _, part = text.partition(".")
        if text.isascii() and whole.isdigit() and (part.isdigit() or "." not in text) and len(text) < 20:
            number = float(text)
    if 0.0 <= number <= LONGEST_MS:  # nan is not
        return number
    raise ValueError(
        f"milliseconds from 0 (off) to {LONGEST_MS:.0f} (an hour), as in 100 or 2.5{_given(value)}"
    )


def thresholds(value: object) -> "str | None":
    """Reads three thresholds, as ``700,10,1000``; None where none were asked for.

    Raises:
        ValueError: they are not three whole numbers; the message says what was meant.
    """
    if value is None:
        return None
    text = ",".join(str(one) for one in value) if isinstance(value, (tuple, list)) else str(value).strip()
    if not text:
        raise ValueError(f"three thresholds, as in 700,10,1000{_given(value)}")
    three_thresholds(text, ",", "700,10,1000")
    return text


def _named(what: str, read: "Callable[[object], object]", value: object) -> object:
    """Where nobody else says of what a message is."""
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _given(value: object) -> str:
    if value is None or str(value).strip() == "":
        return " (given an empty value; to leave it to the default, leave it out)"
    return f" (given {str(value)[:40]!r})"


class _Flag:
    """One of the flags.

    Attributes:
        dest: its name in the namespace.
        read: makes the value of what was given, or raises ValueError.
        default: where neither the command line nor the environment says anything.
    """

    __slots__ = ("default", "dest", "help", "metavar", "read")

    def __init__(
        self, dest: str, read: "Callable[[object], object]", default: object, metavar: str, help: str
    ) -> None:
        self.dest = dest
        self.read = read
        self.default = default
        self.metavar = metavar
        self.help = help

    @property
    def option(self) -> str:
        return "--" + self.dest.replace("_", "-")

    def variable(self, prefix: str) -> str:
        return f"{prefix.rstrip('_')}_{self.dest.upper()}" if prefix else self.dest.upper()


def _flags(freeze: bool) -> "tuple[_Flag, ...]":
    return (
        _Flag(
            "freeze_gc_heap",
            switch,
            freeze,
            "",
            "collect and freeze the heap when start-up has ended, so that full garbage collections do not"
            " walk it; with --no- the collector is left as CPython has it",
        ),
        _Flag(
            "gc_thresholds",
            thresholds,
            None,
            "T0,T1,T2",
            "thresholds of the collector in every process, as in 700,10,1000; CPython's own if not given",
        ),
        _Flag(
            "gc_pause_log_ms",
            milliseconds,
            0.0,
            "MS",
            "log a warning for each garbage collection of at least so many milliseconds; 0 is off",
        ),
    )


class _FromEnvironment(str):
    """A default that says where it came from when it is refused."""

    variable = ""


def add_arguments(parser: "Any" = None, prefix: str = "FROSTLINE", freeze: bool = True) -> "Any":
    """Adds ``--freeze-gc-heap/--no-freeze-gc-heap``, ``--gc-thresholds`` and ``--gc-pause-log-ms``.

    Args:
        parser: an ``argparse`` parser or group of arguments; a click command or group, or the function
            that will be one. Without it a decorator for click is returned.
        prefix: of the environment names: ``"DYN"`` makes DYN_FREEZE_GC_HEAP, DYN_GC_THRESHOLDS and
            DYN_GC_PAUSE_LOG_MS. The command line wins over them.
        freeze: whether the heap is frozen where nobody says anything.

    Returns ``parser``. A nonsense value, from either place, ends the parsing with a message of what was
    meant. The values are ``freeze_gc_heap``, ``gc_thresholds`` and ``gc_pause_log_ms`` of the namespace;
    give it to ``apply``.

    Raises:
        TypeError: ``parser`` is of none of those kinds.
    """
    flags = _flags(freeze)
    if parser is None:
        return lambda command: add_arguments(command, prefix, freeze)
    if hasattr(parser, "add_argument"):
        _to_argparse(parser, flags, prefix)
    elif callable(parser) and "click" in sys.modules:
        _to_click(parser, flags, prefix)
    else:
        raise TypeError(
            f"add_arguments takes an argparse parser or a click command, not {type(parser).__name__}"
        )
    return parser


def _help(flag: _Flag, prefix: str) -> str:
    default = "" if flag.default is None else "; default on" if flag.default else "; default off"
    return f"{flag.help} [{flag.variable(prefix)}{default}]"


def _to_argparse(parser: "Any", flags: "tuple[_Flag, ...]", prefix: str) -> None:
    import argparse

    class Switch(argparse.Action):
        """As BooleanOptionalAction, but a default that is a text is read and may be refused."""

        def __init__(self, option_strings: "Any", dest: str, **keywords: "Any") -> None:
            names = [*option_strings, *(f"--no-{name[2:]}" for name in option_strings)]
            super().__init__(names, dest, nargs=0, **keywords)

        def __call__(
            self, parser: "Any", namespace: "Any", values: "Any", option_string: "Any" = None
        ) -> None:
            setattr(namespace, self.dest, not str(option_string).startswith("--no-"))

        def format_usage(self) -> str:
            return " | ".join(self.option_strings)

    def reader(flag: _Flag) -> "Callable[[str], object]":
        def read(text: str) -> object:
            try:
                variable = getattr(text, "variable", "")
                return _named(variable, flag.read, text) if variable else flag.read(text)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        return read

    group = parser
    if isinstance(parser, argparse.ArgumentParser):
        group = parser.add_argument_group("garbage collector")
    for flag in flags:
        default: Any = flag.default
        told = os.environ.get(flag.variable(prefix))
        if told is not None:
            default = _FromEnvironment(told)
            default.variable = flag.variable(prefix)
        keywords: dict[str, Any] = {"action": Switch} if flag.read is switch else {"metavar": flag.metavar}
        group.add_argument(
            flag.option,
            dest=flag.dest,
            default=default,
            type=reader(flag),
            help=_help(flag, prefix).replace("%", "%%"),
            **keywords,
        )


def _to_click(command: "Any", flags: "tuple[_Flag, ...]", prefix: str) -> None:
    import click

    def reader(flag: _Flag) -> "Callable[[Any, Any, Any], object]":
        def read(context: "Any", option: "Any", value: object) -> object:
            # Read here and not by click, which takes an empty variable for one that is not set.
            variable = ""
            if value is None:
                variable = flag.variable(prefix)
                value = os.environ.get(variable)
            if value is None:
                return flag.default
            try:
                return _named(variable, flag.read, value) if variable else flag.read(value)
            except ValueError as error:
                raise click.BadParameter(str(error), context, option) from None

        return read

    options = []
    for flag in flags:
        names = [flag.option]
        keywords: dict[str, Any] = {"metavar": flag.metavar, "type": str}
        if flag.read is switch:
            names = [f"{flag.option}/--no-{flag.option[2:]}"]
            keywords = {"is_flag": True}
        options.append(
            click.Option(
                [*names, flag.dest],
                default=None,
                callback=reader(flag),
                help=_help(flag, prefix),
                **keywords,
            )
        )
    if isinstance(command, click.Command):
        command.params.extend(options)
    else:
        # As click.option does it to a function: from the last to the first.
        known = command.__dict__.setdefault("__click_params__", [])
        known.extend(reversed(options))


def apply(
    namespace: "Any" = None,
    policy: str = "freeze",
    role: "str | None" = None,
    rank: "int | str | None" = None,
    prefix: str = "FROSTLINE",
    freeze: bool = True,
) -> str:
    """Puts in force what the flags say, here and in every child that calls ``frostline.install()``.

    To be called before the first child is started: the choice reaches children through the environment
    (FROSTLINE_PROGRAM_POLICY, FROSTLINE_PROGRAM_PAUSE_LOG), whether they are forked, spawned or started by
    a fork server, and wins over what ``install(policy=)`` says in them. FROSTLINE_POLICY, the operator's,
    wins over all of it.

    Args:
        namespace: what the parser made, or a mapping (``click``'s parameters). What it lacks is taken
            from the environment, then from the defaults; None takes all from there.
        policy: what ``freeze_gc_heap`` puts in force: ``freeze``, or ``follow`` with its options.
        role, rank: as in ``install``.
        prefix, freeze: as in ``add_arguments``.

    Returns the policy that the flags make: ``policy``, with ``thresholds=`` where thresholds were asked
    for; ``tune:...`` where freezing is off and thresholds were asked for; else ``off``.

    Raises:
        ValueError: a value is nonsense; the message says what was meant.
    """
    values: dict[str, Any] = {}
    for flag in _flags(freeze):
        values[flag.dest] = _value(namespace, flag, prefix)
    asked = values["gc_thresholds"]
    if values["freeze_gc_heap"]:
        text = policy + (f",thresholds={asked.replace(',', '/')}" if asked else "")
    else:
        text = f"tune:{asked}" if asked else "off"
    parse(text)
    os.environ[POLICY] = text
    threshold = values["gc_pause_log_ms"]
    if threshold:
        os.environ[PAUSE_LOG] = f"{threshold:g}"
    else:
        os.environ.pop(PAUSE_LOG, None)
    frostline.install(role=role, rank=rank)
    if text == "off" and not os.environ.get("FROSTLINE_POLICY"):
        engine = sys.modules.get("frostline.policy.engine")
        if engine is not None and engine.in_force() != "off":
            engine.adopt(text)  # the program had put one in force before it read its flags
    return text


def _value(namespace: "Any", flag: _Flag, prefix: str) -> object:
    missing = object()
    given: object = missing
    if isinstance(namespace, dict):
        given = namespace.get(flag.dest, missing)
    elif namespace is not None:
        given = getattr(namespace, flag.dest, missing)
    if given is missing:
        told = os.environ.get(flag.variable(prefix))
        return flag.default if told is None else _named(flag.variable(prefix), flag.read, told)
    return _named(getattr(given, "variable", "") or flag.option, flag.read, given)


def begin_pause_log() -> None:
    """For ``install``: what ``apply`` in a parent has asked for. A nonsense value is the parent's fault, not ours."""
    from frostline.embed import pauses

    pauses.pause_log(os.environ[PAUSE_LOG])
