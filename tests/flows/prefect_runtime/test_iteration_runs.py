"""Iterations whose flow runs are made ahead and told of behind leave in Prefect what its own way would leave."""

import os
import signal
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import prefect
import pytest
from packaging.requirements import Requirement
from prefect import Flow, flow, runtime, task
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.context import SyncClientContext
from prefect.exceptions import TerminationSignal

from components.errors import PrefectUnavailable
from components.machine.outages import interruptible, is_interrupted
from flows.prefect_runtime.interruptible_flow import InterruptibleFlow
from flows.prefect_runtime.iteration_runs import create_next_run, in_background, iteration_runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect")]
READ_IN = {"3.9"}
"""The minor versions of Prefect in which FlowRunEngine was read and found to be as `iteration_runs` takes it."""

NUM_STEPS = 3


@task
def doubled(value: dict[str, int]) -> dict[str, int]:
    return {"team": 2 * value["team"]}


@flow(flow_run_name="{name}/step-{step:06d}", validate_parameters=False)
def iteration(name: str, step: int, value: dict[str, int]) -> dict[str, int]:
    if step + 1 < NUM_STEPS:
        create_next_run(name, step + 1, dict(value))
    _between(step)
    result = doubled(value)
    in_background(lambda: create_markdown_artifact(key="page", markdown=f"step {step}"))
    return {"team": result["team"] + 1}


def _nothing(step: int) -> None:
    return None


_between: Callable[[int], None] = _nothing


@contextmanager
def between(work: Callable[[int], None]) -> Iterator[None]:
    """Inside, iterations do `work` after the next flow run has been asked for."""
    global _between
    _between = work
    try:
        yield
    finally:
        _between = _nothing


@contextmanager
def stock_runs(iteration: Any) -> Iterator[Any]:
    """Prefect's own way."""
    yield iteration


def trained(name: str, runs: Any = iteration_runs, **options: Any) -> dict[str, int]:
    def parent() -> dict[str, int]:
        value = doubled({"team": 1})
        with runs(iteration) as iterate:
            for step in range(NUM_STEPS):
                value = iterate(name, step, value)
        return value

    kind: Any = Flow if runs is stock_runs else InterruptibleFlow
    result: dict[str, int] = kind(parent, name="parent", flow_run_name=name, **options)()
    return result


def _label(node: dict[str, Any]) -> str:
    """Without the random letters at the end of a task run's name."""
    return str(node["label"]).rpartition("-")[0] if node["kind"] == "task-run" else str(node["label"])


def list_children(name: str) -> list[dict[str, Any]]:
    """What the server shows of the children of a flow run, without ids and times."""
    own = {"flow_runs": {"name": {"like_": name}}}  # an answer has 200 entries at most, and others have run here
    with get_client(sync_client=True) as client:
        runs = client.request("POST", "/flow_runs/filter", json={**own, "sort": "NAME_ASC"}).json()
        runs = [run for run in runs if run["name"].partition("/")[0] == name]
        named = {run["id"]: run["name"].removeprefix(name) for run in runs}
        places = client.request("POST", "/task_runs/filter", json=own).json()
        named |= {place["id"]: named.get(place["flow_run_id"], "?") + " " + place["name"][:7] for place in places}
        [parent] = [run for run in runs if run["name"] == name]
        graph = client.request("GET", f"/flow_runs/{parent['id']}/graph-v2").json()
        labels = {node["id"]: _label(node).replace(name, "") for _, node in graph["nodes"]}
        return [
            {
                "name": named[run["id"]],
                "run_count": run["run_count"],
                "parameters": str(run["parameters"]).replace(name, ""),
                "states": [
                    state["name"]
                    for state in client.request("GET", f"/flow_run_states/?flow_run_id={run['id']}").json()
                ],
                "place": named.get(run["parent_task_run_id"]),
                "tasks": sorted(place["name"][:7] for place in places if place["flow_run_id"] == run["id"]),
                "pages": [
                    page["data"]
                    for page in client.request("POST", "/artifacts/filter", json=own).json()
                    if page["flow_run_id"] == run["id"] and page["type"] == "markdown"
                ],
                "after": sorted(
                    {labels[before["id"]] for before in node["parents"]}
                    for _, node in graph["nodes"]
                    if node["id"] == run["id"]
                ),
            }
            for run in runs
        ]


@pytest.fixture
def calm() -> Iterator[None]:
    yield
    with interruptible():  # forget an interruption
        pass


def test_prefect_is_told_what_its_own_way_would_tell() -> None:
    assert trained("stock", stock_runs) == trained("ours") == {"team": 23}
    ours, stock = list_children("ours"), list_children("stock")
    assert [run["states"] for run in ours] == [["Pending", "Running", "Completed"]] * (1 + NUM_STEPS)
    assert [run["pages"] for run in ours] == [[], *([f"step {step}"] for step in range(NUM_STEPS))]
    assert ours == stock
    assert input_kinds("ours") == {"task_run"}, (
        "Prefect's pages list no task runs beside an input that they cannot read"
    )


