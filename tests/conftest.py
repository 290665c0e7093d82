"""How the suite is divided between workers: whole runs that are disturbed by one, those with vLLM servers by one, file after
file by the others, and whole runs that nobody disturbs by whoever is free first.

A whole run starts servers and many processes; two that are killed at once would disturb each other's clocks, and look for each
other's processes. Much of the suite waits, for starts and for servers that are away: there are more workers than cores.
"""

from pathlib import Path
from typing import Any

import pytest

WHOLE_RUNS = Path(__file__).resolve().parent / "integration"
UNDISTURBED = ("test_learning.py", "test_every_preset.py")
WITH_VLLM = ("test_vllm_engine.py", "test_vllm_training.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Disturbed whole runs first, as they take longest, undisturbed ones last; the order inside is kept."""
    items.sort(key=lambda item: (WHOLE_RUNS not in item.path.parents) + 2 * (item.path.name in UNDISTURBED))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadscope`: disturbed whole runs in one scope, undisturbed ones in a scope a function, and
    each other file in its own."""
    from xdist.scheduler import LoadScopeScheduling

    class WholeRunsTogether(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            if not file.startswith("tests/integration/"):
                return file
            if file.endswith(WITH_VLLM):
                return "whole runs with vLLM"
            return nodeid.split("[", 1)[0] if file.endswith(UNDISTURBED) else "disturbed whole runs"

    return WholeRunsTogether(config, log)
