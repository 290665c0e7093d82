"""Strategies for the values of an iteration, and one shard of the usual size."""

import random
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from components.identity import GroupKey
from components.schema import (
    ActionOutcome,
    Candidate,
    Episode,
    EvalReport,
    FailedBranch,
    IterationReport,
    Node,
    PolicyVersion,
    Problem,
    RolloutShard,
    ScoredShard,
    TrainBatch,
    TrainGroup,
)

names = st.text(max_size=8)
counts = st.integers(min_value=0, max_value=10**9)
floats = st.floats(allow_nan=False)
tokens_T = st.lists(st.integers(min_value=0, max_value=2**31), max_size=6).map(tuple)
floats_T = st.lists(floats, max_size=6).map(tuple)
metrics = st.dictionaries(names, floats, max_size=3)
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | names,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(names | st.sampled_from(["$tuple", "$dict"]), inner, max_size=3)
    ),
    max_leaves=8,
)
group_keys = st.builds(
    GroupKey, problem_id=names, episode=counts, turn=counts, agent=names, repeat=counts, branch=st.just("") | names
)
problems = st.builds(
    Problem, problem_id=names, environment=names, payload=st.dictionaries(names, any_values, max_size=4)
)
outcomes = st.builds(
    ActionOutcome,
    team=metrics,
    local=metrics,
    solves=st.booleans(),
    done=st.booleans(),
    error=st.none() | names,
    team_from_start=st.none() | metrics,
    value_gain=st.none() | floats,
)
candidates = st.builds(
    Candidate,
    tokens=tokens_T,
    sampler_logprobs=floats_T,
    finish_reason=st.sampled_from(["stop", "length"]),
    text=st.text(max_size=20),
    outcome=outcomes,
    reward=floats,
)
turns = st.builds(
    Node,
    group=group_keys,
    policy=names,
    prompt_tokens=tokens_T,
    candidates=st.lists(candidates, max_size=3).map(tuple),
    chosen=counts,
    chosen_randomly=st.booleans(),
    parent=st.none() | st.tuples(counts, counts),
    is_trained_on=st.booleans(),
)
episodes = st.builds(
    Episode,
    problem=problems,
    episode=counts,
    nodes=st.lists(turns, max_size=2).map(tuple),
    success=st.booleans(),
    error=st.none() | names,
    cuts=st.none()
    | st.lists(st.builds(FailedBranch, parent=st.tuples(counts, counts), error=names), max_size=2).map(tuple),
)
versions = st.builds(PolicyVersion, policy=names, step=counts, weights_digest=names)
rollout_shards = st.builds(
    RolloutShard,
    step=counts,
    shard=counts,
    policy_versions=st.dictionaries(names, versions, max_size=2),
    episodes=st.lists(episodes, max_size=2).map(tuple),
)
rewards_K = st.lists(st.none() | floats, max_size=4).map(tuple)
rewards_N_K = st.lists(rewards_K, max_size=3).map(tuple)
scored_shards = st.builds(
    ScoredShard, step=counts, shard=counts, rewards_E_N_K=st.lists(rewards_N_K, max_size=3).map(tuple)
)
train_groups = st.builds(
    TrainGroup,
    group=group_keys,
    prompt_tokens=tokens_T,
    completions_K_T=st.lists(tokens_T, max_size=3).map(tuple),
    sampler_logprobs_K_T=st.lists(floats_T, max_size=3).map(tuple),
    advantages_K=floats_T,
)
train_batches = st.builds(
    TrainBatch,
    policy=names,
    step=counts,
    groups=st.lists(train_groups, max_size=3).map(tuple),
    num_groups_without_signal=counts,
    lengths_without_signal=st.lists(counts, max_size=3).map(tuple),
    truncated_without_signal=st.lists(st.booleans(), max_size=3).map(tuple),
    agents=st.lists(names, max_size=2).map(tuple),
    metrics=metrics,
)
eval_reports = st.builds(
    EvalReport,
    agent=names,
    suite=names,
    suite_digest=names,
    step=counts,
    sampling=st.sampled_from(["sample", "greedy", "scripted"]),
    seed=counts,
    num_samples=counts,
    n=counts,
    num_successes=counts,
    success_rate=floats,
    interval=st.tuples(floats, floats),
    mean_reward=floats,
    keep_rate=st.none() | floats,
    repair_rate=st.none() | floats,
    metrics=metrics,
    num_solved_P=st.lists(counts, max_size=4).map(tuple),
)
iteration_reports = st.builds(
    IterationReport,
    run_id=names,
    step=counts,
    metrics=metrics,
    timings=metrics,
    checkpoint_digest=st.dictionaries(names, names, max_size=2),
    optimizer_digest=st.dictionaries(names, names, max_size=2),
)
any_stored = st.one_of(
    episodes, rollout_shards, scored_shards, train_batches, eval_reports, iteration_reports, problems
)


def a_candidate(rng: random.Random, *, num_tokens: int = 11) -> Candidate:
    """A random candidate of plan_path's length."""
    team: Mapping[str, Any] = {"solved": float(rng.random() < 0.3), "progress": rng.random()}
    return Candidate(
        tokens=tuple(rng.randrange(200) for _ in range(num_tokens)),
        sampler_logprobs=tuple(-rng.random() for _ in range(num_tokens)),
        finish_reason="stop",
        text="UDLRUDLRUD",
        outcome=ActionOutcome(team=team, local={"clean": 1.0, "legal": 1.0}, solves=False, done=False),
        reward=rng.random(),
    )


def a_shard(*, num_turns: int = 128, group_size: int = 8, seed: int = 0) -> RolloutShard:
    """A shard of episodes with four turns each and 60 prompt tokens per turn."""
    rng = random.Random(seed)
    played = []
    for index in range(num_turns // 4):
        turns_N = tuple(
            Node(
                group=GroupKey(problem_id=f"p{index}", episode=0, turn=node // 2, agent="plan_agent"),
                policy="main",
                prompt_tokens=tuple(rng.randrange(200) for _ in range(60)),
                candidates=tuple(a_candidate(rng) for _ in range(group_size)),
                chosen=2,
            )
            for node in range(4)
        )
        payload = {"grid": [[0, 1, 2, 3, 4]] * 5, "start": [0, 1]}
        problem = Problem(problem_id=f"p{index}", environment="plan_path", payload=payload)
        played.append(Episode(problem=problem, episode=0, nodes=turns_N, success=False))
    version = PolicyVersion(policy="main", step=0, weights_digest="a" * 64)
    return RolloutShard(step=0, shard=0, policy_versions={"main": version}, episodes=tuple(played))
