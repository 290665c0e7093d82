"""Dynamic sampling: what is replaced, by what, and the same whether interrupted or not."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.learning_signal import has_signal
from components.artifacts.local import LocalArtifactStore
from components.config import RunConfig
from components.errors import TooManyFailedEpisodes
from components.rollout.dynamic_sampling import FIRST_REFILL, Refilling, fresh_problems
from components.rollout.journal import Journal
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import NumberedProblem, shard_problems
from components.schema import Episode, Refills, RolloutShard
from tests.components.rollout.toy_team import RUBRIC, RecordingGenerator, ToyFamily, ToyOptions, toy_router
from tests.sections import choose_algorithm, make_config

FAMILY = ToyFamily(2)
OPTIONS = ToyOptions(done_rate=0.0)
NUM_PROBLEMS = 7


class Killed(BaseException):
    """Stands for the end of the process."""


def config(mode: str = "tree", **rollout: Any) -> RunConfig:
    values = {"num_problems": NUM_PROBLEMS, "problems_per_block": 2, "group_size": 2, "max_resamples": 3, **rollout}
    algorithm = {"advantage": "at_grpo" if mode == "tree" else "grpo"}
    return make_config(
        "toy", "agent0", "agent1", seed=11, num_steps=9, rollout={"mode": mode, **values}, algorithm=algorithm
    )


def plan(run: RunConfig, *, step: int = 3, shard: int = 0) -> ShardPlan:
    return ShardPlan(
        step=step,
        shard=shard,
        seed=run.seed,
        max_turns=1,
        settings=run.rollout,
        problems=shard_problems(run, FAMILY, OPTIONS, step=step, shard=shard),
    )


def chance_of(episodes: Sequence[Episode], *, silent: float) -> bool:
    """A signal that depends on the problem alone."""
    return int(episodes[0].problem.problem_id[-6:], 16) / 16**6 >= silent


def collect(
    run: RunConfig,
    engine: Any = None,
    *,
    signal: Callable[[Sequence[Episode]], bool] | None = None,
    step: int = 3,
    shard: int = 0,
    **options: Any,
) -> RolloutShard:
    refilling = Refilling(
        fresh=fresh_problems(run, FAMILY, OPTIONS, step=step, shard=shard),
        has_signal=signal or partial(has_signal, algorithm=run.algorithm),
    )
    return collect_shard(
        plan(run, step=step, shard=shard),
        family=FAMILY,
        router=toy_router(FAMILY, engine),
        rubric=RUBRIC,
        refilling=refilling,
        **options,
    )


def by_problem(shard: RolloutShard, each: int = 1) -> list[tuple[Episode, ...]]:
    return [shard.episodes[at : at + each] for at in range(0, len(shard.episodes), each)]


def alone(run: RunConfig, number: int, place: int, *, step: int = 3, shard: int = 0) -> tuple[Episode, ...]:
    """What a problem plays when it is all that there is: the problem of a place after `number` replacements."""
    numbered = (
        plan(run, step=step, shard=shard).problems[place]
        if number == 0
        else fresh_problems(run, FAMILY, OPTIONS, step=step, shard=shard)(number, place)
    )
    settings = run.rollout.model_copy(update={"max_resamples": 0, "num_problems": 1})
    single = replace(plan(run, step=step, shard=shard), problems=(numbered,), settings=settings)
    return collect_shard(single, family=FAMILY, router=toy_router(FAMILY), rubric=RUBRIC).episodes


@pytest.mark.parametrize("mode", ["tree", "independent"])
@pytest.mark.parametrize("silent", [0.0, 0.4, 0.8, 1.0])
def test_a_shard_is_what_replacing_each_place_alone_gives(mode: str, silent: float) -> None:
    run = config(mode)
    signal = partial(chance_of, silent=silent)
    wanted, counted = [], Refills()
    for place in range(NUM_PROBLEMS):
        number, played = 0, alone(run, 0, place)
        while not signal(played) and number < 3:
            counted = replace(
                counted,
                num_problems=counted.num_problems + 1,
                num_episodes=counted.num_episodes + len(played),
                num_successes=counted.num_successes + sum(e.success for e in played),
                num_candidates=counted.num_candidates + sum(len(t.candidates) for e in played for t in e.nodes),
                num_generated_tokens=counted.num_generated_tokens + sum(e.num_generated_tokens for e in played),
            )
            number += 1
            played = alone(run, number, place)
        counted = replace(counted, num_silent=counted.num_silent + (not signal(played)))
        wanted.append(played)
    found = collect(run, signal=signal)
    assert by_problem(found, 1 if mode == "tree" else 2) == wanted
    assert found.refills == counted
    assert silent in (0.0, 1.0) or 0 < counted.num_problems < 3 * NUM_PROBLEMS


def test_real_rewards_decide_what_is_replaced() -> None:
    assert collect(config()).refills == Refills()
    flat = replace(RUBRIC, weights=dict.fromkeys(RUBRIC.weights, 0.0))
    run = config()
    refilling = Refilling(
        fresh=fresh_problems(run, FAMILY, OPTIONS, step=3, shard=0),
        has_signal=partial(has_signal, algorithm=choose_algorithm()),
    )
    silent = collect_shard(plan(run), family=FAMILY, router=toy_router(FAMILY), rubric=flat, refilling=refilling)
    assert silent.refills is not None
    assert silent.refills.num_silent == NUM_PROBLEMS


def test_without_refills_nothing_is_replaced_and_nothing_is_said() -> None:
    assert collect(config(max_resamples=0), signal=lambda _: False).refills is None


@pytest.mark.parametrize("mode", ["tree", "independent"])
def test_what_is_sampled_depends_on_neither_blocks_nor_shards(mode: str) -> None:
    signal = partial(chance_of, silent=0.7)
    whole = collect(config(mode, problems_per_block=7), signal=signal)
    assert collect(config(mode, problems_per_block=3), signal=signal) == whole
    parts = [collect(config(mode, num_shards=3), signal=signal, shard=shard) for shard in range(3)]
    assert tuple(episode for part in parts for episode in part.episodes) == whole.episodes


def test_fresh_problems_are_new_in_the_run_and_numbered_apart_from_all_of_their_step() -> None:
    run = config(num_shards=2)
    few = ToyOptions(num_names=4)
    asked: list[int] = []

    class Spying(ToyFamily):
        def problem(self, options: Any, *, split: str, index: int, seed: int) -> Any:
            asked.append(index)
            return super().problem(options, split=split, index=index, seed=seed)

    drawn: dict[int, list[NumberedProblem]] = {}
    for step in range(4):
        drawn[step] = []
        for shard in range(2):
            fresh = fresh_problems(run, Spying(2), few, step=step, shard=shard)
            places = range(len(shard_problems(run, FAMILY, few, step=step, shard=shard)))
            drawn[step] += [fresh(number, place) for number in (1, 2, 3) for place in places]
            drawn[step] += shard_problems(run, FAMILY, few, step=step, shard=shard)
    assert len(asked) == len(set(asked)) == 4 * 3 * NUM_PROBLEMS
    assert min(asked) >= FIRST_REFILL
    for problems in drawn.values():
        numbers = [(each.problem.problem_id, each.occurrence) for each in problems]
        assert len(set(numbers)) == len(numbers) == 4 * NUM_PROBLEMS


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 30), st.sampled_from(["tree", "independent"]))
def test_a_shard_killed_anywhere_resumes_to_the_same_shard_and_plays_no_finished_block_again(
    tmp_path_factory: pytest.TempPathFactory, calls_before_death: int, mode: str
) -> None:
    run, signal = config(mode), partial(chance_of, silent=0.7)
    whole_engine, dying, resumed = RecordingGenerator(), RecordingGenerator(), RecordingGenerator()
    whole = collect(run, whole_engine, signal=signal)
    calls_before_death %= len(whole_engine.calls)

    def die(requests: Any, version: Any) -> Any:
        if len(dying.calls) == calls_before_death:
            raise Killed
        return RecordingGenerator.generate(dying, requests, version)

    dying.generate = die  # type: ignore[method-assign]
    store = LocalArtifactStore(tmp_path_factory.mktemp("store"))
    with pytest.raises(Killed):
        collect(run, dying, signal=signal, journal=Journal(store, "runs/r/attempt"))
    again = collect(run, resumed, signal=signal, journal=Journal(store, "runs/r/attempt"))
    assert again == whole
    calls_a_block = 2  # one turn of two agents
    finished = calls_before_death // calls_a_block * calls_a_block
    assert resumed.calls == whole_engine.calls[finished:]


def test_even_one_block_is_journalled_when_more_may_follow(tmp_path: Any) -> None:
    store = LocalArtifactStore(tmp_path)
    run = config(problems_per_block=7)
    collect(run, signal=lambda _: False, journal=Journal(store, "runs/r/attempt"))
    blocks = [key for key in store.list("runs/") if "/blocks/" in key]
    assert len(blocks) == 4


def test_progress_counts_what_is_replaced() -> None:
    told: list[tuple[int, int]] = []
    collect(
        config(max_resamples=1, problems_per_block=4),
        signal=lambda _: False,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(0, 7), (4, 7), (7, 7), (11, 14), (14, 14)]


def test_failures_of_replaced_episodes_count_against_the_budget() -> None:
    failing = ToyOptions(done_rate=0.0, failure_rate=0.9)
    run = config(max_failed_fraction=0.3)

    refilling = Refilling(fresh=fresh_problems(run, FAMILY, failing, step=3, shard=0), has_signal=lambda _: False)
    with pytest.raises(TooManyFailedEpisodes, match="of 14 episodes failed"):
        collect_shard(plan(run), family=FAMILY, router=toy_router(FAMILY), rubric=RUBRIC, refilling=refilling)
