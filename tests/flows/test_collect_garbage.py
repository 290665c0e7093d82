"""What the nightly flow removes: from a store by each run's retention, from Prefect what is old and of no run at work."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, task
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound, ParameterTypeError
from prefect.settings import PREFECT_RESULTS_LOCAL_STORAGE_PATH, temporary_settings
from prefect.states import Completed, Running

from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig
from flows import collect_garbage as module
from flows.collect_garbage import collect_garbage
from flows.prefect_runtime import pruning
from flows.prefect_runtime.pruning import PrunedFlowRuns, prune_flow_runs, prune_results
from tests.components.runs.whole_runs import whole_run
from tests.recorded_calls import RecordedCalls, call

NOW_IS_OLD = -1.0
"""Days: what ends now ended before tomorrow."""


def test_the_flow_passes_on_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = RecordedCalls()
    for name, answer in {
        "collect_store": {"num_objects": 7},
        "remove_old_flow_runs": PrunedFlowRuns(num_flow_runs=3),
        "remove_old_results": 5,
    }.items():
        monkeypatch.setattr(module, name, calls.function(getattr(module, name).fn, answer, name=name))
    store = StoreConfig(bucket="other")
    found = collect_garbage.fn(store, keep=3, grace_hours=48, shared_days=9, flow_run_days=4, max_flow_runs=11)
    assert calls == [
        call("collect_store", store=store, keep=3, grace_hours=48, shared_days=9),
        call("remove_old_flow_runs", older_than_days=4, at_most=11),
        call("remove_old_results", older_than_days=4),
    ]
    assert found == {
        "store": {"num_objects": 7},
        "flow_runs": {"num_flow_runs": 3, "num_pages": 0, "num_at_work": 0},
        "num_results": 5,
    }


def test_a_store_is_collected_by_the_retention_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "store"
    whole_run(root, "r", overrides=("retention={newest: 2}",))
    config = StoreConfig(kind="local", root=str(root))
    monkeypatch.setattr(module, "HOUR_SECONDS", 0.0)
    assert module.collect_store.fn(config, None, 24.0, 30.0)["checkpoints"] == {"r": [1, 2]}
    assert module.collect_store.fn(config, None, 24.0, 30.0)["checkpoints"] == {}
    (root / "runs/r/config.json").write_text("{")
    assert list(module.collect_store.fn(config, None, 24.0, 30.0)["damaged"]) == ["r"]
    assert LocalArtifactStore(root).read("runs/r/config.json") == b"{"


@pytest.mark.parametrize(("place", "num_removed"), [("inside", 1), ("outside", 0)])
def test_old_results_go_from_our_own_folder_alone(tmp_path: Path, place: str, num_removed: int) -> None:
    home, folder = tmp_path / "home", (tmp_path / "home" if place == "inside" else tmp_path / "user") / "storage"
    folder.mkdir(parents=True)
    for name, age_days in (("old", 20), ("young", 1)):
        (folder / name).write_text("a result")
        os.utime(folder / name, (time.time() - age_days * 86400,) * 2)
    with temporary_settings({PREFECT_RESULTS_LOCAL_STORAGE_PATH: folder}):
        assert prune_results(home, older_than_days=14) == num_removed
    assert (folder / "old").exists() == (num_removed == 0)
    assert (folder / "young").exists()


@flow(name="training-iteration")
def iteration() -> None: ...


@flow(name="train")
def training() -> None: ...


@task
def place() -> None: ...


@pytest.fixture
def client(prefect: None) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as opened:
        yield opened


def steps_of(client: SyncPrefectClient, parent: FlowRun, count: int) -> list[FlowRun]:
    """Finished iterations of a training, each with a task and a page."""
    made = []
    for number in range(count):
        tracking = client.create_task_run(place, flow_run_id=parent.id, dynamic_key=str(number))
        child = client.create_flow_run(iteration, parent_task_run_id=tracking.id)
        client.create_task_run(place, flow_run_id=child.id, dynamic_key="own")
        client.create_artifact(ArtifactCreate(key="iteration-r", type="markdown", data="page", flow_run_id=child.id))
        client.set_flow_run_state(child.id, Completed(), force=True)
        made.append(child)
    return made


def is_there(client: SyncPrefectClient, flow_run: FlowRun) -> bool:
    try:
        return bool(client.read_flow_run(flow_run.id))
    except ObjectNotFound:
        return False


@pytest.mark.slow
def test_finished_iterations_go_and_those_of_a_training_at_work_stay(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_PAGE", 2)
    num_others_at_work = prune_flow_runs(older_than_days=NOW_IS_OLD, at_most=10_000).num_at_work  # those of other tests
    at_work, ended = client.create_flow_run(training), client.create_flow_run(training)
    client.set_flow_run_state(at_work.id, Running(), force=True)
    client.set_flow_run_state(ended.id, Completed(), force=True)
    stay, go = steps_of(client, at_work, 3), steps_of(client, ended, 4)
    pending: Any = client.create_flow_run(iteration)
    assert prune_flow_runs(older_than_days=1, at_most=100).num_flow_runs == 0, "they are young"
    first = prune_flow_runs(older_than_days=NOW_IS_OLD, at_most=3)
    assert (first.num_flow_runs, first.num_pages) == (3, 3)
    rest = prune_flow_runs(older_than_days=NOW_IS_OLD, at_most=100)
    assert rest == PrunedFlowRuns(num_flow_runs=1, num_pages=1, num_at_work=3 + num_others_at_work)
    assert [is_there(client, each) for each in (*stay, at_work, ended, pending)] == [True] * 6
    assert [is_there(client, each) for each in go] == [False] * 4
    ours = {each.id for each in (at_work, ended, *stay, *go)}
    of_ours = FlowRunFilter(id=FlowRunFilterId(any_=[*ours]))
    left = {each.flow_run_id for each in client.read_task_runs(flow_run_filter=of_ours)}
    assert left == {at_work.id, *(each.id for each in stay)}
    assert {each.flow_run_id for each in client.read_artifacts(flow_run_filter=of_ours)} == {each.id for each in stay}


@pytest.mark.slow
def test_it_runs_as_a_worker_runs_it(prefect: None, tmp_path: Path) -> None:
    root = tmp_path / "store"
    whole_run(root, "r", overrides=("retention={newest: 2}",))
    place: Any = {"kind": "local", "root": str(root)}  # plain JSON, as in a deployment
    found = collect_garbage(place)
    assert (found["store"]["num_objects"], found["store"]["num_young_objects"]) == (0, 2 * (1 + 2)), "all is young"
    with pytest.raises(ParameterTypeError, match="grace_hours"):
        collect_garbage(place, grace_hours=0)
