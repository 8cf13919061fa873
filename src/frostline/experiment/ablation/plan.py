"""What is to be done: server, load, arms, and how often. Checked as a whole before anything starts."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from frostline.experiment.ablation.tables import cpus, env, flag, seconds, share, whole, words, wrong
from frostline.experiment.load.plan import is_url
from frostline.experiment.statistics import LEVEL, MARGIN, least_blocks

CONTROL = "none"
ALL = "all"
#: What a run of ``frostline load`` is judged by, the first before all others.
OWN_METRICS = {"p99": "lower", "p50": "lower", "achieved": "higher", "ttft_p99": "lower", "tpot_p50": "lower"}
#: The arms that go on from the screening to the clock, unless set.
CONFIRM = 3
#: Options of `frostline load` that a run has from the plan.
_OURS = {"--rate", "--trace", "--seconds", "--warmup", "--seed", "--json", "-o", "--output"}
_KEYS = {
    "": {"server", "load", "run", "arms", "arm"},
    "server": {
        "command", "ready-url", "ready-log", "ready-after", "patience", "stop", "env", "cpus", "options",
    },
    "load": {"url", "rate", "options", "command", "tag", "metrics", "beside"},
    "run": {
        "blocks", "warmup", "window", "drain", "tries", "keep", "seed", "margin", "confirm", "pairs",
    },
    "arms": {"policy", "roles"},
    "arm": {"name", "policy", "env", "cpus"},
}  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One way to run the server.

    Attributes:
        policy: of ``frostline run --policy``, empty for none.
        roles: whom the policy is for, where it is not for all; with ``others`` for all but these.
        env, cpus: environment variables and CPUs (as ``taskset -c`` has them) for the server.
    """

    name: str
    policy: str = ""
    roles: tuple[str, ...] = ()
    others: bool = False
    env: tuple[tuple[str, str], ...] = ()
    cpus: str = ""

    @property
    def given(self) -> str:
        """What stands behind ``--policy``."""
        return f"{self.policy}@{'!' * self.others}{'+'.join(self.roles)}" if self.roles else self.policy


@dataclass(frozen=True)
class Load:
    """What asks the server: ``frostline load`` (``url``), or a shell command that prints JSON lines.

    Attributes:
        options: further options of ``frostline load``.
        tag: of the JSON lines those count whose "tag" is this one; the last one of them.
        metrics: name -> whether higher is better; the first is what the experiment is about.
        beside: a shell command that loads the server meanwhile and is not judged.
    """

    url: str = ""
    rate: float = 10.0
    options: tuple[str, ...] = ()
    command: str = ""
    tag: str = ""
    metrics: tuple[tuple[str, bool], ...] = ()
    beside: str = ""


@dataclass(frozen=True)
class Plan:
    """All of it. Times in seconds.

    Attributes:
        ready: as ``reach.ready`` takes it, None where the server is ready when it has started.
        roles: processes that the arms are about; empty where the arms are given one by one.
        warmup, window, drain: before the measured time, the measured time, and after it.
        tries: how often a run may be made until it is valid.
        confirm: so many arms beside the control go on from the screening; 0 screens nothing.
        keep: keep the recordings.
        pairs: a block has each arm once and not twice: half the time, more noise in each, and none of its own
            to judge that noise by.
    """

    command: tuple[str, ...]
    ready: dict[str, Any] | None
    load: Load
    arms: tuple[Arm, ...]
    roles: tuple[str, ...] = ()
    blocks: int = 0
    warmup: float = 10.0
    window: float = 60.0
    drain: float = 1.0
    patience: float = 600.0
    stop: float = 30.0
    tries: int = 3
    seed: int = 0
    margin: float = MARGIN
    confirm: int = CONFIRM
    keep: bool = True
    pairs: bool = False
    env: tuple[tuple[str, str], ...] = ()
    cpus: str = ""
    options: tuple[str, ...] = field(default=())

    @property
    def screened(self) -> bool:
        """Whether there are more arms than the clock is to confirm."""
        return 0 < self.confirm < len(self.arms) - 1

    @property
    def compared(self) -> int:
        """Arms that the clock compares with the control."""
        return min(self.confirm, len(self.arms) - 1) if self.confirm else len(self.arms) - 1

    @property
    def each(self) -> int:
        """Runs of one arm in a block."""
        return 1 if self.pairs else 2

    @property
    def least(self) -> int:
        """Blocks that it takes to conclude anything of as many arms: 2 / 2**n <= 0.05 / arms."""
        return least_blocks(LEVEL, max(1, self.compared))

    @property
    def name(self) -> str:
        """What two plans of one experiment have in common: all but how often, and what is kept."""
        about = asdict(self)
        for free in ("blocks", "tries", "keep", "patience", "margin"):
            del about[free]
        if not self.load.beside:  # newer than experiments that may go on
            del about["load"]["beside"]
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def of_roles(policy: str, roles: Sequence[str]) -> tuple[Arm, ...]:
    """None, each role alone, all but one, all: of the roles named, so that all is each together and no more.

    Of two roles, all but one is the other alone, and comes once. Without roles *all* is every process.
    """
    roles = tuple(dict.fromkeys(roles))
    if len(roles) == 1:
        return Arm(CONTROL), Arm(f"{roles[0]} alone", policy, roles)
    arms = [Arm(CONTROL), *(Arm(f"{role} alone", policy, (role,)) for role in roles)]
    if len(roles) > 2:
        arms += [
            Arm(f"all but {role}", policy, tuple(other for other in roles if other != role)) for role in roles
        ]
    return (*arms, Arm(ALL, policy, roles) if roles else arm_of(policy, ALL))


