"""All trackers, each with a reader of what it has stored."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from components.tracking.base import Tracker
from components.tracking.mlflow import MlflowTracker
from infra.services.secrets import USER, password_file
from infra.services.stack import down, up
from tests.components.tracking.memory import InMemoryTracker

EXPERIMENT = "tests"


class Reader(Protocol):
    """Reads what a tracker has stored, without the tracker."""

    def history(self, run_id: str, name: str) -> list[tuple[int, float]]: ...
    def versions(self, run_id: str, model: str = "line") -> list[tuple[int, int, str, str, int | None]]: ...
    def files(self, run_id: str, model: str = "line") -> dict[int, bool]: ...
    def traces(self, run_id: str) -> list[str]: ...
    def file(self, run_id: str, name: str) -> bytes: ...
    def problems(self, run_id: str) -> list[tuple[str, str, str]]: ...
    def params(self, run_id: str) -> dict[str, str]: ...
    def status(self, run_id: str) -> str: ...


@dataclass
class Tracked:
    tracker: Tracker
    read: Reader


class MemoryReader:
    def __init__(self, tracker: InMemoryTracker) -> None:
        self._tracker = tracker

    def history(self, run_id: str, name: str) -> list[tuple[int, float]]:
        return self._tracker.history(run_id, name)

    def versions(self, run_id: str, model: str = "line") -> list[tuple[int, int, str, str, int | None]]:
        found = [c for c in self._tracker.runs[run_id].checkpoints if c.team.model == model]
        team = [c.team.policies["team"] for c in found]
        return [
            (c.version, c.team.step, files.weights_digest, files.folder_uri, c.parent)
            for c, files in zip(found, team, strict=True)
        ]

    def files(self, run_id: str, model: str = "line") -> dict[int, bool]:
        checkpoints = self._tracker.runs[run_id].checkpoints
        return {c.team.step: c.files_are_there for c in checkpoints if c.team.model == model}

    def traces(self, run_id: str) -> list[str]:
        return sorted(self._tracker.runs[run_id].traces)

    def file(self, run_id: str, name: str) -> bytes:
        return self._tracker.runs[run_id].files[name]

    def problems(self, run_id: str) -> list[tuple[str, str, str]]:
        return [(each.name, each.digest, each.purpose) for each in self._tracker.runs[run_id].problems]

    def params(self, run_id: str) -> dict[str, str]:
        return self._tracker.runs[run_id].params

    def status(self, run_id: str) -> str:
        return self._tracker.runs[run_id].status


class MlflowReader:
    """Reads from the server with MLflow's own client."""

    def __init__(self, url: str) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient(url)

    def runs(self, run_id: str) -> list[Any]:
        experiment = self.client.get_experiment_by_name(EXPERIMENT)
        return list(self.client.search_runs([experiment.experiment_id], f"tags.`troupe.run_id` = '{run_id}'"))

    def run(self, run_id: str) -> Any:
        (run,) = self.runs(run_id)
        return run

    def history(self, run_id: str, name: str) -> list[tuple[int, float]]:
        points = self.client.get_metric_history(self.run(run_id).info.run_id, name)
        return sorted((point.step, point.value) for point in points)

    def versions(self, run_id: str, model: str = "line") -> list[tuple[int, int, str, str, int | None]]:
        rows = []
        for version in self.model_versions(run_id, model):
            tags = version.tags
            parent = int(tags["troupe.parent_version"]) if "troupe.parent_version" in tags else None
            digest, folder = tags["troupe.weights_digest.team"], tags["troupe.folder_uri.team"]
            rows.append((int(version.version), int(tags["troupe.step"]), digest, folder, parent))
        return rows

    def model_versions(self, run_id: str, model: str = "line") -> list[Any]:
        found = self.client.search_model_versions(f"name = '{model}' and tags.`troupe.run_id` = '{run_id}'")
        return sorted(found, key=lambda version: int(version.version))

    def files(self, run_id: str, model: str = "line") -> dict[int, bool]:
        found = self.model_versions(run_id, model)
        for version in found:
            assert ("cannot be loaded" in (version.description or "")) == (
                version.tags.get("troupe.files") == "removed by troupe gc"
            )
        return {int(v.tags["troupe.step"]): "removed" not in v.tags.get("troupe.files", "") for v in found}

    def full_traces(self, run_id: str) -> list[Any]:
        info = self.run(run_id).info
        found = self.client.search_traces(locations=[info.experiment_id], run_id=info.run_id)
        return sorted(found, key=lambda trace: trace.data.spans[0].inputs["problem"])

    def traces(self, run_id: str) -> list[str]:
        return [trace.data.spans[0].inputs["problem"] for trace in self.full_traces(run_id)]

    def file(self, run_id: str, name: str) -> bytes:
        return Path(self.client.download_artifacts(self.run(run_id).info.run_id, name)).read_bytes()

    def problems(self, run_id: str) -> list[tuple[str, str, str]]:
        inputs = self.run(run_id).inputs.dataset_inputs
        return [(each.dataset.name, each.dataset.digest, each.tags[0].value) for each in inputs]

    def params(self, run_id: str) -> dict[str, str]:
        return dict(self.run(run_id).data.params)

    def status(self, run_id: str) -> str:
        return str(self.run(run_id).info.status)


@pytest.fixture(scope="session")
def mlflow_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real MLflow server over SQLite and a folder; its user and password are in the environment, for MLflow."""
    home: Path = tmp_path_factory.mktemp("mlflow-home")
    state = up(home, only=["mlflow"])
    assert state.mlflow is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_USERNAME", USER)
        patch.setenv("MLFLOW_TRACKING_PASSWORD", password_file(home).read_text())
        yield state.mlflow.url
    down(home)


@pytest.fixture
def mlflow(mlflow_url: str) -> MlflowReader:
    return MlflowReader(mlflow_url)


@pytest.fixture(params=["memory", "mlflow"])
def tracked(request: pytest.FixtureRequest) -> Tracked:
    """Every implementation of the Tracker protocol."""
    if request.param == "memory":
        tracker = InMemoryTracker()
        return Tracked(tracker, MemoryReader(tracker))
    url = request.getfixturevalue("mlflow_url")
    return Tracked(MlflowTracker(url, EXPERIMENT, register_models=True), MlflowReader(url))
