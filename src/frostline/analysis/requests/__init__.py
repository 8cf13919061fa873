"""A load client's requests beside a session: what passes lie in them, and what of it is chance."""

from frostline.analysis.requests.beside import with_requests
from frostline.analysis.requests.join import of_requests
from frostline.analysis.requests.model import GAPS, NEVER, RESPONSE, TTFT, Measure, RequestReport, Share
from frostline.analysis.requests.null import metered, shifted

__all__ = [
    "GAPS",
    "NEVER",
    "RESPONSE",
    "TTFT",
    "Measure",
    "RequestReport",
    "Share",
    "metered",
    "of_requests",
    "shifted",
    "with_requests",
]