def arm_of(policy: str, name: str = "", env: tuple[tuple[str, str], ...] = (), cpus: str = "") -> Arm:
    """An arm of a policy as it is typed (``follow@Engine+Worker``), which is its name too, unless given."""
    plain, at, whom = policy.partition("@")
    roles = tuple(role.strip() for role in whom.removeprefix("!").split("+")) if at else ()
    return Arm(name or policy, plain.strip(), roles, whom.startswith("!"), env, cpus)


def read(path: Path) -> Plan:
    """The plan in a TOML file.

    Raises:
        FrostlineError: ``ablate-plan``: it cannot be read, or does not say what is needed.
    """
    try:
        toml = importlib.import_module("tomllib")
    except ModuleNotFoundError:  # CPython 3.10
        toml = importlib.import_module("tomli")
    try:
        data: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise wrong(f"{path}: {error}") from error
    return of(data)


def of(data: Mapping[str, Any]) -> Plan:
    """The plan of a parsed file.

    Raises:
        FrostlineError: ``ablate-plan``.
    """
    _known(data, "")
    server, load, run = (_table(data, name) for name in ("server", "load", "run"))
    command = words(server, "command")
    if not command:
        raise wrong("[server] has no command", 'For example: command = "vllm serve ./model"')
    arms, roles = _arms(data)
    return checked(
        Plan(
            command=command,
            ready=_ready(server),
            load=_load(load),
            arms=arms,
            roles=roles,
            blocks=whole(run, "blocks", 0, 0, 1000),
            warmup=seconds(run.get("warmup", 10.0), "warmup"),
            window=seconds(run.get("window", 60.0), "window"),
            drain=seconds(run.get("drain", 1.0), "drain"),
            patience=seconds(server.get("patience", 600.0), "patience"),
            stop=seconds(server.get("stop", 30.0), "stop"),
            tries=whole(run, "tries", 3, 1, 100),
            seed=whole(run, "seed", 0, 0, 2**31),
            margin=share(run, "margin", MARGIN),
            confirm=whole(run, "confirm", CONFIRM, 0, 1000),
            keep=flag(run, "keep", True),
            pairs=flag(run, "pairs", False),
            env=env(server),
            cpus=cpus(server),
            options=words(server, "options"),
        )
    )


def checked(plan: Plan) -> Plan:
    """The plan with its number of blocks, if it makes sense.

    Raises:
        FrostlineError: ``ablate-plan``.
    """
    names = [arm.name for arm in plan.arms]
    if len(plan.arms) < 2:
        raise wrong("there is only one arm", "Name roles or a policy, or a second [[arm]].")
    if len(set(names)) != len(names):
        raise wrong(f"two arms have the same name: {', '.join(names)}", "Each arm has a name of its own.")
    if plan.window <= 0:
        raise wrong("the window is empty", "For example: window = 60s")
    if plan.load.url:
        _asked(plan.load)
    return Plan(**{**plan.__dict__, "blocks": plan.blocks or plan.least})


