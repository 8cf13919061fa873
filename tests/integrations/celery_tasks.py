"""A Celery application over a folder, for ``test_celery``."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_process_init

FOLDER = Path(os.environ.get("CELERY_FOLDER", "."))

app = Celery("tests.integrations.celery_tasks", broker="filesystem://", backend=f"file://{FOLDER}")
app.conf.broker_transport_options = {
    "data_folder_in": str(FOLDER / "queue"),
    "data_folder_out": str(FOLDER / "queue"),
    "control_folder": str(FOLDER / "control"),
}
HEAP: list[Any] = []


@worker_process_init.connect
def build(**_: Any) -> None:
    HEAP.extend([i] for i in range(30_000))


@app.task
def state() -> dict[str, Any]:
    moments = sys.modules.get("frostline.policy.moments")
    return {
        "pid": os.getpid(),
        "frozen": gc.get_freeze_count(),
        "in_flight": moments.in_flight() if moments else 0,
    }


@app.task
def add() -> Any:
    import frostline

    return frostline.startup_complete()
