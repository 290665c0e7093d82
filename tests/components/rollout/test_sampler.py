"""A shard, whichever way it is sampled, interrupted and resumed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.artifacts.local import LocalArtifactStore
from components.environments.base import Step, Tools
from components.errors import ConfigurationError, ExecutionFailed, TooManyFailedEpisodes
from components.reporting import progress_share
from components.reporting.progress_share import report_share
from components.rollout.journal import Journal
from components.rollout.router import RoleBinding, Router
from components.rollout.sampler import ShardPlan, collect_shard
from components.schema import ApiUsage, PolicyVersion, RolloutShard
from tests.components.rollout.toy_team import (
    RUBRIC,
    VERSION,
    PaidGenerator,
    RecordingGenerator,
    Toy,
    ToyFamily,
    ToyState,
    toy_plan,
    toy_problems,
    toy_router,
)

FAMILY = ToyFamily(2)


class Killed(BaseException):
    """Stands for the end of the process."""


def plan(num_problems: int = 6, per_block: int = 2, **rollout: Any) -> ShardPlan:
    laws = {name: rollout.pop(name) for name in ("failure_rate", "done_rate") if name in rollout}
    settings = {"problems_per_block": per_block, "group_size": 3, **rollout}
    return toy_plan(FAMILY, num_problems, laws, {"step": 3, "seed": 11}, **settings)


def collect(shard_plan: ShardPlan, engine: Any = None, **options: Any) -> RolloutShard:
    return collect_shard(shard_plan, family=FAMILY, router=toy_router(FAMILY, engine), rubric=RUBRIC, **options)


def test_tree_has_one_episode_a_problem_and_all_candidates_at_every_node() -> None:
    shard = collect(plan(done_rate=0.0))
    assert [episode.episode for episode in shard.episodes] == [0] * 6
    assert {len(node.candidates) for episode in shard.episodes for node in episode.nodes} == {3}
    assert {len(episode.nodes) for episode in shard.episodes} == {4}


def test_independent_has_group_size_whole_episodes_a_problem() -> None:
    shard = collect(plan(mode="independent", done_rate=0.0))
    assert [episode.episode for episode in shard.episodes] == [0, 1, 2] * 6
    assert {len(node.candidates) for episode in shard.episodes for node in episode.nodes} == {1}
    keys = [node.group for episode in shard.episodes for node in episode.nodes]
    assert len(set(keys)) == len(keys) == 6 * 3 * 4
    first = [episode.nodes[0].candidates[0].text for episode in shard.episodes[:3]]
    assert len(set(first)) > 1, "the episodes of a problem are copies of each other"


def test_single_lets_the_last_agent_play_alone() -> None:
    shard = collect(plan(mode="single", done_rate=0.0))
    assert {node.group.agent for episode in shard.episodes for node in episode.nodes} == {"agent1"}
    assert {len(episode.nodes) for episode in shard.episodes} == {2}


def test_only_policies_that_played_are_named() -> None:
    large = PolicyVersion(policy="large", step=1, weights_digest="x")
    seats = {
        "agent0": RoleBinding(policy="p", prompt_format="compact", max_new_tokens=8),
        "agent1": RoleBinding(policy="large", prompt_format="compact", max_new_tokens=8),
    }
    engines = {"p": RecordingGenerator(), "large": RecordingGenerator(large)}
    router = Router(engines, seats=seats, versions={"p": VERSION, "large": large})
    team = collect_shard(plan(), family=FAMILY, router=router, rubric=RUBRIC)
    assert team.policy_versions == {"p": VERSION, "large": large}
    assert {(n.group.agent, n.policy) for e in team.episodes for n in e.nodes} == {("agent0", "p"), ("agent1", "large")}
    alone = collect_shard(plan(mode="single"), family=FAMILY, router=router, rubric=RUBRIC)
    assert alone.policy_versions == {"large": large}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 4), st.sampled_from(["tree", "independent"]))
def test_a_shard_killed_in_any_block_resumes_to_the_same_shard_and_replays_nothing(
    tmp_path_factory: pytest.TempPathFactory, blocks_before_death: int, mode: str
) -> None:
    store = LocalArtifactStore(tmp_path_factory.mktemp("store"))
    shard_plan = plan(num_problems=9, mode=mode, done_rate=0.0)
    whole_engine, dying, resumed = RecordingGenerator(), RecordingGenerator(), RecordingGenerator()
    whole = collect(shard_plan, whole_engine)
    calls_a_block = len(whole_engine.calls) // 5

    def die(requests: Any, version: Any) -> Any:
        if len(dying.calls) == blocks_before_death * calls_a_block + 1:
            raise Killed
        return RecordingGenerator.generate(dying, requests, version)

    dying.generate = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        collect(shard_plan, dying, journal=Journal(store, "runs/r/attempt"))
    again = collect(shard_plan, resumed, journal=Journal(store, "runs/r/attempt"))
    assert again == whole
    assert resumed.calls == whole_engine.calls[blocks_before_death * calls_a_block :]


def test_what_an_api_was_used_for_is_told_once_however_often_the_shard_was_interrupted(tmp_path: Path) -> None:
    journal = Journal(LocalArtifactStore(tmp_path), "runs/r/attempt")
    whole, again = PaidGenerator(), PaidGenerator()
    first = collect(plan(), whole, journal=journal)
    assert first.api_usage == {"p": ApiUsage(num_requests=len(whole.calls), cost=float(len(whole.calls)))}
    assert collect(plan(), again, journal=journal) == first
    assert again.calls == []
    assert collect(plan()).api_usage == {}


def test_a_shard_of_one_block_leaves_no_journal(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    collect(plan(per_block=6), journal=Journal(store, "runs/r/attempt"))
    assert list(store.list("")) == []


def failing_plan(allowed: float, num_failing: int) -> ShardPlan:
    chosen = plan(num_problems=8, max_failed_fraction=allowed, done_rate=0.0)
    broken = {**chosen.problems[0].problem.payload, "fails_at": 2}
    problems = tuple(
        replace(each, problem=replace(each.problem, payload={**each.problem.payload, **broken}))
        if index < num_failing
        else each
        for index, each in enumerate(chosen.problems)
    )
    return replace(chosen, problems=problems)


def test_failures_within_the_budget_are_data() -> None:
    shard = collect(failing_plan(0.25, 2))
    assert [episode.error is None for episode in shard.episodes] == [False, False, *[True] * 6]
    assert [len(episode.nodes) for episode in shard.episodes[:2]] == [1, 1]


def test_failures_above_the_budget_raise_with_their_reasons_and_leave_the_block_to_be_played_again(
    tmp_path: Path,
) -> None:
    store, engine = LocalArtifactStore(tmp_path), RecordingGenerator()
    with pytest.raises(TooManyFailedEpisodes, match=r"3 of 8 episodes failed.*0\.25.*RuntimeError: broke on"):
        collect(failing_plan(0.25, 3), engine, journal=Journal(store, "runs/r/attempt"))
    assert len(engine.calls) == 2 + 4
    assert list(store.list("runs/")) == ["runs/r/attempt/blocks/000000.json"]
    with pytest.raises(TooManyFailedEpisodes):
        collect(failing_plan(0.0, 1))


def test_a_role_that_nobody_plays_is_refused_before_any_play() -> None:
    router = toy_router(ToyFamily(1))
    family = ToyFamily(2)
    with pytest.raises(ConfigurationError, match=r"agents\.agent1: the environment has this role"):
        collect_shard(plan(), family=family, router=router, rubric=RUBRIC)
    assert family.environment.num_started == 0


class NoSandbox(ToyFamily):
    """The programs of some problems cannot be run."""

    def __init__(self, num_ended: int) -> None:
        problems = [each.problem for each in toy_problems(FAMILY, num_ended, done_rate=0.0)]
        self.ended = {problem.problem_id for problem in problems}
        names = {problem.payload["name"] for problem in problems}

        class Boxless(Toy):
            def step(self, state: ToyState, agent: str, answer: str, tools: Tools) -> Step:
                if state.laws.payload["name"] in names:
                    raise ExecutionFailed("no box")
                return super().step(state, agent, answer, tools)

        super().__init__(2, Boxless)


@pytest.mark.parametrize("rollout", [{}, {"mode": "nested", "branching": (2, 2)}], ids=["tree", "nested"])
def test_episodes_that_the_sandbox_ended_have_a_budget_of_their_own(rollout: dict[str, Any]) -> None:
    whole = replace(plan(num_problems=8, done_rate=0.0, **rollout), max_unscorable_fraction=0.25)

    def collect_ended(num_ended: int, allowed: ShardPlan = whole) -> RolloutShard:
        family = NoSandbox(num_ended)
        return collect_shard(allowed, family=family, router=toy_router(family), rubric=RUBRIC)

    ended = [episode.problem.problem_id for episode in collect_ended(2).episodes if episode.error is not None]
    assert set(ended) == NoSandbox(2).ended
    with pytest.raises(TooManyFailedEpisodes, match=r"the fraction that rewards\.max_failed_fraction allows is 0\.25"):
        collect_ended(3)
    with pytest.raises(TooManyFailedEpisodes, match=r"rollout\.max_failed_fraction allows is 0\.0"):
        collect_ended(1, replace(whole, max_unscorable_fraction=None))
    with pytest.raises(TooManyFailedEpisodes, match=r"rollout\.max_failed_fraction allows is 0\.0"):
        collect(replace(failing_plan(0.0, 1), max_unscorable_fraction=1.0))


class TellingGenerator(RecordingGenerator):
    """An engine that is half done once."""

    def generate(self, requests: Any, version: PolicyVersion) -> Any:
        report_share(0.5)
        return super().generate(requests, version)


def test_a_bar_moves_inside_a_block_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_share, "_EVERY_SECONDS", 0.0)
    heard: list[tuple[float, int]] = []
    shard = collect(plan(done_rate=0.0), TellingGenerator(), progress=lambda done, total: heard.append((done, total)))
    assert {total for _, total in heard} == {6}
    inside = [2 * (phase + 0.5) / 4 for phase in range(4)]
    assert [done for done, _ in heard] == [0, *(first + each for first in (0, 2, 4) for each in (*inside, 2))]
    assert shard == collect(plan(done_rate=0.0))
