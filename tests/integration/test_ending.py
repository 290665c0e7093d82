"""However a run ends, in order or by a kill, Prefect and MLflow are told; and services that stay away end it with a name."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
from prefect.client.schemas.objects import FlowRun
from prefect.states import AwaitingRetry, Crashed

from components.artifacts.local import LocalArtifactStore
from flows.prefect_runtime.active_runs import end_active_runs, mark_dead_runs_crashed, read_recorded_processes
from infra.services.environment import StackStatus
from infra.services.secrets import ensure_password
from tests.components.artifacts.faulty_proxy import FaultyProxy, faulty_proxy
from tests.integration.outcomes import SHORT, order, outcome
from tests.integration.test_services_away import await_request, mlflow_answer, port_of
from tests.integration.trainings import ROOT, Trainings, await_no_workers, kill, tree
from tests.processes import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LINE = "interrupted; nothing that was finished is lost, the same command continues from here"
COMMAND = "from troupe.cli import main; main()"


@pytest.fixture
def joined(
    services: StackStatus, client_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """This process is a client of the services, too, even where Prefect has read its settings before."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    for name in [name for name in client_environment if name.startswith("MLFLOW_TRACKING")] + [
        "PREFECT_API_URL",
        "PREFECT_HOME",
    ]:
        monkeypatch.setenv(name, client_environment[name])
    for name in [name for name in client_environment if name.startswith("PREFECT_") and "AUTH" in name]:
        monkeypatch.setenv(name, client_environment[name])
    assert services.prefect is not None
    ours = {PREFECT_API_URL: services.prefect.api_url, PREFECT_API_AUTH_STRING: ensure_password(services.home)}
    with temporary_settings(ours):
        yield


