"""How the suite is divided between workers: whole runs that keep an eye on the clock by one, those with vLLM servers by one,
all others by whoever is free first, file by file, and whole runs that nobody disturbs even test by test.

A whole run starts servers and many processes; two at once would disturb each other's clocks. Much of the suite waits, for
starts and for servers that are away: there are more workers than cores. So each process computes on one thread. What takes
long begins first, and many short runs come last: no worker is left alone with a long one.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.docker_cleanup import leftovers_ended_below
from tests.forked_workers import serving

TIMED = ("test_ending.py", "test_kill_and_resume.py", "test_sandbox_kills.py", "test_services_away.py")
UNDISTURBED = ("integration/test_learning.py", "integration/test_every_preset.py")
WITH_VLLM = ("test_vllm_engine.py", "test_vllm_training.py")
SECONDS = {
    "timed whole runs": 850,
    "whole runs with vLLM": 300,
    "test_verifier.py": 40,
    "test_deployed.py": 100,
    "integration/test_learning.py": 260,
    "training/test_warm_start.py": 40,
    "game_boy/test_learning.py": 40,
    "test_whole_stack.py": 120,
    "test_ray.py": 200,
    "test_examples.py": 310,
    "sandbox/test_attacks.py": 140,
    "test_overlap.py": 40,
    "test_two_policies.py": 60,
    "training/test_trainer.py": 70,
    "integration/test_smollm.py": 280,
    "integration/test_benchmarks.py": 700,
    "integration/test_population.py": 260,
    "integration/test_hybrid.py": 230,
    "petting/test_documented_examples.py": 80,
    "test_rivals.py": 90,
    "test_several_ranks.py": 50,
    "test_zero_stages.py": 70,
    "test_several_hosts.py": 50,
    "test_run_records.py": 60,
    "test_parser_bounds.py": 30,
    "reasoned/test_bounds.py": 30,
    "test_contract.py": 20,
    "integration/test_wheel.py": 30,
    "test_sessions.py": 30,
    "test_s3_faults.py": 50,
    "test_s3_reading.py": 40,
    "test_restart.py": 10,
    "test_api_team.py": 10,
    "test_wrong_inputs.py": 20,
    "plan-path-ray": 40,
}
"""About what the longest take, of three workers on two cores. Nothing depends on it but the order."""

gc.disable()  # until all test modules are imported: what they bring lives as long as the process
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, here and in all that tests start

# What an example may cost is asserted in CPU time where it matters; a busy machine stretches the wall time of any.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


def scope_of(nodeid: str) -> str:
    """The name of what one worker runs on its own, in order."""
    file = nodeid.split("::", 1)[0]
    if file.endswith(TIMED):
        return "timed whole runs"
    if file.endswith(WITH_VLLM):
        return "whole runs with vLLM"
    return nodeid if file.endswith(UNDISTURBED) else file


def seconds_of(nodeid: str) -> int:
    """About how long the scope of a test takes, where it is long."""
    scope = scope_of(nodeid)
    return next((seconds for name, seconds in SECONDS.items() if name in scope), 0)


@pytest.fixture(scope="session")
def prefect_harness() -> Iterator[None]:
    """A Prefect server for this session."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture
def prefect(prefect_harness: None, tmp_path: Path) -> Iterator[None]:
    """The server, with results that no other test has left."""
    from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, PREFECT_RESULTS_LOCAL_STORAGE_PATH, temporary_settings

    private = {PREFECT_RESULTS_LOCAL_STORAGE_PATH: tmp_path / "results", PREFECT_LOGGING_TO_API_ENABLED: False}
    with temporary_settings(private):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, a step of each preset last; the order inside is kept."""
    items.sort(key=lambda item: (item.path.name == "test_every_preset.py", -seconds_of(item.nodeid)))


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what has been imported."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_engine_outlives_us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A killed run leaves no engine whose mounts keep later ones from tidying its folder."""
    with leftovers_ended_below(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture(scope="session")
def forked_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a process that forks training workers."""
    with serving(tmp_path_factory.mktemp("forked-workers")) as socket_file:
        yield socket_file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadscope`, with our scopes."""
    from xdist.scheduler import LoadScopeScheduling

    class WholeRunsTogether(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return WholeRunsTogether(config, log)
