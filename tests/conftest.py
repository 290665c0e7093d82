"""How the suite is divided: whole runs by one worker, all other files by whoever is free.

A whole run starts servers and many processes; two at once would disturb each other's clocks, and need two sets of servers.
"""

from pathlib import Path

import pytest

WHOLE_RUNS = Path(__file__).resolve().parent / "integration"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs come first and stay together; another file stays together, too, as its fixtures are dear."""
    items.sort(key=lambda item: WHOLE_RUNS not in item.path.parents)
    for item in items:
        together = "whole runs" if WHOLE_RUNS in item.path.parents else item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group(together))
