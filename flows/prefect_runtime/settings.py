"""The Prefect server that this process calls, where its environment has changed since Prefect was imported."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)


@contextmanager
def current_server() -> Iterator[None]:
    """Within the block Prefect calls the server that the environment names now: it has read the environment on import."""
    url = os.environ.get("PREFECT_API_URL")
    if not url or PREFECT_API_URL.value() == url:
        yield
        return
    with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: os.environ.get("PREFECT_API_AUTH_STRING")}):
        yield


@contextmanager
def patient_with_temporary_server(patience_seconds: float) -> Iterator[None]:
    """Within the block a server that Prefect starts by itself, because none is named, may take so long to answer."""
    with temporary_settings({PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: ceil(patience_seconds)}):
        yield
