"""Rewards of an environment that runs programs: recorded executions are reused, and a failing sandbox is never a 0."""

from dataclasses import replace
from typing import Any

import pytest

from components.algorithms.at_grpo import at_grpo_advantages
from components.artifacts import codec
from components.config import RolloutConfig
from components.environments.base import Step, Tools
from components.errors import TooManyFailedEpisodes, TooManyUnscorable
from components.rewards.base import Rubric
from components.rewards.own_rewards import CustomReward
from components.rewards.score import score_shard
from components.rollout.sampler import ShardPlan, collect_shard
from components.schema import Execution, ExecutionResult, Limits, RolloutShard, ToolRecord
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from tests.components.rollout.toy_team import RUBRIC, Toy, ToyFamily, ToyState, toy_problems, toy_router
from tests.components.sandbox.scripted import ScriptedSandbox, make_printed, sandbox_failed
from tests.sections import choose_algorithm


class Programs(Toy):
    """A toy whose every answer is run, and whose quality is what its program printed."""

    def tool_calls(self, state: ToyState, agent: str, answer: str) -> list[Execution]:
        return [Execution(program=answer, stdin=state.laws.text(state.history, agent))]

    def step(self, state: ToyState, agent: str, answer: str, tools: Tools) -> Step:
        (execution,) = self.tool_calls(state, agent, answer)
        ended = tools.run(execution)
        return replace(super().step(state, agent, answer, tools), team={"quality": float(ended.stdout)})


FAMILY = ToyFamily(2, Programs)


def length(program: str, stdin: str) -> ExecutionResult:
    return make_printed(str(len(program)))


def ledger(sandbox: ScriptedSandbox, known: ToolRecord | None = None) -> ExecutionLedger:
    return ExecutionLedger(ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=Limits()), known=known)


def play(sandbox: ScriptedSandbox, max_failed_fraction: float = 1.0, **changes: Any) -> RolloutShard:
    settings = RolloutConfig(
        num_problems=6, group_size=4, problems_per_block=4, max_failed_fraction=max_failed_fraction, **changes
    )
    plan = ShardPlan(step=2, shard=1, seed=5, max_turns=3, settings=settings, problems=toy_problems(FAMILY, 6))
    return collect_shard(plan, family=FAMILY, router=toy_router(FAMILY), rubric=RUBRIC, tools=ledger(sandbox))


def list_rewards(shard: RolloutShard) -> tuple[Any, ...]:
    return tuple(
        tuple(tuple(candidate.reward for candidate in node.candidates) for node in episode.nodes)
        for episode in shard.episodes
    )


def test_the_reward_stage_runs_nothing_that_the_rollout_ran() -> None:
    sandbox = ScriptedSandbox(length)
    shard = play(sandbox)
    assert len(shard.tools.executions) == len(sandbox.asked) > 90
    assert set(sandbox.asked.values()) == {1}
    stored = codec.decode(codec.encode(shard), RolloutShard)
    idle = ScriptedSandbox(length)
    tools = ledger(idle, stored.tools)
    assert score_shard(stored, family=FAMILY, rubric=RUBRIC, tools=tools).rewards_E_N_K == list_rewards(shard)
    stricter = Rubric(team_weight=1.0, weights={**RUBRIC.weights, "team.quality": 3.0, "local.style": 0.0})
    assert score_shard(stored, family=FAMILY, rubric=stricter, tools=tools).rewards_E_N_K != list_rewards(shard)
    assert idle.asked == {}


def test_an_audit_runs_every_program_again_and_comes_to_the_same_rewards() -> None:
    shard, sandbox = play(ScriptedSandbox(length)), ScriptedSandbox(length)
    assert score_shard(shard, family=FAMILY, rubric=RUBRIC, tools=ledger(sandbox)).rewards_E_N_K == list_rewards(shard)
    assert len(sandbox.asked) == len(shard.tools.executions)


def failing(program: str, stdin: str) -> ExecutionResult:
    return sandbox_failed("box gone") if program.startswith("3") else length(program, stdin)


