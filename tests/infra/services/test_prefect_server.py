"""The server's process, before it serves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.services.prefect_server import PrefectService


@pytest.mark.slow
def test_its_event_loop_never_searches_for_garbage(tmp_path: Path) -> None:
    program = """
import gc, threading
import uvicorn
from infra.services.prefect_server import serve_prefect

def run(app, **options):
    print(gc.isenabled(), [each.name for each in threading.enumerate() if each.name == "garbage collector"])

uvicorn.run = run
serve_prefect("0")
"""
    launch = PrefectService().launch(tmp_path, {"prefect": 0}, {})
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, **launch.env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines()[-1:] == ["False ['garbage collector']"], done.stderr
