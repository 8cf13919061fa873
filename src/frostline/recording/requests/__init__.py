"""Reads what load clients wrote of their requests: ours, ``vllm bench serve``, GuideLLM."""

from frostline.recording.requests.detect import FORMATS, read_requests
from frostline.recording.requests.model import CLOSED, MONOTONIC, OPEN, UNIX, Requests
from frostline.recording.requests.own import write_own

__all__ = ["CLOSED", "FORMATS", "MONOTONIC", "OPEN", "UNIX", "Requests", "read_requests", "write_own"]
