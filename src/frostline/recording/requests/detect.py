"""Which format a file of requests has, by what is in it; its name says nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frostline.errors import FrostlineError
from frostline.recording.requests.guidellm import read_guidellm
from frostline.recording.requests.model import Requests
from frostline.recording.requests.own import KEY, read_demo, read_own
from frostline.recording.requests.vllm import read_vllm

#: Formats by name, in the order in which they are looked for.
FORMATS = ("frostline", "demo", "vllm", "guidellm")
#: What ``vllm bench serve`` always writes, detailed or not.
_VLLM = ("request_throughput", "duration", "completed")


def read_requests(path: Path, format: str = "") -> list[Requests]:
    """Every run of a load client that is in the file; several where it was appended to, or has a sweep.

    Args:
        format: one of ``FORMATS``; by default it is found out.

    Raises:
        FrostlineError: ``requests-unreadable``, ``not-requests``, ``requests-ambiguous``,
            ``requests-empty``, and those of the formats.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FrostlineError(
            "requests-unreadable",
            f"cannot read {path}: {error.strerror}",
            "Give --requests the file that the load client wrote.",
        ) from error
    except UnicodeDecodeError as error:
        raise _none_of_them(path, "it is no text") from error
    values = _values(text)
    if not values:
        raise _none_of_them(path, "it is no JSON")
    fits = [name for name in FORMATS if _FITS[name](values[0])]
    if format and format not in fits:
        raise _none_of_them(path, f"it is not of the format {format!r}")
    if not fits:
        raise _none_of_them(path, "it has the keys of none of them")
    if len(fits) > 1 and not format:
        raise FrostlineError(
            "requests-ambiguous",
            f"{path} may be of the formats {' and '.join(fits)}",
            f"Say which with --requests-format {fits[0]}, or {fits[1]}.",
        )
    found = _read(path, text, values, format or fits[0])
    if not any(len(one) for one in found):
        left_out = sum(one.unread + one.warm_up + one.unsent for one in found)
        also = (
            f" ({left_out:,} records are unreadable, of the warm-up, or were never sent)" if left_out else ""
        )
        raise FrostlineError(
            "requests-empty", f"{path} has no request to look at{also}", "Run the load client again."
        )
    return [one for one in found if len(one)]


def _read(path: Path, text: str, values: list[dict[str, Any]], format: str) -> list[Requests]:
    if format == "frostline":
        return [read_own(path, text)]
    if format == "demo":
        return [read_demo(path, values[0])]
    if format == "guidellm":
        return read_guidellm(path, values[0])
    if len(values) == 1:
        return [read_vllm(path, values[0], path.name)]
    return [read_vllm(path, one, f"{path.name} (run {i})") for i, one in enumerate(values, 1)]


def _values(text: str) -> list[dict[str, Any]]:
    """The JSON objects in it: one, or one a line; of our own format the header alone. Empty for none."""
    head, _, rest = text.lstrip().partition("\n")
    try:
        first = json.loads(head)
        if isinstance(first, dict) and KEY in first:
            return [first]
        values = [first, *(json.loads(line) for line in rest.split("\n") if line.strip())]
    except ValueError:  # one object over several lines
        try:
            values = [json.loads(text)]
        except (ValueError, RecursionError):
            return []
    except RecursionError:
        return []
    return values if all(isinstance(value, dict) for value in values) else []


def _is_vllm(value: dict[str, Any]) -> bool:
    return "start_times" in value or all(key in value for key in _VLLM)


def _is_guidellm(value: dict[str, Any]) -> bool:
    benchmarks = value.get("benchmarks")
    return isinstance(benchmarks, list) and all(isinstance(one, dict) for one in benchmarks)


def _is_demo(value: dict[str, Any]) -> bool:
    return all(key in value for key in ("columns", "requests", "load", "summary"))


_FITS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "frostline": lambda value: KEY in value,
    "demo": _is_demo,
    "vllm": _is_vllm,
    "guidellm": _is_guidellm,
}


def _none_of_them(path: Path, why: str) -> FrostlineError:
    return FrostlineError(
        "not-requests",
        f"{path} is no file of requests that is known: {why}",
        "Known are our own format (`frostline explain requests`), `vllm bench serve --save-result "
        "--save-detailed`, and GuideLLM's JSON.",
        exit_code=2,
    )