def test_a_candidate_at_which_the_sandbox_failed_has_no_reward_and_is_never_handed_on() -> None:
    shard = play(ScriptedSandbox(failing))
    scored = score_shard(
        shard,
        family=FAMILY,
        rubric=RUBRIC,
        tools=ledger(ScriptedSandbox(failing), shard.tools),
        max_unscorable_fraction=0.5,
    )
    unscorable = 0
    for episode, rewards_N_K in zip(shard.episodes, scored.rewards_E_N_K, strict=True):
        assert episode.error is None
        for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True):
            assert [reward is None for reward in rewards_K] == [c.text.startswith("3") for c in node.candidates]
            assert node.candidates[node.chosen].outcome.unscorable is None
            unscorable += sum(reward is None for reward in rewards_K)
    assert unscorable > 3
    advantages_E_N_K = at_grpo_advantages(shard.episodes, scored.rewards_E_N_K, choose_algorithm())
    for rewards_N_K, advantages_N_K in zip(scored.rewards_E_N_K, advantages_E_N_K, strict=True):
        for rewards_K, advantages_K in zip(rewards_N_K, advantages_N_K, strict=True):
            known_K = [advantage for advantage in advantages_K if advantage is not None]
            assert sum(known_K) == pytest.approx(0.0, abs=1e-9), "the group's baseline leaves it out"
            assert [a is None for a in advantages_K] == [r is None for r in rewards_K]


def test_own_functions_give_no_reward_to_what_cannot_be_scored() -> None:
    shard, tools = play(ScriptedSandbox(failing)), ledger(ScriptedSandbox(failing))
    bonus = CustomReward(
        component="own.one", name="here:one", function=lambda episode, node: [1.0] * len(node.candidates), weight=1.0
    )
    scored = score_shard(
        shard, family=FAMILY, rubric=RUBRIC, tools=tools, own=(bonus,), max_unscorable_fraction=0.5
    ).rewards_E_N_K
    for episode, rewards_N_K in zip(shard.episodes, scored, strict=True):
        for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True):
            assert list(rewards_K) == [None if c.outcome.unscorable else c.reward + 1.0 for c in node.candidates]


def test_a_sandbox_that_works_again_scores_what_could_not_be_scored() -> None:
    shard = play(ScriptedSandbox(failing))
    mended = ScriptedSandbox(length)
    scored = score_shard(shard, family=FAMILY, rubric=RUBRIC, tools=ledger(mended, shard.tools))
    assert None not in [r for n in scored.rewards_E_N_K for k in n for r in k]
    assert all(program.startswith("3") for program, _ in mended.asked)


def test_too_many_without_a_reward_raise_and_name_the_limit() -> None:
    shard = play(ScriptedSandbox(failing))
    with pytest.raises(TooManyUnscorable, match=r"rewards\.max_failed_fraction allows 0\.05"):
        score_shard(
            shard,
            family=FAMILY,
            rubric=RUBRIC,
            tools=ledger(ScriptedSandbox(failing), shard.tools),
            max_unscorable_fraction=0.05,
        )


def test_a_random_handoff_never_picks_a_candidate_that_cannot_be_scored() -> None:
    shard = play(ScriptedSandbox(failing), 0.0, random_handoff_probability=1.0)
    nodes = [node for episode in shard.episodes for node in episode.nodes]
    assert any(candidate.outcome.unscorable for node in nodes for candidate in node.candidates)
    assert any(node.chosen_randomly for node in nodes)
    assert all(node.candidates[node.chosen].outcome.unscorable is None for node in nodes)


def test_an_episode_of_which_no_candidate_can_be_scored_fails_as_data_within_the_budget() -> None:
    def nothing(program: str, stdin: str) -> ExecutionResult:
        return sandbox_failed("box gone")

    shard = play(ScriptedSandbox(nothing))
    assert all("no candidate could be scored: box gone" in str(episode.error) for episode in shard.episodes)
    with pytest.raises(TooManyFailedEpisodes):
        play(ScriptedSandbox(nothing), max_failed_fraction=0.5)


def test_programs_that_end_differently_when_run_again_have_no_reward() -> None:
    shard = play(ScriptedSandbox(length))

    def moody(program: str, stdin: str) -> ExecutionResult:
        return make_printed("99") if program.startswith("3") else length(program, stdin)

    scored = score_shard(
        shard, family=FAMILY, rubric=RUBRIC, tools=ledger(ScriptedSandbox(moody)), max_unscorable_fraction=1.0
    )
    missing = [r is None for n in scored.rewards_E_N_K for k in n for r in k]
    assert 0 < sum(missing) < len(missing)