def _asked(load: Load) -> None:
    """What ``frostline load`` would say itself, but only once the server has started."""
    if not is_url(load.url):
        raise wrong(f"the load's url {load.url!r} is none", "For example: http://127.0.0.1:8000")
    for name, _ in load.metrics:
        if name not in OWN_METRICS:
            raise wrong(f"`frostline load` measures no {name!r}", f"There are: {', '.join(OWN_METRICS)}.")
    for word in load.options:
        if word.partition("=")[0] in _OURS:
            raise wrong(f"the load's options have {word}", "The plan has rate, window, warmup and seed.")


def _known(table: Mapping[str, Any], name: str) -> None:
    for key in table:
        if key not in _KEYS[name]:
            there = ", ".join(sorted(_KEYS[name]))
            where = f"[{name}]" if name else "the file"
            raise wrong(f"{where} has no {key!r}", f"There are: {there}.")


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise wrong(f"{name} is no table", f"Write [{name}].")
    _known(table, name)
    return table


def _ready(server: Mapping[str, Any]) -> dict[str, Any] | None:
    given = [name for name in ("ready-url", "ready-log", "ready-after") if name in server]
    if len(given) > 1:
        raise wrong(f"{given[0]} and {given[1]} exclude each other")
    if not given:
        raise wrong(
            "[server] does not say when it is ready", 'For example: ready-url = "http://127.0.0.1:8000/"'
        )
    value = server[given[0]]
    if given == ["ready-after"]:
        return {"kind": "after", "seconds": seconds(value, "ready-after")}
    if not isinstance(value, str) or not value:
        raise wrong(f"{given[0]} = {value!r} is no text")
    if given == ["ready-log"]:
        try:
            re.compile(value)
        except re.error as error:
            raise wrong(f"ready-log: {error}") from error
        return {"kind": "log", "regex": value}
    if not is_url(value):
        raise wrong(f"ready-url = {value!r} is no URL", "For example: http://127.0.0.1:8000/health")
    return {"kind": "url", "url": value}


def _load(load: Mapping[str, Any]) -> Load:
    url, command = load.get("url", ""), load.get("command", "")
    if bool(url) == bool(command):
        raise wrong("[load] needs a url (for `frostline load`) or a command, and not both")
    for name in ("rate", "options") if command else ("tag",):
        if name in load:
            raise wrong(f"[load] has {name}, which does nothing beside {'command' if command else 'url'}")
    beside = load.get("beside", "")
    if not isinstance(beside, str):
        raise wrong(f"beside = {beside!r} is no text", "A shell command.")
    metrics = load.get("metrics", OWN_METRICS if url else {})
    ways = metrics.values() if isinstance(metrics, dict) else ()
    if not ways or not all(way in ("higher", "lower") for way in ways):
        raise wrong(
            f"metrics = {metrics!r}: of each name, whether higher or lower is better",
            'For example: metrics = { tokens_s = "higher", p99_ms = "lower" }',
        )
    rate = load.get("rate", 10.0)
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not rate > 0:
        raise wrong(f"rate = {rate!r} is no number of requests a second")
    better = tuple((name, way == "higher") for name, way in metrics.items())
    options, tag = words(load, "options"), str(load.get("tag", ""))
    return Load(str(url), float(rate), options, str(command), tag, better, beside)


def _arms(data: Mapping[str, Any]) -> tuple[tuple[Arm, ...], tuple[str, ...]]:
    one_by_one = data.get("arm", [])
    if ("arms" in data) == bool(one_by_one):
        raise wrong("give [arms] (a policy and roles) or some [[arm]], and not both")
    if not one_by_one:
        table = _table(data, "arms")
        policy, roles = table.get("policy", "freeze"), words(table, "roles")
        if not isinstance(policy, str) or not policy:
            raise wrong(f"policy = {policy!r} is no text")
        return of_roles(policy, roles), roles
    if not isinstance(one_by_one, list) or not all(isinstance(one, dict) for one in one_by_one):
        raise wrong("arm is no list of tables", "Write [[arm]] before each.")
    arms = []
    for one in one_by_one:
        _known(one, "arm")
        name, policy = one.get("name", ""), one.get("policy", "")
        if not isinstance(name, str) or not name or not isinstance(policy, str):
            raise wrong(f"an [[arm]] needs a name, and a policy in quotes: {one!r}")
        arms.append(arm_of(policy, name, env(one), cpus(one)))
    return tuple(arms), ()
