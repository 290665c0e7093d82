"""A step as one batch a policy."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.batching import train_batches
from tests.components.algorithms.episodes import episode, scores, shard
from tests.sections import choose_algorithm

AT_GRPO = choose_algorithm(normalize_std=False)
GRPO = choose_algorithm(advantage="grpo", normalize_std=False)
BOTH = ("small", "large")


def test_rows_go_to_the_policy_of_their_agent_and_keep_what_was_sampled() -> None:
    played = shard(episode("a", 0, "tp", num=2))
    batches, _ = train_batches([played], [scores(((1.0, 0.0), (0.0, 3.0)))], algorithm=AT_GRPO, policies=BOTH)
    for policy, agent, advantages in (("small", "tool", (0.5, -0.5)), ("large", "plan", (-1.5, 1.5))):
        (group,) = batches[policy].groups
        node = next(n for n in played.episodes[0].nodes if n.group.agent == agent)
        assert batches[policy].policy == policy
        assert batches[policy].step == 4
        assert group.group == node.group
        assert group.prompt_tokens == node.prompt_tokens
        assert group.completions_K_T == ((1, 0), (2, 0))
        assert group.sampler_logprobs_K_T == ((-0.5, -0.1), (-0.5, -0.2))
        assert group.advantages_K == advantages


def test_groups_without_signal_are_left_out_and_counted() -> None:
    played = shard(episode("a", 0, "tptp", num=2))
    rewards = scores(((1.0, 1.0), (0.0, 3.0), (2.0, 2.0), (None, 5.0)))
    batches, metrics = train_batches([played], [rewards], algorithm=AT_GRPO, policies=BOTH)
    assert (len(batches["small"].groups), batches["small"].num_groups_without_signal) == (0, 2)
    assert (len(batches["large"].groups), batches["large"].num_groups_without_signal) == (1, 1)
    assert batches["small"].lengths_without_signal == (2, 2, 2, 2)
    assert batches["large"].lengths_without_signal == (2,), "what could not be scored counts nowhere"
    assert batches["large"].truncated_without_signal == (False,)
    assert metrics == {
        "signal/num_groups": 4.0,
        "signal/zero_group_frac": 0.75,
        "signal/tool/zero_group_frac": 1.0,
        "signal/plan/zero_group_frac": 0.5,
    }
    assert batches["large"].metrics == {
        "signal/num_groups": 2.0,
        "signal/zero_group_frac": 0.5,
        "signal/plan/zero_group_frac": 0.5,
    }


def test_with_silent_groups_all_scored_rows_are_in_the_batches_and_the_counts_are_the_same() -> None:
    played = shard(episode("a", 0, "tptp", num=2))
    rewards = scores(((1.0, 1.0), (0.0, 3.0), (2.0, 2.0), (None, 5.0)))
    without, metrics = train_batches([played], [rewards], algorithm=AT_GRPO, policies=BOTH)
    batches, same = train_batches([played], [rewards], algorithm=AT_GRPO, policies=BOTH, with_silent_groups=True)
    assert same == metrics
    assert [group.advantages_K for group in batches["small"].groups] == [(0.0, 0.0), (0.0, 0.0)]
    assert [group.advantages_K for group in batches["large"].groups] == [(-1.5, 1.5), (0.0,)]
    for policy, batch in batches.items():
        assert batch.num_groups_without_signal == without[policy].num_groups_without_signal
        assert (batch.lengths_without_signal, batch.truncated_without_signal) == ((), ())
        assert batch.metrics == without[policy].metrics
        left_out = sum(without[policy].lengths_without_signal)
        assert batch.num_tokens == without[policy].num_tokens + left_out


def test_an_unscorable_candidate_has_no_row_beside_its_scored_siblings() -> None:
    rewards = scores(((1.0, None, 0.0),))
    batches, _ = train_batches([shard(episode("a", 0, "t", num=3))], [rewards], algorithm=AT_GRPO, policies=("small",))
    (group,) = batches["small"].groups
    assert group.completions_K_T == ((1, 0), (3, 0))
    assert group.sampler_logprobs_K_T == ((-0.5, -0.1), (-0.5, -0.3))
    assert (group.advantages_K, group.truncated_K) == ((0.5, -0.5), (False, False))


@pytest.mark.parametrize("with_silent_groups", [True, False])
def test_a_node_without_a_score_and_a_continuation_are_no_groups(with_silent_groups: bool) -> None:
    tree, last = episode("a", 0, "tp", num=2), episode("a", 0, "tp").nodes[1]
    below = replace(tree, nodes=(*tree.nodes, replace(last, parent=(0, 1))))
    rewards = scores(((1.0, 0.0), (None, None), (7.0,)))
    batches, metrics = train_batches(
        [shard(below)], [rewards], algorithm=AT_GRPO, policies=BOTH, with_silent_groups=with_silent_groups
    )
    assert (batches["large"].groups, batches["large"].lengths_without_signal) == ((), ())
    assert (batches["large"].num_groups_without_signal, batches["large"].agents) == (0, ())
    assert len(batches["small"].groups) == 1
    assert metrics == {
        "signal/num_groups": 1.0,
        "signal/zero_group_frac": 0.0,
        "signal/tool/zero_group_frac": 0.0,
    }


def test_an_action_that_could_not_be_scored_is_out_of_an_episode_that_has_a_return() -> None:
    first, second = episode("a", 0, "tp"), episode("a", 1, "tp")
    rewards = scores(((None,), (1.0,)), ((0.0,), (0.0,)))
    batches, _ = train_batches([shard(first, second)], [rewards], algorithm=GRPO, policies=BOTH)
    assert [group.advantages_K for group in batches["small"].groups] == [(-0.5,)]
    assert [group.advantages_K for group in batches["large"].groups] == [(0.5,), (-0.5,)]


def test_agents_with_equal_prompts_keep_groups_of_their_own() -> None:
    played = episode("a", 0, "tp", num=2)
    first, second = played.nodes
    alike = replace(played, nodes=(first, replace(second, policy="small", prompt_tokens=first.prompt_tokens)))
    rewards = scores(((1.0, 0.0), (0.0, 3.0)))
    batches, _ = train_batches([shard(alike)], [rewards], algorithm=AT_GRPO, policies=("small",))
    assert [group.group.agent for group in batches["small"].groups] == ["tool", "plan"]
    assert batches["small"].agents == ("plan", "tool")


def test_every_policy_gets_a_batch_even_an_empty_one() -> None:
    batches, metrics = train_batches([shard()], [scores()], algorithm=AT_GRPO, policies=BOTH)
    assert {policy: (batch.groups, batch.num_tokens) for policy, batch in batches.items()} == {
        "small": ((), 0),
        "large": ((), 0),
    }
    assert metrics["signal/num_groups"] == 0.0


def test_a_policy_that_is_not_trained_gets_no_batch_but_is_counted() -> None:
    played = shard(episode("a", 0, "tp", num=2))
    batches, metrics = train_batches(
        [played], [scores(((1.0, 0.0), (0.0, 3.0)))], algorithm=AT_GRPO, policies=("large",)
    )
    assert list(batches) == ["large"]
    assert metrics["signal/num_groups"] == 2.0


def test_the_order_is_that_of_shards_whatever_order_they_came_in() -> None:
    first, second = shard(episode("a", 0, "tp", num=2)), shard(episode("b", 0, "tp", num=2), number=1)
    rewards = ((1.0, 0.0), (0.0, 3.0))
    forward = train_batches(
        [first, second], [scores(rewards), scores(rewards, number=1)], algorithm=AT_GRPO, policies=BOTH
    )
    backward = train_batches(
        [second, first], [scores(rewards, number=1), scores(rewards)], algorithm=AT_GRPO, policies=BOTH
    )
    assert forward == backward
    assert [group.group.problem_id for group in forward[0]["small"].groups] == ["a", "b"]


def test_whole_episodes_are_compared_across_shards_and_policies() -> None:
    first, second = shard(episode("a", 0, "tp")), shard(episode("a", 1, "tp"), number=1)
    batches, metrics = train_batches(
        [first, second],
        [scores(((9.0,), (1.0,))), scores(((9.0,), (0.0,)), number=1)],
        algorithm=GRPO,
        policies=BOTH,
    )
    for policy in BOTH:
        assert [group.advantages_K for group in batches[policy].groups] == [(0.5,), (-0.5,)]
    assert metrics["signal/zero_group_frac"] == 0.0


def test_rewards_of_another_shard_or_step_are_refused() -> None:
    played = shard(episode("a", 0, "t", num=2))
    with pytest.raises(AssertionError, match="rewards of other shards"):
        train_batches([played], [scores(((1.0, 0.0),), number=1)], algorithm=AT_GRPO, policies=BOTH)
    with pytest.raises(AssertionError, match="shards of one step"):
        train_batches(
            [played, shard(number=1, step=5)],
            [scores(((1.0, 0.0),)), scores(number=1, step=5)],
            algorithm=AT_GRPO,
            policies=BOTH,
        )


@given(
    st.lists(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=3, max_size=3), max_size=4), max_size=5)
)
def test_every_group_is_trained_on_or_counted_and_advantages_sum_to_zero(
    rewards: list[list[list[float | None]]],
) -> None:
    played = shard(*(episode("a", number, "tptp"[: len(nodes)], num=3) for number, nodes in enumerate(rewards)))
    scored = scores(*(tuple(tuple(k) for k in nodes) for nodes in rewards))
    batches, metrics = train_batches([played], [scored], algorithm=AT_GRPO, policies=BOTH)
    counted = sum(len(batch.groups) + batch.num_groups_without_signal for batch in batches.values())
    with_a_score = sum(any(r is not None for r in node) for nodes in rewards for node in nodes)
    assert counted == metrics["signal/num_groups"] == with_a_score
    for batch in batches.values():
        for group in batch.groups:
            assert sum(group.advantages_K) == pytest.approx(0.0, abs=1e-12)
            assert any(group.advantages_K)


def test_episodes_that_begin_alike_share_one_prompt_and_keep_their_own_tokens_and_advantages() -> None:
    first, second, third = (episode("a", number, "tp") for number in range(3))
    answer = replace(second.nodes[0].candidates[0], tokens=(7,), sampler_logprobs=(-0.7,), finish_reason="length")
    prompt = first.nodes[0].prompt_tokens
    second = replace(
        second, nodes=(replace(second.nodes[0], prompt_tokens=prompt, candidates=(answer,)), second.nodes[1])
    )
    rewards = scores(((0.0,), (2.0,)), ((0.0,), (0.0,)), ((0.0,), (1.0,)))
    batches, metrics = train_batches([shard(first, second, third)], [rewards], algorithm=GRPO, policies=BOTH)
    alike, apart = batches["small"].groups[0], batches["large"].groups
    assert (alike.group, alike.prompt_tokens) == (first.nodes[0].group, prompt)
    assert alike.completions_K_T == ((1, 0), (7,))
    assert alike.sampler_logprobs_K_T == ((-0.5, -0.1), (-0.7,))
    assert alike.advantages_K == (1.0, -1.0)
    assert alike.truncated_K == (False, True)
    assert [group.advantages_K for group in apart] == [(1.0,), (-1.0,)]
    assert (batches["small"].num_groups_without_signal, metrics["signal/num_groups"]) == (1, 6.0)


def test_a_batch_names_the_version_that_sampled_it() -> None:
    played = shard(episode("a", 0, "tp", num=2))
    batches, _ = train_batches(
        [played], [scores(((1.0, 0.0), (0.0, 3.0)))], algorithm=AT_GRPO, policies=(*BOTH, "idle")
    )
    assert batches["small"].version == played.policy_versions["small"]
    assert batches["idle"].version is None


def test_shards_of_two_versions_of_a_policy_are_no_batch() -> None:
    first, second = shard(episode("a", 0, "t", num=2)), shard(episode("b", 0, "t", num=2), number=1)
    other = {name: replace(version, weights_digest="e") for name, version in second.policy_versions.items()}
    rewards = ((1.0, 0.0),)
    with pytest.raises(AssertionError, match="in several versions"):
        train_batches(
            [first, replace(second, policy_versions=other)],
            [scores(rewards), scores(rewards, number=1)],
            algorithm=AT_GRPO,
            policies=("small",),
        )


def test_answers_that_ended_for_their_length_are_marked_and_keep_their_advantage() -> None:
    (played,) = [episode("a", 0, "t", num=2)]
    cut = replace(played.nodes[0].candidates[1], finish_reason="length")
    node = replace(played.nodes[0], candidates=(played.nodes[0].candidates[0], cut))
    batches, _ = train_batches(
        [shard(replace(played, nodes=(node,)))], [scores(((1.0, 0.0),))], algorithm=AT_GRPO, policies=("small",)
    )
    (group,) = batches["small"].groups
    assert (group.truncated_K, group.advantages_K) == ((False, True), (0.5, -0.5))
