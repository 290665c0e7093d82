"""A real Prefect server against the files: what `up --check` says, what `up` repairs, which runs come back by themselves."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.events import Event, Resource
from prefect.flow_engine import FlowRunEngine
from prefect.states import AwaitingRetry, Cancelled, Cancelling, Crashed, Pending, Running

from components.errors import ConfigurationError
from infra import automations
from infra import register as registration
from infra.automations import LOST, RESUME, ensure_automations, pause_resumption
from infra.deployed import differences, local_client, read_deployed, tidy
from infra.deployments import local_deployments, write_deployments
from infra.register import ensure_pool
from infra.services.environment import StackStatus, environment
from infra.services.stack import deploy, up

pytestmark = pytest.mark.slow

KEY = "reporting.report"
ONE_NIGHT = {"limit": 1, "collision_strategy": "CANCEL_NEW"}
AT_3, AT_4 = ({"cron": f"0 {hour} * * *", "timezone": "UTC", "slug": "night"} for hour in (3, 4))
MISSING = [f"automation {name!r}: missing" for name in (RESUME, LOST)]
FLOW = """
from prefect import flow

@flow
def report(title: str = "") -> None: ...
"""


class Folder:
    """A folder whose prefect.yaml deploys its owner's flow, and the server that it deploys to."""

    def __init__(self, root: Path, state: StackStatus, client: SyncPrefectClient) -> None:
        self.root, self.state, self.client, self.record = root, state, client, root / "deployed.json"
        (root / "reporting.py").write_text(FLOW)

    def write(self, **deployments: dict[str, Any]) -> None:
        same = {"entrypoint": KEY, "work_pool": {"name": "troupe"}, "concurrency_limit": ONE_NIGHT}
        listed = [{"name": name, **same, **each} for name, each in deployments.items()]
        (self.root / "prefect.yaml").write_text(yaml.safe_dump({"deployments": listed}))

    @property
    def wanted(self) -> list[dict[str, Any]]:
        """Without Troupe's own, which take long to deploy."""
        return [each for each in local_deployments() if each["entrypoint"] == KEY]

    def check(self) -> list[str]:
        return differences(self.client, self.wanted, self.record)

    def up(self) -> None:
        deploy(self.state, write_deployments(self.state.home, self.wanted))
        tidy(self.client, self.wanted, self.record)

    def ids(self) -> list[Any]:
        """Of all that `up` has made."""
        found = read_deployed(self.client).values()
        return [
            *((each.id, [schedule.id for schedule in each.schedules]) for each in found),
            *self.client.read_automations(),
        ]

    def run(self, deployment: Any, *states: Any) -> UUID:
        flow_run = self.client.create_flow_run_from_deployment(deployment, state=Pending())
        self.become(flow_run.id, *states)
        return flow_run.id

    def become(self, flow_run: UUID, *states: Any) -> None:
        for state in states:
            self.client.set_flow_run_state(flow_run, state, force=True)

    def name_of(self, flow_run: UUID) -> str:
        state = self.client.read_flow_run(flow_run).state
        assert state is not None
        return state.name or ""


