"""Prefect for tests of single tasks: a database and results of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, PREFECT_RESULTS_LOCAL_STORAGE_PATH, temporary_settings
from prefect.testing.utilities import prefect_test_harness


@pytest.fixture(scope="session")
def prefect_harness() -> Iterator[None]:
    """A Prefect server for this session."""
    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture
def prefect(prefect_harness: None, tmp_path: Path) -> Iterator[None]:
    """The server, with results that no other test has left."""
    private = {PREFECT_RESULTS_LOCAL_STORAGE_PATH: tmp_path / "results", PREFECT_LOGGING_TO_API_ENABLED: False}
    with temporary_settings(private):
        yield
