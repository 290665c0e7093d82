"""How the suite is divided between workers: whole runs that keep an eye on the clock by one, those with vLLM servers by one,
all others by whoever is free first, file by file, and whole runs that nobody disturbs even test by test.

A whole run starts servers and many processes; two at once would disturb each other's clocks. Much of the suite waits, for
starts and for servers that are away: there are more workers than cores. So each process computes on one thread.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.forked_workers import serving

WHOLE_RUNS = Path(__file__).resolve().parent / "integration"
TIMED = ("test_ending.py", "test_kill_and_resume.py", "test_sandbox_kills.py", "test_services_away.py")
UNDISTURBED = ("test_learning.py", "test_every_preset.py")
WITH_VLLM = ("test_vllm_engine.py", "test_vllm_training.py")

gc.disable()  # until all test modules are imported: what they bring lives as long as the process
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, here and in all that tests start

# What an example may cost is asserted in CPU time where it matters; a busy machine stretches the wall time of any.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Timed whole runs first, as they take longest, undisturbed ones last; the order inside is kept."""
    items.sort(
        key=lambda item: (
            (item.path.name not in TIMED) + (WHOLE_RUNS not in item.path.parents) + 2 * (item.path.name in UNDISTURBED)
        )
    )


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what has been imported."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def forked_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a process that forks training workers."""
    with serving(tmp_path_factory.mktemp("forked-workers")) as socket_file:
        yield socket_file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadscope`: timed whole runs in one scope, undisturbed ones each in its own, and so is each
    other file."""
    from xdist.scheduler import LoadScopeScheduling

    class WholeRunsTogether(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            if file.endswith(WITH_VLLM):
                return "whole runs with vLLM"
            if file.endswith(UNDISTURBED):
                return nodeid
            return "timed whole runs" if file.endswith(TIMED) else file

    return WholeRunsTogether(config, log)
