"""Where nothing is up, the facades train with a server that Prefect starts for a while; only its warnings are shown."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import flows.api.{facade}
from prefect.logging.configuration import setup_logging
from prefect.server.api.server import subprocess_server_logger as logger

setup_logging()
logger.info("it starts")
logger.warning("it is away")
"""


@pytest.mark.parametrize("facade", ["petting", "multi_model"])
def test_only_warnings_of_prefect_s_server_are_shown(facade: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_LOGGING")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(facade=facade)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "it is away" in done.stdout + done.stderr
    assert "it starts" not in done.stdout + done.stderr
