"""How the suite is divided between workers: what shares a server that takes long to start is run by one worker, in order, and
all else by whoever is free first, file by file.

Much of the suite waits, for starts and for servers that are away: there are more workers than cores. So each process computes
on one thread. What takes long begins first: no worker is left alone with it.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from components.machine.home import HOME
from tests.cpu_seconds import CpuSecondsOfTests
from tests.docker_cleanup import end_engines_below, leftovers_ended_below, state_folders_below
from tests.forked_workers import forking, serving

SCOPES = {
    "vLLM": ("tests/integration/test_vllm",),
    "Prefect, MLflow and S3": ("tests/infra/test_deployed.py", "tests/integration/"),
    "Prefect": ("tests/flows/", "tests/tasks/", "tests/troupe/training/"),
    "training workers": ("tests/components/training/",),
    "hosts": ("tests/hosts/",),
    "Docker": ("tests/components/sandbox/",),
    "Prefect, MLflow and S3 as users start them": ("tests/infra/services/test_whole_stack.py",),
}
"""What is started once, the longest first: the beginnings of the tests that share it."""
_SHARED = ExitStack()
"""What ends with the last test of a scope, and not with the session: servers work even when nobody asks them."""

gc.disable()  # until all test modules are imported: what they bring lives as long as the process
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, here and in all that tests start

# What an example may cost is asserted in CPU time where it matters; a busy machine stretches the wall time of any.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


def scope_of(nodeid: str) -> str:
    """The name of what one worker runs on its own, in order."""
    shared = (name for name, beginnings in SCOPES.items() if nodeid.startswith(beginnings))
    return next(shared, nodeid.split("::", 1)[0])


def is_last_of_scope(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Whether what comes next is of another scope."""
    return nextitem is None or scope_of(nextitem.nodeid) != scope_of(item.nodeid)


def rank(nodeid: str) -> int:
    """When its scope begins, among all: the longest first."""
    names = [*SCOPES]
    scope = scope_of(nodeid)
    return names.index(scope) if scope in names else len(names)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Prefect, MLflow and S3 on free ports, their data in a temporary folder."""
    from infra.services.stack import down, up

    home = tmp_path_factory.mktemp("services")
    _SHARED.callback(down, home)
    return up(home, only=("prefect", "s3", "mlflow"))


@pytest.fixture(scope="session")
def prefect_harness() -> None:
    """A Prefect server for those of a scope."""
    from prefect.testing.utilities import prefect_test_harness

    _SHARED.enter_context(prefect_test_harness(server_startup_timeout=120))


@pytest.fixture
def prefect(prefect_harness: None, tmp_path: Path) -> Iterator[None]:
    """The server, with results that no other test has left."""
    from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, PREFECT_RESULTS_LOCAL_STORAGE_PATH, temporary_settings

    private = {PREFECT_RESULTS_LOCAL_STORAGE_PATH: tmp_path / "results", PREFECT_LOGGING_TO_API_ENABLED: False}
    with temporary_settings(private):
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Count what the tests cost. What they start of the checkout's engine ends with the last of them."""
    if not hasattr(config, "workerinput"):
        running = state_folders_below(HOME)
        config.add_cleanup(lambda: end_engines_below(HOME, but=running))
    config.pluginmanager.register(CpuSecondsOfTests(lambda nodeid: scope_of(nodeid) in SCOPES, is_last_of_scope))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first; the order inside is kept."""
    items.sort(key=lambda item: rank(item.nodeid))


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what has been imported."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what a scope shared."""
    if is_last_of_scope(item, nextitem):
        _SHARED.close()


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


@pytest.fixture(scope="module")
def forked(forked_workers: Path) -> Iterator[None]:
    """The trainers that a module makes fork their workers."""
    from components.training import launcher

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "subprocess", forking(forked_workers))
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadscope`, with our scopes."""
    from xdist.scheduler import LoadScopeScheduling

    class SharersTogether(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return SharersTogether(config, log)
