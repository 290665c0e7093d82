"""Numbers of a step, against hand-made episodes."""

import pytest

from components.identity import GroupKey
from components.rollout.statistics import episode_metrics, keep_and_repair, last_agent_of, step_metrics
from components.schema import (
    ActionOutcome,
    ApiUsage,
    Candidate,
    Episode,
    Node,
    PolicyVersion,
    Problem,
    Refills,
    RolloutShard,
    ScoredShard,
)


def candidate(solves: bool, num_tokens: int = 2, error: str | None = None, unscorable: str | None = None) -> Candidate:
    outcome = ActionOutcome(team={}, local={}, solves=solves, done=False, error=error, unscorable=unscorable)
    return Candidate(
        tokens=(1,) * num_tokens,
        sampler_logprobs=(-1.0,) * num_tokens,
        finish_reason="stop",
        text="",
        outcome=outcome,
        reward=0.0,
    )


def node(turn: int, agent: str, solves_K: str, chosen: int = 0) -> Node:
    """`solves_K` has one letter a candidate: y solves, n does not, ! is malformed, at x the sandbox failed."""
    return Node(
        group=GroupKey(problem_id="p", episode=0, turn=turn, agent=agent),
        policy="p",
        prompt_tokens=(1,),
        candidates=tuple(
            candidate(mark == "y", error="bad" if mark == "!" else None, unscorable="died" if mark == "x" else None)
            for mark in solves_K
        ),
        chosen=chosen,
    )


def episode(*turns: Node, success: bool = False, error: str | None = None) -> Episode:
    problem = Problem(problem_id="p", environment="toy", payload={})
    return Episode(problem=problem, episode=0, nodes=turns, success=success, error=error)


def test_keep_and_repair_count_all_candidates_that_answer_the_chosen_proposal_of_their_turn() -> None:
    played = [
        episode(
            node(0, "tool", "nny", chosen=2),
            node(0, "plan", "yyn"),
            node(1, "tool", "yn", chosen=1),
            node(1, "plan", "ny"),
        ),
        episode(node(0, "plan", "yy")),
    ]
    handed = keep_and_repair(played, last_agent="plan")
    assert (handed.num_kept, handed.num_solving, handed.num_repaired, handed.num_not_solving) == (2, 3, 1, 2)
    assert handed.keep_rate == pytest.approx(2 / 3)
    assert handed.repair_rate == 0.5
    nobody = keep_and_repair([episode(node(0, "plan", "y"), node(1, "plan", "n"))], last_agent="plan")
    assert (nobody.keep_rate, nobody.repair_rate) == (None, None)


def test_candidates_at_which_the_sandbox_failed_neither_keep_nor_fail() -> None:
    played = [
        episode(node(0, "tool", "yxxx"), node(0, "plan", "yx")),
        episode(node(0, "tool", "n"), node(0, "plan", "xyn!")),
    ]
    handed = keep_and_repair(played, last_agent="plan")
    assert (handed.num_kept, handed.num_solving, handed.num_repaired, handed.num_not_solving) == (1, 1, 1, 3)
    found = episode_metrics(played)
    assert found["reward/tool/solve_rate"] == 0.5
    assert found["reward/plan/solve_rate"] == 0.5
    assert found["rollout/plan/malformed_rate"] == 0.25
    assert "reward/lost/solve_rate" not in episode_metrics([episode(node(0, "lost", "xx"))])


def test_a_group_without_rewards_has_no_deviation() -> None:
    played = (episode(node(0, "a", "yn")), episode(node(0, "a", "xx")))
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=played)
    scored = ScoredShard(step=0, shard=0, rewards_E_N_K=(((1.0, 0.0),), ((None, None),)))
    found = step_metrics([shard], [scored])
    assert found["reward/a/group_std"] == 0.5
    assert found["reward/unscorable_frac"] == 0.5


def test_the_last_agent_is_the_one_that_acts_latest_in_a_turn() -> None:
    early = episode(node(0, "a", "n"), node(0, "b", "n"))
    late = episode(node(0, "a", "n"), node(0, "b", "n"), node(0, "c", "n"), node(1, "a", "n"))
    assert last_agent_of([early, late]) == "c"
    assert last_agent_of([early]) == "b"
    assert last_agent_of([episode(node(0, "a", "n"), node(1, "a", "n"))]) is None


