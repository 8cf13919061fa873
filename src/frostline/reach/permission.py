"""Whether a process may be attached to; if not, what is missing, and the one command that grants it."""

import os

from frostline.errors import FrostlineError
from frostline.reach import proc

_YAMA = "sudo sysctl kernel.yama.ptrace_scope=0"


def check(pid: int) -> None:
    """What can be seen without touching it.

    Raises:
        FrostlineError: what is missing, and the command that grants it.
    """
    now = proc.stat(pid)
    if now is None or not now.alive:
        raise FrostlineError("no-process", "it has ended", "Nothing to do.")
    if proc.user(pid) != os.geteuid():
        raise not_yours(pid, "attach")
    if now.state in "Tt":
        raise FrostlineError("stopped", "it is stopped (SIGSTOP, or a debugger)", f"kill -CONT {pid}")
    for name, short in (("pid", "p"), ("mnt", "m")):
        try:
            same = os.stat(f"/proc/{pid}/ns/{name}").st_ino == os.stat(f"/proc/self/ns/{name}").st_ino
        except OSError as error:
            raise FrostlineError(
                "no-ptrace", f"it may not be looked into: {error.strerror}", why_refused(pid)
            ) from error
        if not same:
            inside = proc.own_pid_numbers(pid)[-1]
            raise FrostlineError(
                "other-namespace",
                f"it lives in another {'pid' if short == 'p' else 'mount'} namespace: a container",
                f"Attach from inside: sudo nsenter -t {pid} -m -p -- frostline attach {inside}"
                " (with Frostline installed there), or docker exec.",
            )
    if b"Seccomp:\t1" in proc.read(pid, "status", 1 << 14):
        raise FrostlineError(
            "seccomp", "it is in seccomp's strict mode, where opening a file is its end", "None."
        )


def not_yours(pid: int, doing: str) -> FrostlineError:
    """The error for another user's process, with the command that does it as that user.

    Args:
        doing: the command with its options, without ``frostline`` and the pid.
    """
    number = proc.user(pid)
    name = _name_of(number)
    command = f"frostline {doing} {pid}"
    if os.geteuid():
        who = f"sudo -u {name}" if name else f"sudo -u '#{number}'"
    elif name:
        who = f"runuser -u {name} --"  # containers have it, and no sudo
    else:
        who = f"setpriv --reuid={number} --regid={number} --clear-groups"
    remedy = f"{who} {command}"
    if doing.startswith("attach"):
        remedy += "   (from a folder that this user may write, or with -o)"
        if _ptrace_scope():
            remedy += f"\n  and before it: {_YAMA}"
    return FrostlineError("not-yours", f"process {pid} belongs to another user ({name or number})", remedy)


def _name_of(user: int) -> str:
    """A user's name, empty if it has none."""
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except (KeyError, OverflowError):
        return ""


def _ptrace_scope() -> int:
    """Yama's, 0 where there is none."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def why_refused(pid: int) -> str:
    """The permission that is missing, and the one command that grants it."""
    for line in proc.read(pid, "status", 1 << 14).splitlines():
        if line.startswith(b"TracerPid:") and int(line.split()[1]):
            return f"Process {int(line.split()[1])} traces it (a debugger, strace): end that first."
    scope = _ptrace_scope()
    if scope == 1 and os.geteuid():
        return f"Yama allows it to parents only: {_YAMA} (1 sets it back)."
    if scope == 2 and os.geteuid():
        return f"Yama allows it with CAP_SYS_PTRACE only: {_YAMA}, until then."
    if scope == 3:
        return "Yama forbids it until the next boot (kernel.yama.ptrace_scope=3)."
    return (
        "In a container: start it with --cap-add SYS_PTRACE (Kubernetes: capabilities.add: [SYS_PTRACE])."
        " Outside: the process may not be dumped (setuid, prctl), or a security module forbids it."
    )