def input_kinds(name: str) -> set[str]:
    """Of what kinds the inputs of a flow run's task runs are."""
    with get_client(sync_client=True) as client:
        only = {"flow_runs": {"name": {"any_": [name]}}}
        places = client.request("POST", "/task_runs/filter", json=only).json()
    return {each["input_type"] for place in places for inputs in place["task_inputs"].values() for each in inputs}


def test_no_iteration_but_the_first_asks_the_server_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []
    under_way = [0]
    send = httpx.Client.send

    def note(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        if threading.current_thread() is threading.main_thread():
            asked.append((under_way[0], request.url.path))
        return send(self, request, **options)

    monkeypatch.setattr(httpx.Client, "send", note)
    with between(lambda step: under_way.__setitem__(0, step)):
        trained("unasked")
    assert [path for step, path in asked if 0 < step < NUM_STEPS - 1] == []


def test_a_flow_run_made_ahead_of_a_failure_is_taken_back() -> None:
    def fail(step: int) -> None:
        if step == 1:
            raise ValueError("step 1 fails")

    with between(fail), pytest.raises(ValueError, match="step 1 fails"):
        trained("failing")
    assert [(run["name"], run["states"][-1]) for run in list_children("failing")] == [
        ("", "Failed"), ("/step-000000", "Completed"), ("/step-000001", "Failed")
    ]  # fmt: skip
    assert [run["tasks"].count("iterati") for run in list_children("failing")] == [2, 0, 0]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), TerminationSignal(signal.SIGTERM)])
def test_an_interrupted_iteration_is_cancelled_and_so_is_its_parent(
    interruption: BaseException, calm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(step: int) -> None:
        if step == 1:
            raise interruption

    name = f"interrupted by {type(interruption).__name__}"
    repeated: list[int] = []
    monkeypatch.setattr(
        os, "kill", lambda pid, signal_number: repeated.append(signal_number)
    )  # to the caller's handler
    with between(interrupt), pytest.raises(type(interruption)):
        trained(name)
    assert repeated == ([signal.SIGTERM] if isinstance(interruption, TerminationSignal) else [])
    assert [(run["name"], run["states"][-1]) for run in list_children(name)] == [
        ("", "Cancelled"), ("/step-000000", "Completed"), ("/step-000001", "Cancelled")
    ]  # fmt: skip
    assert is_interrupted()


def test_a_parent_that_is_tried_again_begins_with_its_first_iteration() -> None:
    for name, runs in (("retried", iteration_runs), ("retried-stock", stock_runs)):
        failures = [ValueError("once")]

        def fail_once(step: int, failures: list[ValueError] = failures) -> None:
            if step == 1 and failures:
                raise failures.pop()

        with between(fail_once):
            assert trained(name, runs, retries=1) == {"team": 23}
    assert list_children("retried") == list_children("retried-stock")


def test_a_server_that_stays_away_ends_the_run_by_name_and_no_later_than_the_next_iteration() -> None:
    begun: list[int] = []

    class Gone(httpx.BaseTransport):
        def __init__(self, inner: httpx.BaseTransport) -> None:
            self.close = inner.close  # type: ignore[method-assign]

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            raise PrefectUnavailable("it does not answer")

    def away(step: int) -> None:
        begun.append(step)
        context = SyncClientContext.get()
        assert context is not None
        if step == 1:
            context.client._client._transport = Gone(context.client._client._transport)

    with between(away), pytest.raises(PrefectUnavailable, match="does not answer"):
        trained("left-alone")
    assert begun == [0, 1]


def test_a_flow_run_whose_creation_was_not_answered_in_time_is_not_created_twice() -> None:
    sent: list[str] = []

    class Slow(httpx.BaseTransport):
        """Does what it is asked, and answers the first request for a flow run too late."""

        def __init__(self, inner: httpx.BaseTransport) -> None:
            self.inner, self.close = inner, inner.close  # type: ignore[method-assign]

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = self.inner.handle_request(request)
            if request.method == "POST" and request.url.path.endswith("/flow_runs/"):
                sent.append(request.url.path)
                if len(sent) == 1:
                    answer.read()
                    raise httpx.ReadTimeout("too late", request=request)
            return answer

    @contextmanager
    def slow_runs(iteration: Any) -> Iterator[Any]:
        context = SyncClientContext.get()
        assert context is not None
        context.client._client._transport = Slow(context.client._client._transport)
        with iteration_runs(iteration) as iterate:
            yield iterate

    assert trained("slow", slow_runs) == {"team": 23}
    assert len(sent) == 1 + NUM_STEPS
    assert [(run["name"], run["states"][-1]) for run in list_children("slow")] == [
        ("", "Completed"), *((f"/step-{step:06d}", "Completed") for step in range(NUM_STEPS))
    ]  # fmt: skip


def test_prefect_is_of_a_version_in_which_its_engine_was_read() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    [wanted] = [Requirement(line) for line in project["dependencies"] if Requirement(line).name == "prefect"]
    assert prefect.__version__ in wanted.specifier
    assert version("prefect").rpartition(".")[0] in READ_IN, (
        "read FlowRunEngine again: initialize_run, begin_run, set_state, setup_run_context, create_flow_run, load_subflow_run"
    )
    assert runtime.flow_run.id is None
