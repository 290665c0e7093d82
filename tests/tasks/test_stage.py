"""The coat of a stage: its key, its retries, its cache, and what survives when any of them goes."""

import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, task
from prefect.settings import PREFECT_RESULTS_LOCAL_STORAGE_PATH

from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef
from components.errors import ConfigurationError, PrefectUnavailable, StoreGone, StoreUnavailable
from components.machine.outages import interruptible
from components.metrics import seconds
from components.reporting import progress
from components.runs.run import Run, stage_key
from components.runs.stage_protocol import run_stage
from components.schema import ScoredShard
from components.session.session import Session
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tasks.collect_rollouts import collect_rollouts
from tasks.compute_rewards import compute_rewards
from tasks.stage import current_key, effect, is_transient
from tasks.stage import stage as staged

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect")]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Run(run_id="r7", config=local_config(tmp_path)))


def local_config(root: Path, *overrides: str) -> Any:
    return preset_config("tiny", ["store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none", *overrides])


def make_counting_stage(calls: list[int], fail: Callable[[int], None] = lambda call: None, **options: Any) -> Any:
    """A stage that notes each call and may fail."""

    @staged("compute_rewards", version=1, **options)
    def scored(session: Session, step: int, part: int, scale: float = 1.0) -> ArtifactRef:
        calls.append(step)
        fail(len(calls))
        assert current_key().step == step
        return put(session.store, ScoredShard(step=step, shard=part, rewards_E_N_K=(((scale,),),)))

    return scored


def states(stage: Any, *argument_lists: tuple[Any, ...]) -> list[str]:
    """The state names of calls made in one flow run each."""
    names = []
    for arguments in argument_lists:

        @flow(validate_parameters=False)
        def once(arguments: tuple[Any, ...]) -> str:
            return str(stage(*arguments, return_state=True).name)

        names.append(once(arguments))
    return names


def test_a_second_flow_run_finds_the_stage_cached(session: Session) -> None:
    calls: list[int] = []
    assert states(make_counting_stage(calls), (session, 0, 0), (session, 0, 0), (session, 1, 0)) == [
        "Completed",
        "Cached",
        "Completed",
    ]
    assert calls == [0, 1]


def test_a_retry_finds_what_a_rival_has_committed_meanwhile(session: Session) -> None:
    calls: list[int] = []

    def rival_is_faster(call: int) -> None:
        def scored() -> ArtifactRef:
            return put(session.store, ScoredShard(step=0, shard=0, rewards_E_N_K=(((7.0,),),)))

        run_stage(session.store, current_key(), scored, ArtifactRef)
        raise StoreUnavailable("once")

    stage = make_counting_stage(calls, rival_is_faster).with_options(retry_delay_seconds=0)
    assert states(stage, (session, 0, 0)) == ["Cached"]
    assert calls == [0]


@pytest.mark.parametrize("removed", ["store", "store/runs"])
def test_what_was_removed_from_the_store_is_computed_again(removed: str, session: Session, tmp_path: Path) -> None:
    calls: list[int] = []
    stage = make_counting_stage(calls)
    assert states(stage, (session, 0, 0)) == ["Completed"]
    shutil.rmtree(tmp_path / removed)
    assert states(stage, (session, 0, 0), (session, 0, 0)) == ["Completed", "Cached"]
    assert calls == [0, 0]


def test_prefect_stores_no_results(session: Session) -> None:
    assert states(make_counting_stage([]), (session, 0, 0), (session, 0, 0)) == ["Completed", "Cached"]
    storage = PREFECT_RESULTS_LOCAL_STORAGE_PATH.value()
    assert not [path for path in storage.rglob("*") if path.is_file()]


def test_a_cached_stage_returns_its_output_however_it_is_called(session: Session) -> None:
    stage = make_counting_stage([])

    @flow(validate_parameters=False)
    def called() -> list[Any]:
        return [
            stage(session, 0, 0),
            stage(session, 0, 0),
            stage.submit(session, 0, 0).result(),
            stage.fn(session, 0, 0),
        ]

    refs = called()
    assert refs == [refs[0]] * 4
    assert isinstance(refs[0], ArtifactRef)


def test_other_inputs_and_other_stores_are_other_work(session: Session, tmp_path: Path) -> None:
    calls: list[int] = []
    elsewhere = Session(Run(run_id="r7", config=local_config(tmp_path / "other")))
    assert (
        states(make_counting_stage(calls), (session, 0, 0), (session, 0, 0, 2.0), (elsewhere, 0, 0))
        == ["Completed"] * 3
    )
    assert calls == [0, 0, 0]


def test_a_transient_error_is_tried_again_and_a_permanent_one_is_not(session: Session) -> None:
    calls: list[int] = []

    def away_once(call: int) -> None:
        if call == 1:
            raise StoreUnavailable("away")

    assert states(make_counting_stage(calls, away_once, retries=2, delay_seconds=0.01), (session, 0, 0)) == [
        "Completed"
    ]
    assert len(calls) == 2

    refused: list[int] = []

    def refuse(call: int) -> None:
        raise ConfigurationError("wrong")

    assert states(make_counting_stage(refused, refuse, retries=2, delay_seconds=0.01), (session, 1, 0)) == ["Failed"]
    assert len(refused) == 1


