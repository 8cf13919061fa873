"""The command line: which commands there are, and how an error is shown. Only this file exits."""

# Before everything else: see below.
# ruff: noqa: E402
import os
import signal
import sys
from types import FrameType


def _leave(number: int, frame: "FrameType | None") -> None:
    os._exit(130)


def _until_loaded() -> None:
    """Ctrl-C while the commands are loaded ends us at once: no traceback, and nothing is there to be put
    back yet. Only where this is the program, and an ignored SIGINT (nohup) stays ignored.
    """
    ours = __name__ == "__main__" or os.path.basename(sys.argv[0]) == "frostline"  # noqa: PTH119
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _loaded() -> None:
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_until_loaded()

import contextlib
import importlib
from pathlib import Path

from frostline import __version__
from frostline.commands import _surroundings
from frostline.errors import FrostlineError, install_of

#: name -> (module, one line). Imported when used: `run` must not pay for `report`.
COMMANDS = {
    "run": ("frostline.commands.run", "Record a command and every Python process that it starts."),
    "attach": ("frostline.commands.attach", "Record a server that runs already, without a restart."),
    "detach": ("frostline.commands.detach", "Take the recorder out of a live server."),
    "report": ("frostline.commands.report", "Say whether it is the collector, where, why and what to do."),
    "export": ("frostline.commands.export", "Write a session for Perfetto, or into a torch profiler trace."),
    "metrics": ("frostline.commands.metrics", "Tell Prometheus or OpenTelemetry of every pause."),
    "status": ("frostline.commands.status", "List a session's processes, and those that were missed."),
    "freeze": ("frostline.commands.freeze", "Freeze the heap of every process of a live server."),
    "thaw": ("frostline.commands.thaw", "Give back what Frostline froze in a live server."),
    "collect": ("frostline.commands.collect", "Run a collection in every process of a live server."),
    "tune": ("frostline.commands.tune", "Set the collector's thresholds in a live server."),
    "policy": ("frostline.commands.policy", "Put a policy in force in a live server, or say which one is."),
    "census": ("frostline.commands.census", "Count what the tracked heap of a server is made of."),
    "cycles": ("frostline.commands.cycles", "Name the cycles that passes reclaim, live or in a command."),
    "why-alive": ("frostline.commands.why_alive", "Say who holds the objects of a class in a live server."),
    "audit": ("frostline.commands.audit", "Audit the freeze: what is frozen, by whom, what it may leak."),
    "ping": ("frostline.commands.ping", "Say which of its processes answer, and which do not and why."),
    "load": ("frostline.commands.load", "Send a server requests by a plan, and say what users would feel."),
    "compare": ("frostline.commands.compare", "Compare recordings in pairs: A B, or A B A2 B2 ..."),
    "try": ("frostline.commands.try_policy", "Try a policy on your own server: keep it, or hear why not."),
    "ablate": ("frostline.commands.ablate", "Prove on your own server what a policy changes, by role."),
    "watch-threads": (
        "frostline.commands.watch_threads",
        "See from outside when one thread alone was hot.",
    ),
    "startup": ("frostline.commands.startup", "Run a command, and say where its start-up heap comes from."),
    "check": ("frostline.commands.check", "Check that every process of your source applies the policy."),
    "gate": ("frostline.commands.gate", "Hold a session to a budget of pauses and garbage, for CI."),
    "doctor": ("frostline.commands.doctor", "Check that this interpreter, environment and machine are fit."),
    "explain": ("frostline.commands.explain", "Say what a message means, or show a page of the documents."),
    "demo": ("frostline.commands.demo", "Run the reference server, stock and frozen, and compare."),
}

#: Distribution that a module belongs to where the names differ -> the extra that brings it.
_EXTRAS = {
    "click": "tools",
    "rich": "tools",
    "numpy": "tools",
    "psutil": "tools",
    "uvicorn": "demo",
    "starlette": "demo",
    "zmq": "demo",
    "msgspec": "demo",
    "aiohttp": "load",
    "hdrh": "load",
    "prometheus_client": "prometheus",
    "opentelemetry": "otel",
}


def _missing(error: ModuleNotFoundError) -> "FrostlineError | None":
    """What to install for a module that is not there; None if it is none of an extra's."""
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return None
    return FrostlineError(
        "missing-extra",
        f"this command needs {module}, which is not installed",
        install_of(extra),
    )


def _show(error: FrostlineError) -> int:
    if sys.stderr is None:
        return error.exit_code  # closed; print() would take stdout
    try:
        text = f"frostline: {error.message} [{error.slug}]\n  {error.remedy}"
        # Names of files and titles of processes are in it: no terminal is to obey them.
        shown = "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
        print(shown, file=sys.stderr, flush=True)
    except OSError:  # it may be what is full
        _drop_output(2)
    return error.exit_code


def _of_the_system(error: OSError) -> FrostlineError:
    """What the system refused, where nothing more is known of it."""
    what = error.strerror or str(error)
    try:
        Path.cwd()
    except OSError:
        what += " (the working folder has been removed)"
    return FrostlineError(
        "system",
        f"{os.fsdecode(error.filename)}: {what}" if isinstance(error.filename, (str, bytes)) else what,
        "Check the working folder, the files named and the space on their disk.",
    )


def _drop_output(number: int = 1) -> None:
    """What is still buffered goes nowhere: else the interpreter tries again at its end, and complains."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, number)
        os.close(null)


def main() -> None:
    """Entry of the ``frostline`` script."""
    _surroundings.settle()
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Runs one command line; returns the exit code."""
    # Until the command has been replaced or has failed by itself, a failure of `run` is 125: the
    # codes below are the command's own.
    running = arguments[:1] == ["run"]
    try:
        code = _dispatch(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk is an error, and is to be found here
        return code
    except FrostlineError as error:
        code = _show(error)
        return 125 if running and code == 1 else code
    except ModuleNotFoundError as error:
        known = _missing(error)
        if known is None:
            raise
        code = _show(known)
        return 125 if running else code
    except BrokenPipeError:
        # `frostline report | head`: the reader has seen enough.
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        code = _show(_of_the_system(error))
        return 125 if running else code
    except KeyboardInterrupt:
        return 130


def _dispatch(arguments: list[str]) -> int:
    import click

    class Commands(click.Group):
        """Looks a command up by its module when it is asked for."""

        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> "click.Command | None":
            if cmd_name not in COMMANDS:
                return None
            module = importlib.import_module(COMMANDS[cmd_name][0])
            _loaded()
            # Named as its module is: "try" could be the name of neither.
            found: click.Command = getattr(module, COMMANDS[cmd_name][0].rpartition(".")[2])
            return found

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> "tuple[str | None, click.Command | None, list[str]]":
            try:
                return super().resolve_command(ctx, args)
            except click.UsageError as error:
                import difflib

                close = difflib.get_close_matches(args[0], COMMANDS, n=1)
                if not close:
                    raise
                raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from error

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            # From the table: help must not import every command.
            with formatter.section("Commands"):
                formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    @click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(__version__, prog_name="frostline")
    def frostline() -> None:
        """Find, explain and remove the pauses of CPython's cyclic garbage collector.

        Begin with:  frostline run -- COMMAND   and then:  frostline report

        A name in [brackets] behind a message:  frostline explain NAME
        """

    try:
        result = frostline.main(args=arguments, prog_name="frostline", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return 130
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
