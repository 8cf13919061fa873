"""A7: one name for a process, the most telling source first."""

from __future__ import annotations

import pytest

from frostline.format.naming import process_name, process_role


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"role": "EngineCore", "rank": 0}, "EngineCore dp0 (pid 1)"),
        ({"role": "EngineCore", "rank": 3, "title": "x", "module": "y"}, "EngineCore dp3 (pid 1)"),
        ({"role": "EngineCore dp0", "rank": 0}, "EngineCore dp0 (pid 1)"),
        ({"role": "Worker", "rank": "dp0-tp1"}, "Worker dp0-tp1 (pid 1)"),
        ({"role": "APIServer", "rank": -1}, "APIServer (pid 1)"),
        ({"title": "VLLM::EngineCore", "multiprocessing": "SpawnProcess-1"}, "VLLM::EngineCore (pid 1)"),
        ({"multiprocessing": "ForkPoolWorker-2", "module": "celery"}, "ForkPoolWorker-2 (pid 1)"),
        ({"multiprocessing": "MainProcess", "module": "uvicorn"}, "uvicorn (pid 1)"),
        ({"module": "/srv/app/main.py"}, "main.py (pid 1)"),
        ({"module": "/srv/tool/__main__.py"}, "tool (pid 1)"),
        ({"title": "python3.11", "arguments": ("/usr/bin/gunicorn", "app")}, "gunicorn (pid 1)"),
        ({"arguments": ("/usr/bin/python3.11", "-c", "x")}, 'python3.11 -c "x" (pid 1)'),
        (
            {"arguments": ("/x/python", "-X", "dev", "-c", "\nimport sys\nif sys.platform != 'linux':\n x")},
            'python -c "import sys if sys.platform != ..." (pid 1)',
        ),
        ({"arguments": ("/usr/bin/python3.11", "-c")}, "python3.11 (pid 1)"),
        (
            {"arguments": ("/x/python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()")},
            "spawned child (pid 1)",
        ),
        ({"module": "/usr/bin/gunicorn", "forked": True}, "gunicorn child (pid 1)"),
        ({"title": "gunicorn: worker", "forked": True}, "gunicorn: worker (pid 1)"),
        ({"multiprocessing": "ForkPoolWorker-1", "forked": True}, "ForkPoolWorker-1 (pid 1)"),
        (
            {"arguments": ("/x/python", "-c", "from multiprocessing.resource_tracker import main;main(8)")},
            "resource tracker (pid 1)",
        ),
        ({}, "python (pid 1)"),
    ],
)
def test_names(given: dict[str, object], name: str) -> None:
    assert process_name(1, **given) == name  # type: ignore[arg-type]
    assert process_role(**given) == name.removesuffix(" (pid 1)")  # type: ignore[arg-type]