def flow_states(services: StackStatus, run_id: str) -> list[str]:
    """The states of the flow runs of a run and of its steps, newest first."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    assert services.prefect is not None
    ours = {PREFECT_API_URL: services.prefect.api_url, PREFECT_API_AUTH_STRING: ensure_password(services.home)}
    with temporary_settings(ours), get_client(sync_client=True) as client:
        named = FlowRunFilter(name=FlowRunFilterName(like_=run_id))
        found = client.read_flow_runs(flow_run_filter=named)
        return [run.state.type.value for run in found if run.state and run.name.partition("/")[0] == run_id]


def mlflow_status(services: StackStatus, run_id: str) -> str | None:
    """The status of the run in MLflow, None before MLflow has been told of it."""
    experiments = {"max_results": 100, "filter": "name = 'troupe/plan_path'"}
    found = mlflow_answer(services, "experiments/search", experiments).get("experiments", [])
    query = {
        "experiment_ids": [each["experiment_id"] for each in found],
        "filter": f"tags.`troupe.run_id` = '{run_id}'",
    }
    of_name = mlflow_answer(services, "runs/search", query).get("runs", []) if found else []
    assert len(of_name) <= 1
    return str(of_name[0]["info"]["status"]) if of_name else None


def tracked_order(root: Path, run_id: str, services: StackStatus, **more: Any) -> dict[str, Any]:
    assert services.mlflow is not None
    tracked = ("tracking.kind=mlflow", f"tracking.url={services.mlflow.url}", "num_steps=40")
    return order(root, run_id, overrides=tracked, **more)


def await_file(path: Path, process: psutil.Process, timeout_seconds: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        assert runs(process), f"{path} is not there, and nobody is left to write it"
        time.sleep(0.05)


def await_told(services: StackStatus, run_id: str, root: Path, process: psutil.Process) -> None:
    """Return when the run has finished a step and MLflow knows of the run, which a thread tells it."""
    await_file(root / "store" / "runs" / run_id / "iterations" / "000000-l0.json", process)
    while mlflow_status(services, run_id) is None:
        assert runs(process), "it has ended before MLflow was told of it"
        time.sleep(0.05)


@pytest.mark.long
def test_a_killed_run_is_told_of_by_whoever_comes_next(
    services: StackStatus, trainings: Trainings, tmp_path: Path, joined: None
) -> None:
    pid = trainings.start(tracked_order(tmp_path, "shot-dead", services))
    await_told(services, "shot-dead", tmp_path, psutil.Process(pid))
    kill(tree(pid))
    assert trainings.wait(pid).code == -signal.SIGKILL, trainings.log()
    at_its_death = set(flow_states(services, "shot-dead"))
    # Starts and ends of steps are told behind their work.
    assert {"RUNNING"} <= at_its_death <= {"RUNNING", "PENDING", "COMPLETED"}
    assert mlflow_status(services, "shot-dead") == "RUNNING"
    assert mark_dead_runs_crashed(services.home) == ["shot-dead"]
    assert {"CRASHED"} <= set(flow_states(services, "shot-dead")) <= {"CRASHED", "COMPLETED"}
    assert mlflow_status(services, "shot-dead") == "KILLED"
    assert mark_dead_runs_crashed(services.home) == []
    assert read_recorded_processes(services.home) == []


def top_run(client: SyncPrefectClient, run_id: str) -> FlowRun:
    """The flow run of a run."""
    (found,) = client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[run_id])))
    return found


def test_a_flow_run_that_is_retried_after_a_kill_is_running_until_it_ends(
    services: StackStatus, trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path, joined: None
) -> None:
    wanted = tracked_order(tmp_path, "retried", services)
    wanted["overrides"][-1] = "num_steps=3"
    pid = trainings.start(wanted)
    await_told(services, "retried", tmp_path, psutil.Process(pid))
    kill(tree(pid))
    assert trainings.wait(pid).code == -signal.SIGKILL, trainings.log()
    with get_client(sync_client=True) as client:
        first = top_run(client, "retried")
        for state in (Crashed(), AwaitingRetry()):  # the worker's word on the kill, then the page's Retry
            client.set_flow_run_state(first.id, state, force=True)
        assert trainings.run(wanted | {"flow_run_id": str(first.id)}).code == 0, trainings.log()
        states = [state.name for state in client.read_flow_run_states(first.id)]
        assert states == ["Pending", "Running", "Crashed", "AwaitingRetry", "Running", "Completed"]
    assert set(flow_states(services, "retried")) <= {"CRASHED", "COMPLETED"}, "a child of the dead process still runs"
    assert mlflow_status(services, "retried") == "FINISHED"
    assert outcome(LocalArtifactStore(tmp_path / "store"), "retried") == uninterrupted


def test_active_runs_are_ended_in_order_and_told_of(
    services: StackStatus, trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path, joined: None
) -> None:
    wanted = tracked_order(tmp_path, "sent-home", services)
    wanted["overrides"][-1] = "num_steps=3"
    pid = trainings.start(wanted)
    await_told(services, "sent-home", tmp_path, psutil.Process(pid))
    assert end_active_runs(services.home, grace_seconds=120) == ["sent-home"]  # three workers start just now
    assert trainings.wait(pid).code == -signal.SIGTERM, trainings.log()
    await_no_workers("sent-home")
    assert {"CANCELLED"} <= set(flow_states(services, "sent-home")) <= {"CANCELLED", "COMPLETED"}
    assert mlflow_status(services, "sent-home") in {"FAILED", "KILLED"}
    store = LocalArtifactStore(tmp_path / "store")
    assert any(key.endswith("/end.json") for key in store.list("runs/sent-home/sessions/")), "it ended without a word"
    assert trainings.run(wanted).code == 0, trainings.log()
    assert outcome(store, "sent-home") == uninterrupted
    assert mlflow_status(services, "sent-home") == "FINISHED"


def train_tiny(run_id: str, *overrides: str) -> list[str]:
    """The words of `troupe train tiny`."""
    return ["train", "tiny", "--run-id", run_id, *(word for each in (*SHORT, *overrides) for word in ("--set", each))]


def cloud(services: StackStatus, proxy: FaultyProxy, *more: str) -> tuple[str, ...]:
    assert services.s3 is not None
    return (
        "store.kind=s3", f"store.bucket={services.s3.bucket}", "store.prefix=ending", "tracking.kind=none",
        f"store.endpoint_url={proxy.endpoint_url}", "num_steps=40", *more,
    )  # fmt: skip


def test_s3_that_stays_away_ends_the_run_with_one_line_and_one_ctrl_c_ends_the_wait(
    services: StackStatus, trainings: Trainings, tmp_path: Path
) -> None:
    assert services.s3 is not None

    def await_away(patience_seconds: int, part: str) -> int:
        """The process of a run for which S3 goes away before it has stored a part."""
        overrides = cloud(services, proxy, f"store.patience_seconds={patience_seconds}")
        pid = trainings.start_command(tmp_path, *train_tiny("s3-gone", *overrides))
        await_request(proxy, part, timeout_seconds=300)
        proxy.fault = lambda method, path: "refuse"
        return pid

    with faulty_proxy(port_of(services.s3.endpoint)) as proxy:
        ended = trainings.await_command(await_away(12, "/steps/000000/collect_rollouts"))
        said, lines = ended.stderr, ended.stderr.splitlines()
        assert ended.returncode == 1, said
        assert re.match(r"troupe: .*store\.patience_seconds.*; details in ", lines[-1]), said
        assert any("S3 does not answer since" in line for line in lines), said
        assert len(lines) < 40, said
        assert "Traceback" not in said
        proxy.fault = lambda method, path: None
        proxy.requests.clear()
        pid = await_away(3000, "/steps/000000/compute_rewards")
        time.sleep(2)
        os.kill(pid, signal.SIGINT)
        started = time.monotonic()
        ended = trainings.await_command(pid)
        assert ended.returncode == 130, ended.stderr
        assert time.monotonic() - started < 60
        assert ended.stderr.splitlines()[-1] == LINE
        assert "Traceback" not in ended.stderr
    assert {"CANCELLED"} <= set(flow_states(services, "s3-gone")) <= {"CANCELLED", "FAILED", "COMPLETED"}


@pytest.mark.long
def test_prefect_that_stays_away_ends_the_run_with_its_name(
    services: StackStatus, client_environment: dict[str, str], tmp_path: Path
) -> None:
    assert services.prefect is not None
    env = {name: value for name, value in client_environment.items() if not name.startswith("PREFECT_LOGGING")}
    log, store = tmp_path / "log", tmp_path / "store"
    with faulty_proxy(port_of(services.prefect.api_url)) as proxy:
        env["PREFECT_API_URL"] = f"{proxy.endpoint_url}/api"
        overrides = (
            "store.kind=local", f"store.root={store}", "tracking.kind=none", "num_steps=40",
            "resources.prefect_patience_seconds=8",
        )  # fmt: skip
        words = [sys.executable, "-c", COMMAND, *train_tiny("orphaned", *overrides)]
        with log.open("wb") as file, subprocess.Popen(words, cwd=ROOT, env=env, stderr=file) as process:
            try:
                await_file(store / "runs" / "orphaned" / "iterations" / "000000-l0.json", psutil.Process(process.pid))
                proxy.fault = lambda method, path: "refuse"
                assert process.wait(240) == 1, log.read_text()
            finally:
                process.kill()
    last = log.read_text().splitlines()[-1]
    assert last.startswith(f"troupe: Prefect at {proxy.endpoint_url}/api does not answer, for 8 s"), log.read_text()
    assert "`troupe up`" in last
    assert "Traceback" not in log.read_text()
    ends = [key for key in LocalArtifactStore(store).list("runs/orphaned/sessions/") if key.endswith("/end.json")]
    assert ends, "the session ended without a word"
    await_no_workers("orphaned")


def test_a_run_needs_no_mlflow(trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path) -> None:
    away = ("tracking.kind=mlflow", "tracking.url=http://127.0.0.1:9")
    assert trainings.run(order(tmp_path, "unseen", overrides=away, flush_seconds=5)).code == 0, trainings.log()
    assert outcome(LocalArtifactStore(tmp_path / "store"), "unseen") == uninterrupted
    assert os.listdir(tmp_path / "store" / "runs" / "unseen" / "outbox"), "nothing waits"


def test_another_configuration_is_one_line(
    trainings: Trainings, uninterrupted: dict[str, Any], undisturbed_folder: Path, tmp_path: Path
) -> None:
    overrides = ("store.kind=local", f"store.root={undisturbed_folder / 'store'}", "tracking.kind=none", "seed=1")
    refused = trainings.command(tmp_path, *train_tiny("whole", *overrides))
    assert refused.returncode == 2, refused.stderr
    lines = refused.stderr.splitlines()
    assert [line for line in lines if line.startswith("troupe: ")] == lines[-1:]
    assert "seed: 0 -> 1" in lines[-1]
    assert not any("Traceback" in line or "prefect" in line.lower() for line in lines), lines