def wait_for(holds: Callable[[], bool], *, seconds: float = 240.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(1.0)
    return holds()


@pytest.fixture(scope="module")
def server(services: StackStatus) -> Iterator[StackStatus]:
    """The server that whole runs use, left without automations."""
    yield services
    with local_client(services) as client:
        for each in client.read_automations():
            client.delete_automation(each.id)


@pytest.fixture
def folder(server: StackStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.chdir(tmp_path)
    with local_client(server) as client:
        yield Folder(tmp_path, server, client)
        for each in read_deployed(client).values():
            client.delete_deployment(each.id)


def test_what_differs_is_told_and_repaired_and_the_rest_is_left_alone(folder: Folder) -> None:
    folder.write(night={"schedules": [AT_3, {"cron": "0 12 * * *", "slug": "noon"}]}, old={"schedules": [AT_3]})
    assert folder.check() == ["report/night: not deployed", "report/old: not deployed", *MISSING]
    assert read_deployed(folder.client) == {}
    folder.up()
    assert folder.check() == []

    folder.write(night={"schedules": [AT_4], "parameters": {"title": "b"}})
    told = [
        "report/night: parameters.title: '(absent)' -> 'b'",
        "report/night: schedules.night.cron: '0 3 * * *' -> '0 4 * * *'",
        "report/night: schedules.noon.active: True -> '(absent)'",
        "report/night: schedules.noon.cron: '0 12 * * *' -> '(absent)'",
        "report/night: schedules.noon.timezone: 'UTC' -> '(absent)'",
        "report/old: in no file any more",
    ]
    assert folder.check() == told
    assert folder.check() == told, "checking repairs nothing"
    folder.up()
    assert folder.check() == []
    ((_, only),) = read_deployed(folder.client).items()
    assert [(each.slug, each.schedule.cron) for each in only.schedules] == [("night", "0 4 * * *")]

    folder.client.delete_work_pool("troupe")
    assert folder.check() == ["work pool troupe: missing"]
    up(folder.state.home, only=["prefect"])  # its health check makes the pool


def test_a_server_elsewhere_is_made_to_know_pool_deployments_and_automations(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(night={})
    for deployed in folder.client.read_deployments():  # of other tests, with their schedules
        folder.client.delete_deployment(deployed.id)
    monkeypatch.setattr(registration, "local_deployments", lambda: folder.wanted)
    for name, value in environment(folder.state).items():
        monkeypatch.setenv(name, value)
    for _ in range(2):  # again: brought up to date
        assert registration.register("process", None) == 1
        assert folder.check() == []
    with pytest.raises(ConfigurationError, match="is of type process, not kubernetes"):
        ensure_pool(folder.client, "kubernetes", {})
    template = folder.client.read_work_pool("troupe").base_job_template
    other = {
        "job_configuration": {"command": "{{ command }}"},
        "variables": {"properties": {"command": {"type": "string"}}},
    }
    ensure_pool(folder.client, "process", other)
    assert folder.client.read_work_pool("troupe").base_job_template == other
    ensure_pool(folder.client, "process", template)


@pytest.mark.parametrize(
    ("pool_type", "template"), [("kubernetes", None), ("process", Path("job.json")), ("ray", None)]
)
def test_a_pool_of_jobs_needs_a_template_and_another_takes_none(pool_type: str, template: Path | None) -> None:
    with pytest.raises(ConfigurationError, match="base job template"):
        registration.register(pool_type, template)


def test_missed_nights_become_one_run(folder: Folder) -> None:
    folder.write(night={"schedules": [AT_3]})
    folder.up()
    ((_, deployment),) = read_deployed(folder.client).items()
    of_night = DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id]))

    def late() -> list[UUID]:
        found = folder.client.read_flow_runs(deployment_filter=of_night)
        return [each.id for each in found if each.state is not None and each.state.name == "Late"]

    assert wait_for(lambda: len(folder.client.read_flow_runs(deployment_filter=of_night)) == 3), "the next three nights"
    with sqlite3.connect(folder.state.home / "prefect" / "prefect.db") as database:  # four days go by
        rows = database.execute("SELECT id, next_scheduled_start_time FROM flow_run WHERE auto_scheduled").fetchall()
        for key, planned in rows:
            past = str(datetime.fromisoformat(planned) - timedelta(days=4))
            database.execute("UPDATE flow_run SET next_scheduled_start_time = ? WHERE id = ?", (past, key))
    assert wait_for(lambda: len(late()) == 3)
    before = folder.ids()
    folder.up()
    assert folder.ids() == before, "`troupe up` makes nothing twice"
    missed = late()
    assert len(missed) == 3, "`troupe up` keeps what was missed"
    ends = [folder.client.set_flow_run_state(each, Pending()).state for each in missed]  # as a worker takes them
    assert [state.type.value for state in ends if state is not None] == ["PENDING", "CANCELLED", "CANCELLED"]


