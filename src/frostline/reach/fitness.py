"""Is an interpreter, its environment and this machine fit to be recorded; and if not, why.

The proof is a trial: an interpreter is started the way ``run`` starts one, and its recording is
looked for. Everything else explains the outcome.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

import frostline
from frostline.errors import FrostlineError
from frostline.reach import environment, proc, segments, session
from frostline.reach.launch import find
from frostline.reach.sealing import active_folder

OK = "ok"
NOTE = "note"
PROBLEM = "problem"

_TIMEOUT = 60.0
_SHM_WANTED = 64 << 20

#: Runs in the interpreter that is examined, 2.7 included.
_ABOUT = """
import json, os, sys
out = {"version": list(sys.version_info[:3]), "implementation": getattr(getattr(sys, "implementation", None),
       "name", "cpython"), "gil": getattr(sys, "_is_gil_enabled", lambda: True)(), "prefix": sys.prefix,
       "flags": {"no_site": sys.flags.no_site, "ignore_environment": sys.flags.ignore_environment}}
import gc
out["gc"] = {"enabled": gc.isenabled(), "thresholds": list(gc.get_threshold()),
             "callbacks": [str(getattr(c, "__module__", "")) + "." + str(getattr(c, "__qualname__", type(c)))
                           for c in getattr(gc, "callbacks", [])]}
if sys.version_info >= (3, 10):
    from importlib.machinery import PathFinder
    for name in ("frostline", "ddtrace", "opentelemetry.instrumentation"):
        try:
            parts = name.split(".")
            spec = PathFinder.find_spec(parts[0])
            if spec is not None and len(parts) > 1:
                spec = PathFinder.find_spec(name, spec.submodule_search_locations)
            out[name] = (spec.origin or "a namespace") if spec is not None else None
        except Exception as error:
            out[name] = None
    folders = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    out["pth"] = [os.path.join(p, "frostline.pth") for p in folders
                  if os.path.exists(os.path.join(p, "frostline.pth"))]
    from importlib.metadata import entry_points
    out["plugins"] = dict((group, [point.value for point in entry_points(group=group)
                                   if point.name == "frostline"])
                          for group in ("vllm.general_plugins", "sglang.srt.plugins"))
    for name in ("sitecustomize", "usercustomize"):
        out[name] = getattr(sys.modules.get(name), "__file__", None)
