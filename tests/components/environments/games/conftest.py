"""A real sandbox for the programs of tool agents."""

from collections.abc import Iterator

import pytest

from components.environments.base import Tools
from components.sandbox.backends import open_sandbox
from components.schema import Limits
from components.tool_calls.ledger import ExecutionLedger, ToolSources


@pytest.fixture(scope="session")
def sandbox_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """A ledger over a real sandbox of two boxes."""
    sandbox = open_sandbox("bubblewrap", state_folder=tmp_path_factory.mktemp("sandbox"), num_boxes=2)
    limits = Limits(wall_seconds=20.0, cpu_seconds=4.0, output_kib=16)
    try:
        yield ExecutionLedger(ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=limits))
    finally:
        sandbox.close()
