"""Every real game replays exactly what was recorded, through the store's codec too."""

from random import Random
from typing import Any

import pytest

from components.artifacts import codec
from components.config import RewardConfig, RolloutConfig
from components.environments.registry import FAMILIES, family_options
from components.generation.scripted import CharacterTokenizer, ScriptedGenerator
from components.rewards.rubric import rubric_for
from components.rewards.score import score_shard
from components.rollout.router import Router, Seat
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import NumberedProblem
from components.schema import PolicyVersion, RolloutShard

VERSION = PolicyVersion(policy="p", step=0, weights_digest="d")


def collected(name: str, mode: Any) -> RolloutShard:
    """Three problems played by a team that writes expert, noisy, random and malformed answers in turn."""
    family, options = FAMILIES[name], family_options(name, {})
    problems = [family.problem(options, split="train", index=index, seed=0) for index in range(3)]

    def respond(prompt: str, seed: int) -> str:
        env, rng = family.build(problems[seed % len(problems)]), Random(seed)
        agent = rng.choice(family.roles)
        answers = (
            lambda: family.expert_action(env, agent),
            lambda: family.noisy_expert_action(env, agent, noise=0.3, rng=rng),
            lambda: family.random_action(env, agent, rng),
            lambda: "|",
        )
        return answers[seed % 4]()

    engine = ScriptedGenerator(respond, CharacterTokenizer(family.alphabet(options)), VERSION)
    limit = family.max_action_characters(options) + 1
    seat = Seat(policy="p", prompt_format="compact", max_new_tokens=limit)
    plan = ShardPlan(
        step=0,
        shard=0,
        seed=0,
        max_turns=3,
        settings=RolloutConfig(num_problems=3, mode=mode),
        problems=tuple(NumberedProblem(problem=problem, occurrence=0) for problem in problems),
    )
    return collect_shard(
        plan,
        family=family,
        router=Router({"p": engine}, seats=dict.fromkeys(family.roles, seat), versions={"p": VERSION}),
        rubric=rubric_for(family, RewardConfig()),
    )


@pytest.mark.parametrize("mode", ["tree", "independent", "single"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_game_is_deterministic_and_its_rewards_are_reproduced(name: str, mode: str) -> None:
    shard = collected(name, mode)
    assert codec.decode(codec.encode(shard), RolloutShard) == shard
    scored = score_shard(shard, family=FAMILIES[name], rubric=rubric_for(FAMILIES[name], RewardConfig()))
    recorded = tuple(tuple(tuple(c.reward for c in node.candidates) for node in e.turns) for e in shard.episodes)
    assert scored.rewards_E_N_K == recorded
    assert len({reward for rewards_N_K in recorded for rewards_K in rewards_N_K for reward in rewards_K}) > 1
