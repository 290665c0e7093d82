"""With which weights the shards of a step are played, where, when, and how many at a time."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from components.config import ResourceConfig
from flows import shards
from tests.recorded_calls import Call, RecordedCalls, call

BEFORE: Any = {"team": "checkpoint 41"}
CHECKPOINTS: Any = {"team": "checkpoint 42"}


class Shards:
    """A task whose calls are noted, with the kind of task that was asked."""

    def __init__(self, calls: list[Any], kind: str = "task") -> None:
        self._calls, self._kind = calls, kind

    def __call__(self, *arguments: Any) -> str:
        self._calls.append((self._kind, arguments))
        return f"result {arguments}"

    def for_threads(self) -> "Shards":
        return Shards(self._calls, "task for threads")

    def submit(self, *arguments: Any, wait_for: list["Future"]) -> "Future":
        self._calls.append((f"{self._kind}, submitted", arguments, [each.arguments for each in wait_for]))
        return Future(arguments)


class Future:
    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments

    def result(self) -> str:
        return f"result {self.arguments}"


def session_of(overlap: str = "one_step", *, num_steps: int = 8) -> Any:
    rollout = SimpleNamespace(overlap=overlap, num_shards=3)
    config = SimpleNamespace(rollout=rollout, num_steps=num_steps, resources="the resources")
    return SimpleNamespace(store="the store", run="the run", config=config)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> RecordedCalls:
    """Stand-ins for all that plays."""
    made = RecordedCalls()
    answers: dict[str, Any] = {"checkpoints_before": BEFORE, "submit_all": ["a future"], "run_all": ["a reference"]}
    for name, answer in {**answers, "wait": None}.items():
        monkeypatch.setattr(shards, name, made.function(getattr(shards, name), answer, name=name))
    refresh = made.function(shards.refresh_weights.fn, "the versions", name="refresh_weights")
    monkeypatch.setattr(shards, "refresh_weights", refresh)
    return made


@pytest.mark.parametrize(("overlap", "step"), [("none", 5), ("none", 0), ("one_step", 0)])
def test_a_step_is_played_by_the_weights_it_starts_from(calls: RecordedCalls, overlap: str, step: int) -> None:
    assert shards.sampling_checkpoints(session_of(overlap), step, CHECKPOINTS) is CHECKPOINTS
    assert calls == []


@pytest.mark.parametrize("step", [1, 5])
def test_with_overlap_a_step_is_played_by_the_weights_before_the_last_update(calls: RecordedCalls, step: int) -> None:
    assert shards.sampling_checkpoints(session_of(), step, CHECKPOINTS) is BEFORE
    assert calls == [call("checkpoints_before", store="the store", run="the run", step=step - 1)]


def test_all_shards_of_a_step_are_played_with_its_weights(calls: RecordedCalls) -> None:
    session = session_of()
    assert shards.collect_all(session, 5, CHECKPOINTS) == ["a reference"]
    played = [(session, 5, shard, "the versions") for shard in range(3)]
    assert calls == [
        make_refresh_call(session, 5),
        call("run_all", task=shards.collect_rollouts, calls=played, resources="the resources"),
    ]


def test_each_shard_is_scored_by_its_own_number(calls: RecordedCalls) -> None:
    session, refs = session_of(), ("first", "second")
    assert shards.score_all(session, 5, refs) == ["a reference"]  # type: ignore[arg-type]
    scored = [(session, 5, 0, "first"), (session, 5, 1, "second")]
    assert calls == [call("run_all", task=shards.compute_rewards, calls=scored, resources="the resources")]


@pytest.mark.parametrize(("overlap", "step"), [("none", 5), ("one_step", 7), ("one_step", 9)])
def test_nothing_is_played_ahead_without_overlap_or_a_next_step(calls: RecordedCalls, overlap: str, step: int) -> None:
    with shards.prefetch_rollouts(session_of(overlap), step, CHECKPOINTS):
        calls.append(WORK)
    assert calls == [WORK]


WORK: Call = call("the update")
WAIT: Call = call("wait", futures=["a future"])


def make_refresh_call(session: Any, step: int) -> Call:
    return call("refresh_weights", session=session, step=step, checkpoints=CHECKPOINTS)


@pytest.mark.parametrize(
    ("error", "ending"), [(None, [WAIT]), (ValueError("wrong"), [WAIT]), (KeyboardInterrupt(), [])], ids=repr
)
@pytest.mark.parametrize("step", [0, 6])
def test_the_next_step_is_played_during_the_block_whose_end_waits_unless_interrupted(
    calls: RecordedCalls, step: int, error: BaseException | None, ending: list[Call]
) -> None:
    session, caught = session_of(), None
    try:
        with shards.prefetch_rollouts(session, step, CHECKPOINTS):
            calls.append(WORK)
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt) as raised:
        caught = raised
    assert caught is error
    ahead = [(session, step + 1, shard, "the versions") for shard in range(3)]
    submitted = {"task": shards.collect_rollouts, "calls": ahead, "resources": "the resources"}
    assert calls == [make_refresh_call(session, step + 1), ("submit_all", submitted), WORK, *ending]


GIVEN = [(11,), (12,), (13,), (14,), (15,)]
RESULTS = [f"result {each}" for each in GIVEN]


def test_one_shard_at_a_time_is_computed_here() -> None:
    calls: list[Any] = []
    resources = ResourceConfig(runner="thread", max_shards_at_once=1)
    assert shards.run_all(Shards(calls), GIVEN, resources) == RESULTS
    assert calls == [("task", each) for each in GIVEN]


@pytest.mark.parametrize(
    ("runner", "at_once", "kind"),
    [
        ("thread", 2, "task for threads, submitted"),
        ("ray", 1, "task, submitted"),
        ("ray", 3, "task, submitted"),
        ("ray", 6, "task, submitted"),
    ],
)
def test_a_shard_waits_for_the_one_so_many_places_ahead(
    runner: Any, at_once: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster is asked for what the calls' session needs."""
    calls: list[Any] = []
    asked: list[Any] = []
    monkeypatch.setattr(shards, "ask_cluster", lambda session: nullcontext(asked.append(session)))
    resources = ResourceConfig(runner=runner, max_shards_at_once=at_once)
    assert shards.run_all(Shards(calls), GIVEN, resources) == RESULTS
    ahead = [[]] * min(at_once, len(GIVEN)) + [[each] for each in GIVEN[: max(0, len(GIVEN) - at_once)]]
    assert calls == [(kind, each, waits) for each, waits in zip(GIVEN, ahead, strict=True)]
    assert asked == ([11] if runner == "ray" else [])
