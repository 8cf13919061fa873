"""Errors of the part outside the target: what, where, and what to do about it."""

import sys


class FrostlineError(Exception):
    """A failure that the user can act on.

    Args:
        slug: stable name, documented in ``docs/messages.md``.
        message: what went wrong and where.
        remedy: what to do about it, one sentence or command.
        exit_code: 1 for the tool's own errors, 2 for usage, 3 for a failed budget or claim.
    """

    def __init__(self, slug: str, message: str, remedy: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.slug = slug
        self.message = message
        self.remedy = remedy
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} [{self.slug}]\n  {self.remedy}"


def install_of(extra: str, prefix: str = sys.prefix) -> str:
    """What installs an extra where Frostline itself runs, which may be an environment of pipx or uv."""
    wanted = f'"frostline[{extra}]"'
    if "/pipx/venvs/" in prefix:
        return f"pipx install --force {wanted}"
    if "/uv/tools/" in prefix:
        return f"uv tool install {wanted}"
    return f"pip install {wanted}, in the environment that Frostline runs in: {prefix}"
