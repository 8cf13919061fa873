"""JSON of plain values, without the 23 modules that ``json`` costs a process that has none."""


def dumps(value: object) -> str:
    """JSON text of None, bool, int, float, str, list, tuple, and dict with text keys.

    Raises:
        TypeError: for anything else.
    """
    parts: list[str] = []
    _add(value, parts)
    return "".join(parts)


def _add(value: object, parts: "list[str]") -> None:
    kind = type(value)
    if value is None:
        parts.append("null")
    elif kind is bool:
        parts.append("true" if value else "false")
    elif kind is str:
        parts.append(_text(value))  # type: ignore[arg-type]
    elif kind is int:
        parts.append(int.__repr__(value))
    elif kind is float:
        finite = value == value and value not in (float("inf"), float("-inf"))
        parts.append(repr(value) if finite else "null")
    elif kind is list or kind is tuple:
        parts.append("[")
        for i, one in enumerate(value):  # type: ignore[arg-type, var-annotated]
            if i:
                parts.append(",")
            _add(one, parts)
        parts.append("]")
    elif kind is dict:
        parts.append("{")
        for i, (key, one) in enumerate(value.items()):  # type: ignore[attr-defined]
            if type(key) is not str:
                raise TypeError(f"a key of type {type(key).__name__}")
            parts.append(f"{',' if i else ''}{_text(key)}:")
            _add(one, parts)
        parts.append("}")
    else:
        raise TypeError(f"a value of type {kind.__name__}")


def _text(text: str) -> str:
    out = ['"']
    for character in text:
        code = ord(character)
        if character in '"\\':
            out.append("\\" + character)
        elif code < 32 or code == 127 or 0xD800 <= code < 0xE000 or code > 0xFFFF:
            out.append(_escaped(code))
        else:
            out.append(character)
    out.append('"')
    return "".join(out)


def _escaped(code: int) -> str:
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
