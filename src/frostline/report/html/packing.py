"""Arrays as the page reads them."""

from __future__ import annotations

import base64

from frostline.recording.layout import Array


def packed(values: Array, kind: str) -> dict[str, str]:
    """An array for the page: ``kind`` is f4, f8 or u1, little-endian, in base64."""
    return {"type": kind, "data": base64.b64encode(values.astype(f"<{kind}").tobytes()).decode("ascii")}
