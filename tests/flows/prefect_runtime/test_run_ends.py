"""What a record of a dead process may say to Prefect of a flow run that others may have started again."""

from collections.abc import Iterator
from typing import Any

import pytest
from prefect import flow, task
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.states import AwaitingRetry, Cancelled, Cancelling, Completed, Crashed, Pending, Running

from flows.prefect_runtime.active_runs import end_children, end_flow_run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect")]


@flow
def parent() -> None: ...


@task
def place() -> None: ...


@pytest.fixture
def client() -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as opened:
        yield opened


class Family:
    """A running flow run with a task, and a child that runs a task."""

    def __init__(self, client: SyncPrefectClient) -> None:
        self.client = client
        self.top = client.create_flow_run(parent, state=Pending())
        tracking = self.add_task(self.top, "child")
        self.child = client.create_flow_run(parent, state=Pending(), parent_task_run_id=tracking.id)
        self.tasks = [self.add_task(self.top, "own"), self.add_task(self.child, "own")]
        for each in (self.top, self.child):
            client.set_flow_run_state(each.id, Running())

    def add_task(self, flow_run: FlowRun, key: str) -> TaskRun:
        return self.client.create_task_run(place, flow_run_id=flow_run.id, dynamic_key=key, state=Running())

    def become(self, *states: State[Any]) -> None:
        for state in states:
            self.client.set_flow_run_state(self.top.id, state, force=True)

    def end(self, *, run_count: int = 1) -> bool:
        return end_flow_run(str(self.top.id), run_count=run_count, message="it is gone")

    def states(self) -> list[str]:
        """Those of the flow run, its child, and the tasks of both."""
        runs = [self.client.read_flow_run(each.id) for each in (self.top, self.child)]
        found = [*runs, *(self.client.read_task_run(each.id) for each in self.tasks)]
        return [each.state.name for each in found if each.state is not None]


@pytest.mark.parametrize(
    ("left", "ends"), [([], "Crashed"), ([Cancelling()], "Cancelled"), ([Cancelled()], "Cancelled")]
)
def test_what_a_dead_process_has_left_ends_as_it_stood(left: list[Any], ends: str, client: SyncPrefectClient) -> None:
    family = Family(client)
    family.become(*left)
    assert family.end() is True
    assert family.states() == [ends] * 4
    assert family.end() is False


@pytest.mark.parametrize("ended", [Cancelled, Crashed])
def test_a_run_that_waits_for_its_retry_or_runs_again_is_not_the_dead_processs(
    ended: Any, client: SyncPrefectClient
) -> None:
    family = Family(client)
    family.become(ended(), AwaitingRetry())
    assert family.end() is False
    assert family.states() == ["AwaitingRetry", "Running", "Running", "Running"]
    family.become(Pending(), Running())
    assert family.end() is False
    # The process that started it again says of the children, which are not its own, what became of them.
    assert end_children(client, str(family.top.id), Crashed()) is True
    assert family.states() == ["Running", "Crashed", "Crashed", "Crashed"]
    assert family.end(run_count=2) is True
    assert family.states() == ["Crashed"] * 4


def test_tasks_of_what_has_completed_are_left_to_prefect_which_hears_of_them_late(client: SyncPrefectClient) -> None:
    family = Family(client)
    client.set_flow_run_state(family.child.id, Completed(), force=True)
    assert family.end() is True
    assert family.states() == ["Crashed", "Completed", "Crashed", "Running"]
    family = Family(client)
    family.become(Completed())
    assert family.end() is False
    assert family.states() == ["Completed", "Running", "Running", "Running"]


def test_what_is_left_ends_though_it_is_more_than_one_answer_holds(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, read = Family(client), client.read_task_runs
    family.tasks += [family.add_task(family.top, f"shard {number}") for number in range(4)]
    monkeypatch.setattr(client, "read_task_runs", lambda **wanted: read(limit=2, **wanted))
    assert end_children(client, str(family.top.id), Crashed()) is True
    assert family.states()[1:] == ["Crashed"] * 7


def test_a_flow_run_that_was_deleted_is_no_error(client: SyncPrefectClient) -> None:
    family = Family(client)
    client.delete_flow_run(family.top.id)
    assert family.end() is False
