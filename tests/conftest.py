"""How the suite is divided between two workers: whole runs by one, file after file by the other.

A whole run starts servers and many processes; two at once would disturb each other's clocks, and need two sets of servers.
"""

from pathlib import Path
from typing import Any

import pytest

WHOLE_RUNS = Path(__file__).resolve().parent / "integration"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort whole runs to the front, as they take longest; the order inside is kept."""
    items.sort(key=lambda item: WHOLE_RUNS not in item.path.parents)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadscope`, with all whole runs as one scope and every other file as one of its own."""
    from xdist.scheduler import LoadScopeScheduling

    class WholeRunsTogether(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return "whole runs" if nodeid.startswith("tests/integration/") else nodeid.split("::", 1)[0]

    return WholeRunsTogether(config, log)