def test_step_metrics_name_every_agent_and_count_every_token() -> None:
    versions = {"p": PolicyVersion(policy="p", step=0, weights_digest="d")}
    played = (
        episode(node(0, "tool", "yn!n"), node(0, "plan", "yy"), success=True),
        episode(node(0, "tool", "nn"), error="broke"),
    )
    shard = RolloutShard(step=0, shard=0, policy_versions=versions, episodes=played)
    scored = ScoredShard(step=0, shard=0, rewards_E_N_K=(((1.0, 0.0, 0.0, 1.0), (2.0, None)), ((0.5, 0.5),)))
    assert step_metrics([shard], [scored]) == {
        "rollout/num_episodes": 2.0,
        "rollout/num_failed_episodes": 1.0,
        "rollout/num_candidates": 8.0,
        "rollout/num_generated_tokens": 16.0,
        "rollout/num_executions": 0.0,
        "reward/unscorable_frac": 0.125,
        "rollout/success_rate": 0.5,
        "rollout/keep_rate": 1.0,
        "reward/tool/solve_rate": pytest.approx(1 / 6),
        "reward/plan/solve_rate": 1.0,
        "rollout/tool/malformed_rate": pytest.approx(1 / 6),
        "rollout/plan/malformed_rate": 0.0,
        "rollout/tool/completion_tokens": 2.0,
        "rollout/plan/completion_tokens": 2.0,
        "reward/tool/mean": 0.5,
        "reward/tool/group_std": 0.25,
        "reward/plan/mean": 2.0,
        "reward/plan/group_std": 0.0,
    }


def test_no_episodes_are_no_error() -> None:
    assert episode_metrics([])["rollout/success_rate"] == 0.0


def test_replaced_episodes_count_in_the_budget_and_in_success() -> None:
    played = (episode(node(0, "a", "yn"), success=True), episode(node(0, "a", "nn")))
    refills = Refills(
        num_problems=2,
        num_silent=1,
        num_episodes=2,
        num_failed_episodes=1,
        num_successes=0,
        num_candidates=3,
        num_generated_tokens=6,
    )
    shards = [
        RolloutShard(step=0, shard=0, policy_versions={}, episodes=played, refills=refills),
        RolloutShard(step=0, shard=1, policy_versions={}, episodes=played, refills=Refills()),
    ]
    scored = [ScoredShard(step=0, shard=n, rewards_E_N_K=(((1.0, 0.0),), ((0.0, 0.0),))) for n in (0, 1)]
    found = step_metrics(shards, scored)
    assert found["rollout/num_refilled_problems"] == 2.0
    assert found["rollout/num_silent_problems"] == 1.0
    assert found["rollout/num_episodes"] == 6.0
    assert found["rollout/num_failed_episodes"] == 1.0
    assert found["rollout/num_candidates"] == 11.0
    assert found["rollout/num_generated_tokens"] == 22.0
    assert found["rollout/success_rate"] == pytest.approx(2 / 6)
    assert found["rollout/a/completion_tokens"] == 2.0


def test_usage_is_summed_by_policy_over_shards() -> None:
    used = [{"a": ApiUsage(num_requests=1, cost=0.5)}, {"a": ApiUsage(num_requests=2, cost=0.25), "b": ApiUsage()}]
    shards = [
        RolloutShard(step=0, shard=n, policy_versions={}, episodes=(), api_usage=usage) for n, usage in enumerate(used)
    ]
    scored = [ScoredShard(step=0, shard=n, rewards_E_N_K=()) for n in (0, 1)]
    found = step_metrics(shards, scored)
    assert (found["api/a/num_requests"], found["api/a/cost"]) == (3.0, 0.75)
    assert (found["api/b/num_requests"], found["api/b/cost"]) == (0.0, 0.0)


def test_the_share_of_punished_lengths_is_told_where_length_is_punished() -> None:
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=(episode(node(0, "a", "ynnn")),))
    rewards = (((1.0, 0.0, 0.0, None),),)
    plain = step_metrics([shard], [ScoredShard(step=0, shard=0, rewards_E_N_K=rewards)])
    punished = step_metrics([shard], [ScoredShard(step=0, shard=0, rewards_E_N_K=rewards, num_overlong=1)])
    assert "reward/overlong_frac" not in plain
    assert punished["reward/overlong_frac"] == 0.25
