"""What is said of a client that was late, by ``load`` and by ``ablate``. Loads nothing."""


def late(rung_ms: float, ran_ms: float, queued_ms: float) -> str:
    """Why a run is no measurement: ``rung_ms`` is p99 of sending late; the others as ``client`` has them."""
    text = f"p99 of sending late is {rung_ms:.1f} ms, so the client was the bottleneck"
    if queued_ms:
        text += f": it ran for {ran_ms / 1e3:.1f} s and waited {queued_ms / 1e3:.1f} s for a CPU"
    return text