@pytest.fixture
def train(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A deployment of a flow called `train`, on a server that waits longer than a busy machine takes to say the next word."""
    monkeypatch.setattr(automations, "QUIET_SECONDS", 45.0)
    monkeypatch.setattr(automations, "SILENCE_SECONDS", 10.0)
    ensure_automations(folder.client)
    name = folder.client.create_flow_from_name("train")
    return folder.client.create_deployment(name, "tiny", work_pool_name="troupe")


def test_a_crashed_run_comes_back_three_times_and_a_cancelled_one_never(folder: Folder, train: Any) -> None:
    somebodys = folder.client.create_flow_from_name("somebodys")
    foreign = folder.client.create_deployment(somebodys, "own", work_pool_name="troupe")
    by_hand = (Running(), Crashed(), AwaitingRetry(), Pending())
    stay = {
        folder.run(foreign, Running(), Crashed()): "Crashed",
        folder.run(train, Crashed()): "Crashed",
        folder.run(train, *by_hand, *by_hand, *by_hand, Running(), Crashed()): "Crashed",
        folder.run(train, Running(), Cancelled()): "Cancelled",
        folder.run(train, Running(), Cancelling(), Crashed(), Cancelled()): "Cancelled",
        folder.run(train, *by_hand): "Pending",
    }
    back = [folder.run(train, Running(), Crashed()), folder.run(train, *by_hand, *by_hand, Running(), Crashed())]
    # The others have been judged by then: their time was over before.
    assert wait_for(lambda: [folder.name_of(run) for run in back] == ["Resuming"] * 2)
    assert {run: folder.name_of(run) for run in stay} == stay
    histories = [[state.name for state in folder.client.read_flow_run_states(run)] for run in back]
    # A server that is busy may set the state again, when its own request timed out: that is one start all the same.
    comings = [[name for name, _ in groupby(names)].count("Resuming") for names in histories]
    assert comings == [1, 1], histories


def test_resumption_is_paused_and_taken_up_again(folder: Folder, train: Any) -> None:
    assert folder.state.prefect is not None
    pause_resumption(folder.state.home, folder.state.prefect.api_url)
    assert [line for line in folder.check() if "automation" in line] == [f"automation {RESUME!r}: paused"]
    ensure_automations(folder.client)
    assert [line for line in folder.check() if "automation" in line] == []


def test_a_run_whose_heartbeat_is_lost_comes_back(folder: Folder, train: Any) -> None:
    lost, done = folder.run(train, Running()), folder.run(train, Running())
    for run in (lost, done):
        engine = FlowRunEngine(flow=flow(lambda: None, name="train"), flow_run=folder.client.read_flow_run(run))
        resource, related = engine._build_heartbeat_event_template()  # what Prefect itself sends
        beat = Event(
            event="prefect.flow-run.heartbeat",
            occurred=datetime.now(UTC),
            resource=Resource.model_validate(resource),
            related=related,
        )
        folder.client.request("POST", "/events", json=[beat.model_dump(mode="json")]).raise_for_status()
    folder.become(done, Cancelled())
    assert wait_for(lambda: folder.name_of(lost) == "Resuming")
    names = [state.name for state in folder.client.read_flow_run_states(lost)]
    assert "Crashed" in names
    assert folder.name_of(done) == "Cancelled"


def test_an_automation_that_somebody_changed_is_told_and_repaired(
    folder: Folder, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(folder.root)
    lines = [f"automation {name!r}: another trigger" for name in (RESUME, LOST)]
    assert [line for line in folder.check() if "automation" in line] == lines
    ensure_automations(folder.client)
    assert [line for line in folder.check() if "automation" in line] == []
