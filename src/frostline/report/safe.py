"""Texts from a target, made safe: a process title may hold anything, and recordings come from strangers."""

from __future__ import annotations

#: Invisible or direction-changing characters: they make a line say what it does not.
_TRICKS = {
    0x00AD, 0x061C, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF,
}  # fmt: skip


def safe(text: str, ascii_only: bool = False) -> str:
    """``text`` without terminal escapes; with ``ascii_only`` everything else is written as escapes too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character, ascii_only) for character in text)


def _shown(character: str, ascii_only: bool) -> str:
    code = ord(character)
    if 32 <= code < 127:
        return character
    if not ascii_only and code >= 0xA0 and code not in _TRICKS and not 0xD800 <= code < 0xE000:
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cell(text: str) -> str:
    """A CSV cell that a spreadsheet does not take for a formula."""
    text = safe(text)
    return "'" + text if text[:1] in ("=", "+", "-", "@") else text
