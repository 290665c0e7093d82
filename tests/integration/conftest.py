"""For whole runs: clients of the services, and a process that runs training on command."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from infra.services.environment import StackStatus, environment
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings


@pytest.fixture(scope="session")
def client_environment(services: StackStatus) -> dict[str, str]:
    """The environment of a process that uses the services."""
    own = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING", "OMP_NUM_THREADS": "1"}
    own["RAY_worker_niceness"] = "0"  # Ray makes its workers the nicest: beside other tests they would stand still
    foreign = ("AWS_", "MLFLOW_", "PREFECT_", "TROUPE_", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**inherited, **environment(services), **own}


@pytest.fixture(scope="session")
def other_trainings(
    client_environment: dict[str, str], forked_workers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trainings]:
    """Starts trainings beside those of `trainings`."""
    log: Path = tmp_path_factory.mktemp("other-trainings") / "log"
    with Trainings(client_environment, log, workers=forked_workers) as running:
        yield running


@pytest.fixture(scope="session")
def trainings(
    client_environment: dict[str, str], forked_workers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trainings]:
    """Starts training processes that share their imports."""
    log: Path = tmp_path_factory.mktemp("trainings") / "log"
    with Trainings(client_environment, log, workers=forked_workers) as running:
        yield running


@pytest.fixture(scope="session")
def uninterrupted(undisturbed_run: tuple[dict[str, Any], float]) -> dict[str, Any]:
    """What the tiny preset comes to when nothing happens to it."""
    return undisturbed_run[0]


@pytest.fixture(scope="session")
def undisturbed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that run's store is. Nobody writes there once it has ended."""
    return tmp_path_factory.mktemp("uninterrupted")


@pytest.fixture
def whole_run(uninterrupted: dict[str, Any], undisturbed_folder: Path, tmp_path: Path) -> LocalArtifactStore:
    """A copy of its store, in the folder of the test, with the run `whole`."""
    shutil.copytree(undisturbed_folder / "store", tmp_path / "store")
    return LocalArtifactStore(tmp_path / "store")


@pytest.fixture(scope="session")
def undisturbed_run(trainings: Trainings, undisturbed_folder: Path) -> tuple[dict[str, Any], float]:
    """What that run comes to, and the seconds that it took."""
    root = undisturbed_folder
    started = time.monotonic()
    ended = trainings.run(order(root, "whole"))
    seconds = time.monotonic() - started
    assert ended.code == 0, trainings.log()
    result = outcome(LocalArtifactStore(root / "store"), "whole")
    assert result["state"] == "completed"
    assert len(result["steps"]) == 3
    assert len({step["checkpoint_digest"]["team"] for step in result["steps"]}) == 3, "the updates change nothing"
    return result, seconds


@pytest.fixture(scope="session")
def whole_hybrid(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a hybrid run that nothing happened to."""
    root = tmp_path_factory.mktemp("whole-hybrid")
    assert trainings.run(order(root, "whole", preset="hybrid-tiny")).code == 0, trainings.log()
    return root
