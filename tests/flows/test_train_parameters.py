"""The flow `train` as Prefect sees it: its form, and what each start of a flow run does with the parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import ParameterTypeError
from prefect.flow_engine import run_flow
from prefect.states import AwaitingRetry, Cancelling, Crashed, Pending, Running, Scheduled
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import validate

from components.artifacts.local import LocalArtifactStore
from components.runs.lineages import read_lineages
from components.runs.run import Run
from flows import train as module
from flows.prefect_runtime.resumption import RESUMING, is_cancelled_resumption
from flows.presets import preset_values
from flows.steps import STEPS
from flows.train import train
from tests.tasks.stored_runs import config_in, store_run

RESUMED = Scheduled(name=RESUMING)


def test_the_form_shows_short_fields_with_their_words_above_the_configuration() -> None:
    schema = parameter_schema(train)
    names = list(dict.fromkeys(name for steps in STEPS.values() for name in steps.pipeline.restartable))
    fields = sorted(schema.properties.items(), key=lambda field: field[1]["position"])
    assert [name for name, _ in fields] == ["run_id", "num_steps", "overrides", "from_stage", "step", "config"]
    assert all(field["description"] for _, field in fields)
    assert schema.required == ["config"]
    assert schema.properties["from_stage"]["anyOf"][0]["enum"] == names


def test_prefects_server_takes_every_preset_and_refuses_a_field_of_another_variant() -> None:
    """At deployment it ignores what is required, so that a section without a name may not be ambiguous."""
    schema, presets = parameter_schema(train).model_dump_for_openapi(), preset_values()

    def faults(config: dict[str, Any]) -> list[Any]:
        return [
            fault
            for ignored in (True, False)
            for fault in validate({"config": config}, schema, preprocess=True, ignore_required=ignored)
        ]

    kuhn = presets["population-kuhn"]
    named = [{"method": "population"}, {"method": {"type": "population", "training_mode": "mixed"}}]
    own = {"algorithm": {"advantage": "mine:own", "epsilon": 0.1}}
    assert [name for name, config in presets.items() if faults(config)] == []
    assert [change for change in (*named, own) if faults(kuhn | change)] == []
    assert faults(kuhn | {"method": {"type": "population", "training_mode": {"type": "mixed", "leader": "player_0"}}})


@pytest.mark.parametrize(
    "wrong", [{"num_steps": "two"}, {"overrides": "seed=1"}, {"from_stage": "play", "step": 0}, {"step": -1}]
)
def test_a_value_of_another_type_is_refused_by_name(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ParameterTypeError, match=next(iter(wrong))):
        train.validate_parameters({"config": config_in(tmp_path), **wrong})


@pytest.mark.parametrize(
    ("states", "is_cancelled"),
    [
        ([Running(), Crashed(), RESUMED, Pending(), Running()], False),
        ([Running(), Cancelling(), Crashed(), RESUMED, Pending(), Running()], True),
        ([Running(), Cancelling(), Crashed(), AwaitingRetry(), Pending(), Running()], False),
        ([Running(), Cancelling(), Crashed(), RESUMED, AwaitingRetry(), Running()], False),
        ([Running(), Cancelling(), Crashed(), AwaitingRetry(), Running(), Crashed(), RESUMED, Running()], False),
    ],
    ids=["crashed", "cancelled", "retried by hand", "retried while it waits", "retried, then crashed"],
)
def test_only_a_cancelled_run_that_came_back_by_itself_is_ended(states: list[Any], is_cancelled: bool) -> None:
    assert is_cancelled_resumption(states) is is_cancelled


class Trained:
    """Stands where a session is opened and trained in; keeps the runs."""

    def __init__(self, store: LocalArtifactStore) -> None:
        self.store = store
        self.runs: list[Run] = []
        self.waited: list[str] = []

    @contextmanager
    def session(self, run: Run) -> Iterator[Any]:
        yield SimpleNamespace(run=run, config=run.config, store=self.store)

    def train(self, session: Any, began_at_seconds: float) -> dict[str, Any]:
        self.runs.append(session.run)
        return {}


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    store_run(tmp_path, "r")
    found = Trained(LocalArtifactStore(tmp_path))
    monkeypatch.setattr(module, "open_checked_session", found.session)
    monkeypatch.setattr(module, "train_in_session", found.train)
    monkeypatch.setattr(module, "wait_for_earlier_start", lambda home, flow_run_id: found.waited.append(flow_run_id))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_a_flow_run_restarts_once_and_does_not_come_back_once_cancelled(trained: Trained, tmp_path: Path) -> None:
    parameters: dict[str, Any] = {
        "config": config_in(tmp_path), "run_id": "r", "num_steps": 4, "overrides": ["rollout.group_size=2"],
        "from_stage": "update_policy", "step": 1,
    }  # fmt: skip

    def start(*states: Any) -> Any:
        for state in states:
            client.set_flow_run_state(flow_run.id, state, force=True)
        return run_flow(train, flow_run=client.read_flow_run(flow_run.id), parameters=parameters, return_type="state")

    with get_client(sync_client=True) as client:
        flow_run = client.create_flow_run(train, parameters=train.serialize_parameters(parameters), state=Pending())
        assert start().is_completed()
        assert start(Crashed(), RESUMED, Pending()).is_completed()
        assert trained.waited == [str(flow_run.id)] * 2
        assert client.read_flow_run(flow_run.id).name == "r"
        (lineage,) = read_lineages(trained.store, "r")
        assert (lineage.from_stage, lineage.from_step, lineage.requested_by) == ("update_policy", 1, str(flow_run.id))
        assert [(run.config.num_steps, run.config.rollout.group_size) for run in trained.runs] == [(4, 2)] * 2
        assert start(Running(), Cancelling(), Crashed(), RESUMED, Pending()).is_cancelled()
        assert len(trained.runs) == 2
        assert start(AwaitingRetry(), Pending()).is_completed(), "a Retry by hand is a wish of its own"
