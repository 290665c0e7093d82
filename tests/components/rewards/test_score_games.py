"""Every real game replays exactly what was recorded, through the store's codec too. Nothing here asks for demonstrations."""

from random import Random
from typing import Any

import pytest

from components.artifacts import codec
from components.config import RewardConfig, RolloutConfig
from components.environments.registry import family, family_options
from components.rewards.rubric import rubric_for
from components.rewards.score import score_shard
from components.rollout.router import RoleBinding, Router
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import NumberedProblem
from components.schema import PolicyVersion, RolloutShard
from tests.components.environments.bare import bare
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator

GAMES = ("plan_path", "sokoban", "sudoku")
PUZZLES = ("blocksworld", "eight_queens")
TOOL_WORLDS = ("shop", "calendar", "file_tree")
VERSION = PolicyVersion(policy="p", step=0, weights_digest="d")


def collect(name: str, mode: Any) -> RolloutShard:
    """Three problems played by a team that writes expert, noisy, random and malformed answers in turn."""
    chosen, options = family(name), family_options(name, {})
    problems = [chosen.problem(options, split="train", index=index, seed=0) for index in range(3)]

    def respond(prompt: str, seed: int) -> str:
        env, rng = chosen.build(problems[seed % len(problems)]), Random(seed)
        agent = rng.choice(chosen.roles)
        answers = (
            lambda: chosen.expert_action(env.position, agent),
            lambda: chosen.noisy_expert_action(env.position, agent, noise=0.3, rng=rng),
            lambda: chosen.random_action(env.position, agent, rng),
            lambda: "|",
        )
        return answers[seed % 4]()

    engine = ScriptedGenerator(respond, CharacterTokenizer(chosen.alphabet(options)), VERSION)
    limit = chosen.max_action_characters(options) + 1
    seat = RoleBinding(policy="p", prompt_format="compact", max_new_tokens=limit)
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
        family=bare(chosen),
        router=Router({"p": engine}, seats=dict.fromkeys(chosen.roles, seat), versions={"p": VERSION}),
        rubric=rubric_for(chosen, RewardConfig()),
    )


@pytest.mark.parametrize("mode", ["tree", "independent", "single"])
@pytest.mark.parametrize("name", [*GAMES, *PUZZLES, *TOOL_WORLDS])
def test_a_game_is_deterministic_and_its_rewards_are_reproduced(name: str, mode: str) -> None:
    shard = collect(name, mode)
    assert codec.decode(codec.encode(shard), RolloutShard) == shard
    scored = score_shard(shard, family=bare(family(name)), rubric=rubric_for(bare(family(name)), RewardConfig()))
    recorded = tuple(tuple(tuple(c.reward for c in node.candidates) for node in e.nodes) for e in shard.episodes)
    assert scored.rewards_E_N_K == recorded
    assert len({reward for rewards_N_K in recorded for rewards_K in rewards_N_K for reward in rewards_K}) > 1