print(json.dumps(out))
"""


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: str
    what: str
    found: str
    remedy: str = ""


def examine(python: str) -> list[Finding]:
    """Looks at one interpreter, its environment and this machine.

    Args:
        python: the interpreter's path or name.

    Raises:
        FrostlineError: ``not-found`` or ``not-executable``.
    """
    variables = environment.started_with()
    program = find(python, variables)
    findings = [Finding(OK, "frostline", f"{frostline.__version__}, run by {sys.executable}")]
    about = _about(program, variables)
    if about is None:
        findings.append(
            Finding(
                PROBLEM, "interpreter", f"{program} does not run Python code", "Name a Python interpreter."
            )
        )
        return findings + machine()
    findings += _interpreter(program, about)
    findings += _other_tenants(about, variables)
    findings += _plugins(program, about, variables)
    if not any(finding.level == PROBLEM for finding in findings):
        findings += _trial(program, about, variables)
    return findings + machine()


def fit(findings: list[Finding]) -> bool:
    """Whether nothing stands in the way."""
    return not any(finding.level == PROBLEM for finding in findings)


def _run(
    command: list[str], variables: dict[str, str], timeout: float = _TIMEOUT
) -> "subprocess.CompletedProcess[bytes] | None":
    try:
        return subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _about(program: str, variables: dict[str, str]) -> "dict[str, Any] | None":
    plain = {name: value for name, value in variables.items() if not name.startswith(environment.PREFIX)}
    ended = _run([program, "-c", _ABOUT], plain)
    if ended is None or ended.returncode:
        return None
    try:
        value = json.loads(ended.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return value if isinstance(value, dict) else None


def _interpreter(program: str, about: dict[str, Any]) -> list[Finding]:
    version = tuple(about["version"])
    shown = ".".join(map(str, version))
    found = []
    if about["implementation"] != "cpython":
        found.append(
            Finding(
                PROBLEM,
                "interpreter",
                f"{program}: {about['implementation']} {shown}",
                "Use CPython: others have another collector.",
            )
        )
    elif version < (3, 10):
        found.append(
            Finding(PROBLEM, "interpreter", f"{program}: CPython {shown}", "Use CPython 3.10 or later.")
        )
    elif not about["gil"]:
        found.append(
            Finding(
                PROBLEM,
                "interpreter",
                f"{program}: CPython {shown}, free-threaded",
                "Use the build with the GIL: this version records no other.",
            )
        )
    else:
        found.append(Finding(OK, "interpreter", f"{program}: CPython {shown}"))
        if (3, 14, 0) <= version < (3, 14, 5):
            found.append(
                Finding(
                    NOTE,
                    "collector",
                    "3.14.0 to 3.14.4 collect incrementally: short passes, all named generation 1",
                    "For full passes to be compared use 3.13 or 3.14.5.",
                )
            )
    state = about["gc"]
    thresholds = ",".join(map(str, state["thresholds"]))
    if state["enabled"] and state["thresholds"][0]:
        found.append(Finding(OK, "collector", f"enabled, thresholds {thresholds}"))
    else:
        found.append(
            Finding(
                NOTE,
                "collector",
                f"off at start-up, thresholds {thresholds}",
                "Nothing runs by itself there.",
            )
        )
    if state["callbacks"]:
        found.append(
            Finding(
                NOTE,
                "callbacks",
                f"others are in gc.callbacks: {', '.join(state['callbacks'])}",
                "Their time is recorded apart from the pass.",
            )
        )
    return found


def _other_tenants(about: dict[str, Any], variables: dict[str, str]) -> list[Finding]:
    found = []
    if variables.get("FROSTLINE_DISABLE"):
        found.append(
            Finding(PROBLEM, "FROSTLINE_DISABLE", "is set: nothing is recorded", "Unset FROSTLINE_DISABLE.")
        )
    entries = [entry for entry in variables.get("PYTHONPATH", "").split(":") if entry]
    if entries:
        found.append(Finding(OK, "PYTHONPATH", f"{':'.join(entries)}: kept, after ours"))
    for name in ("PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONSAFEPATH"):
        if variables.get(name):
            found.append(Finding(OK, name, f"is set to {variables[name]}: passed on"))
    for name in ("sitecustomize", "usercustomize"):
        if about.get(name):
            found.append(Finding(OK, name, f"{about[name]}: runs after ours"))
    for name in ("ddtrace", "opentelemetry.instrumentation"):
        if about.get(name):
            found.append(
                Finding(
                    OK,
                    name.partition(".")[0],
                    f"{os.path.dirname(about[name])}: its start-up works with ours, in front or behind",
                )
            )
    return found


def _plugins(program: str, about: dict[str, Any], variables: dict[str, str]) -> list[Finding]:
    """Whether vLLM and SGLang would find ours by their entry points, and may load it."""
    found = []
    for host, group, switch in (
        ("vLLM", "vllm.general_plugins", "VLLM_PLUGINS"),
        ("SGLang", "sglang.srt.plugins", "SGLANG_PLUGINS"),
    ):
        what = f"{host} plugin"
        chosen = variables.get(switch)
        if not about.get("plugins", {}).get(group):
            remedy = (
                f"{program} -m pip install frostline   (only if it runs {host}; `run` reaches it without)"
            )
            found.append(Finding(NOTE, what, f"no entry point of ours in {group}", remedy))
        elif chosen is not None and "frostline" not in [name.strip() for name in chosen.split(",")]:
            text = f"the entry point in {group} is seen, and {switch}={chosen} leaves it out"
            found.append(Finding(NOTE, what, text, f"Add frostline to {switch}, or unset it."))
        else:
            found.append(Finding(OK, what, f"the entry point in {group} is seen"))
    return found


def _trial(program: str, about: dict[str, Any], variables: dict[str, str]) -> list[Finding]:
    """Starts it as ``run`` would, plainly and isolated, and looks for the recordings."""
    found = []
    folder = tempfile.mkdtemp(prefix="frostline-doctor-")
    active = ""
    try:
        path, _ = session.prepare(folder)
        active = active_folder(path)
        fallback = environment.write_fallback(path)
        settings = {"policy": "off", "presets": "none", "control": "on"}
        target = environment.for_target(path, "doctor", settings, fallback)
        plain = _recorded(path, [program, "-c", "pass"], target)
        isolated = _recorded(path, [program, "-I", "-c", "pass"], target)
        theirs = about.get("frostline")
        if plain is None:
            found.append(
                Finding(
                    PROBLEM,
                    "trial",
                    "started under run, it left no recording",
                    "Start it under run with PYTHONVERBOSE=1: a sitecustomize may shut ours out.",
                )
            )
        elif theirs:
            found.append(Finding(OK, "trial", f"recorded, by the Frostline {plain} of its own environment"))
        else:
            found.append(Finding(OK, "trial", "recorded, through PYTHONPATH"))
        if theirs and plain is not None and plain != frostline.__version__:
            found.append(
                Finding(
                    NOTE,
                    "version",
                    f"its environment has Frostline {plain}, this is {frostline.__version__}",
                    "Install the same version in both.",
                )
            )
        if about.get("pth") and isolated is not None:
            found.append(Finding(OK, "start-up hook", f"{about['pth'][0]}: live, with -I and -E too"))
        elif about.get("pth"):
            found.append(
                Finding(
                    PROBLEM if plain is None else NOTE,
                    "start-up hook",
                    f"{about['pth'][0]} is there, but not live",
                    "Reinstall Frostline in that environment.",
                )
            )
        else:
            found.append(
                Finding(
                    NOTE,
                    "start-up hook",
                    "not in its environment: children with -I, -E or an emptied PYTHONPATH would be missed",
                    f"{program} -m pip install frostline   (no dependency comes with it)",
                )
            )
        found.append(Finding(NOTE, "never reached", "children with -S, in a PEX, frozen, or as another user"))
    except FrostlineError as error:
        found.append(Finding(PROBLEM, "trial", error.message, error.remedy))
    finally:
        if active and active.startswith("/dev/shm/frostline-"):
            shutil.rmtree(active, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _recorded(path: str, command: list[str], variables: dict[str, str]) -> "str | None":
    """The version of the recorder that left a recording of this command, None if there is none."""
    before = set(segments.listing(active_folder(path)))
    _run(command, variables)
    for name, file in segments.listing(active_folder(path)).items():
        header = segments.read_header(file) if name not in before else None
        if header is not None:
            return header.text.get("frostline", ["unknown"])[0]
    return None


def machine() -> list[Finding]:
    """What the machine offers."""
    found = []
    try:
        space = os.statvfs("/dev/shm")
        free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
        usable = os.access("/dev/shm", os.W_OK | os.X_OK)
    except OSError:
        free = total = 0
        usable = False
    shown = f"{free >> 20} MiB free of {total >> 20} MiB"
    if not usable:
        found.append(
            Finding(
                NOTE,
                "/dev/shm",
                "cannot be used: segments are written in the session folder, where a busy disk delays them",
                "Give the container a writable /dev/shm.",
            )
        )
    elif free < _SHM_WANTED:
        found.append(Finding(NOTE, "/dev/shm", shown, "Give it 64 MiB or more (docker run --shm-size=256m)."))
    else:
        found.append(Finding(OK, "/dev/shm", shown))
    here = os.getcwd()
    if os.access(here, os.W_OK | os.X_OK):
        found.append(Finding(OK, "session folder", f"{here} can be written"))
    else:
        found.append(
            Finding(NOTE, "session folder", f"{here} cannot be written", "Use -o with a folder of yours.")
        )
    found.append(_ptrace())
    if os.getpid() == 1 or proc.own_pid_numbers(os.getpid())[1:]:
        found.append(Finding(OK, "pid namespace", "a container: as PID 1 segments are not put on tmpfs"))
    return found


def _ptrace() -> Finding:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        return Finding(OK, "ptrace", "not restricted by yama (only attaching needs it)")
    if scope == "0" or os.geteuid() == 0:
        return Finding(OK, "ptrace", f"scope {scope} (only attaching needs it)")
    return Finding(
        NOTE,
        "ptrace",
        f"scope {scope}: `run` needs none, attaching to a running process would",
        "sudo sysctl kernel.yama.ptrace_scope=0   if you want to attach",
    )