class Failed:
    """A state that holds an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def result(self, raise_on_failure: bool) -> BaseException:
        return self.error


def test_which_errors_are_transient() -> None:
    def verdict(error: BaseException) -> bool:
        return is_transient(None, None, Failed(error))  # type: ignore[arg-type]

    assert all(verdict(error) for error in (StoreUnavailable(""), TimeoutError(), ConnectionResetError()))
    assert not any(verdict(error) for error in (ConfigurationError(""), ValueError(), AssertionError(), KeyError()))


def test_what_has_been_waited_for_is_not_waited_for_again() -> None:
    def verdict(error: BaseException) -> bool:
        return is_transient(None, None, Failed(error))  # type: ignore[arg-type]

    assert not verdict(StoreGone("after store.patience_seconds"))
    assert not verdict(PrefectUnavailable("after resources.prefect_patience_seconds"))
    with pytest.raises(KeyboardInterrupt), interruptible():
        raise KeyboardInterrupt
    assert not verdict(StoreUnavailable("while the process ends"))
    with interruptible():
        assert verdict(StoreUnavailable(""))


def test_the_key_depends_on_what_the_stage_depends_on(tmp_path: Path) -> None:
    def key(stage: str, *overrides: str, **inputs: Any) -> str:
        run = Run(run_id="r7", config=local_config(tmp_path, *overrides))
        return stage_key(PIPELINE[stage], run, {"step": 3, **inputs}).path

    assert key("collect_rollouts") == key("collect_rollouts", "training.learning_rate=1", "num_steps=99")
    assert key("collect_rollouts") != key("collect_rollouts", "rollout.temperature=0.5")
    assert key("update_policy") != key("update_policy", "training.learning_rate=1")
    assert key("compute_rewards", rollouts=["a"]) != key("compute_rewards", rollouts=["b"])
    assert key("warm_start").startswith("runs/_shared/")
    assert seconds("compute_rewards") == "time/compute_rewards_seconds"


def test_prefect_hands_a_session_through_as_it_is_to_flows_tasks_and_threads(session: Session) -> None:
    @task
    def same(given: Session) -> bool:
        progress.report("same", 0, 1, 1)
        return given is session

    @flow(validate_parameters=False)
    def inner(given: Session) -> list[bool]:
        return [given is session, same(given), same.submit(given).result()]

    told: list[str] = []
    with progress.subscribe(lambda heard: told.append(heard.stage)):
        assert inner(session) == [True, True, True]
    assert told == ["same", "same"], "whoever listens hears the tasks, in threads too"
    assert inner.serialize_parameters({"given": session}) == {"given": "<Session>"}


@pytest.mark.parametrize("stage", [collect_rollouts, compute_rewards])
def test_a_stage_travels_by_its_name(stage: Any) -> None:
    assert pickle.loads(pickle.dumps(stage)) is stage


def test_a_thread_is_given_no_timeout_that_could_not_end_it(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    stage = make_counting_stage([])

    def complaints(submitted: Any, step: int) -> int:
        @flow
        def in_a_thread() -> None:
            submitted.submit(session, step, 0).result()

        caplog.clear()
        in_a_thread()
        return sum("worker thread" in record.message for record in caplog.records)

    assert (complaints(stage, 0), complaints(stage.for_threads(), 1)) == (1, 0)


def make_counting_effect(calls: list[int]) -> Any:
    """A task that leaves nothing."""
    return effect("refresh_weights", retries=5, delay_seconds=2, timeout_seconds=600)(
        lambda session, step, part: calls.append(step)
    )


@pytest.mark.parametrize("make", [make_counting_stage, make_counting_effect])
def test_a_run_in_a_thread_of_the_user_gets_no_warning_about_timeouts(
    session: Session, caplog: pytest.LogCaptureFixture, make: Any
) -> None:
    calls: list[int] = []
    stage = make(calls)

    @flow
    def called() -> None:
        stage(session, 0, 0)

    thread = threading.Thread(target=called)
    thread.start()
    thread.join()
    assert calls == [0]
    assert not [record for record in caplog.records if "timeout" in record.message]
    assert stage.timeout_seconds is not None, "in the main thread it ends what hangs"


def test_an_interruption_ends_a_task_as_cancelled_and_goes_on_to_its_caller(session: Session) -> None:
    def interrupt_it(call: int) -> None:
        raise KeyboardInterrupt("by the user")

    stage = make_counting_stage([], interrupt_it)
    assert states(stage, (session, 0, 0)) == ["Cancelled"]
    with pytest.raises(KeyboardInterrupt, match="by the user"):
        flow(validate_parameters=False)(lambda: stage(session, 0, 0))()
    with pytest.raises(KeyboardInterrupt, match="by the user"):
        stage.fn(session, 0, 0)


def test_a_stage_within_a_stage_has_its_result_whether_it_is_computed_read_or_interrupted(session: Session) -> None:
    inner, interrupted = (
        make_counting_stage([]),
        make_counting_stage([], lambda call: (_ for _ in ()).throw(KeyboardInterrupt("by the user"))),
    )

    @staged("compute_advantages", version=1)
    def outer(session: Session, step: int, part: int) -> ArtifactRef:
        first, again = inner.in_lineage(session, 0, 0), inner.in_lineage(session, 0, 0)
        assert first == again
        return first if part == 0 else interrupted.in_lineage(session, 1, 0)

    assert states(outer, (session, 0, 0), (session, 0, 1)) == ["Completed", "Cancelled"]
    assert inner.in_lineage(session, 0, 0) == outer.in_lineage(session, 0, 0)
