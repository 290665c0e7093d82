"""Rollouts and the reward stage read answers that reason first alike, also where the prompt opens the thinking."""

from collections.abc import Mapping
from typing import Any

import pytest

from components.config import RewardConfig
from components.environments.registry import family, family_options
from components.evaluation.suites import suite_problems
from components.rewards.rubric import rubric_for
from components.rewards.score import score_shard
from components.rollout.play import play
from components.rollout.router import RoleBinding, Router
from components.rollout.rules import SamplingRules, Start
from components.rollout.statistics import episode_metrics
from components.schema import PolicyVersion, RolloutShard
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator

VERSION = PolicyVersion(policy="p", step=0, weights_digest="d")
ALPHABET = "".join(map(chr, range(32, 127))) + "\n"
OPTIONS = family_options("plan_path", {})


class Thinker(CharacterTokenizer):
    """A tokenizer whose chat template opens the thinking."""

    def encode_chat(self, instructions: str, state: str, arguments: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        return self.encode(f"{state}\n<think>\n")


def roll_out(answers: Any, text: str, tokenizer: CharacterTokenizer, *, max_new_tokens: int = 200) -> RolloutShard:
    chosen = family("plan_path", answers)
    engine = ScriptedGenerator(lambda prompt, seed: text if seed % 2 else "[U]", tokenizer, VERSION)
    seat = RoleBinding(policy="p", prompt_format="chat", max_new_tokens=max_new_tokens)
    router = Router({"p": engine}, seats=dict.fromkeys(chosen.roles, seat), versions={"p": VERSION})
    problems = suite_problems("train", chosen, OPTIONS, num_problems=2, seed=0)
    rules = SamplingRules(
        turn_order=chosen.roles, max_turns=1, group_size=4, temperature=1.0, seed=1, purpose=("rollout",)
    )
    starts = [Start(problem=problem, episode=0) for problem in problems]
    rubric = rubric_for(chosen, RewardConfig())
    episodes = play(starts, rules, family=chosen, router=router, rubric=rubric)
    return RolloutShard(step=0, shard=0, policy_versions={"p": VERSION}, episodes=episodes)


def list_malformed(shard: RolloutShard) -> dict[str, bool]:
    """Whether it was malformed, by text."""
    candidates = [each for episode in shard.episodes for node in episode.nodes for each in node.candidates]
    return {each.text: each.outcome.error is not None for each in candidates}


def test_the_reward_stage_reads_what_the_rollout_read() -> None:
    text = "Up is a wall, I think.\n\n[R, R]\n\nI hope this helps!"
    shard = roll_out("free", text, CharacterTokenizer(ALPHABET))
    assert list_malformed(shard) == {text: False, "[U]": False}
    chosen = family("plan_path", "free")
    rubric = rubric_for(chosen, RewardConfig())
    scored = score_shard(shard, family=chosen, rubric=rubric, turn_order=chosen.roles)
    recorded = tuple(
        tuple(tuple(each.reward for each in node.candidates) for node in episode.nodes) for episode in shard.episodes
    )
    assert scored.rewards_E_N_K == recorded
    with pytest.raises(AssertionError, match="replay gives"):
        score_shard(shard, family=family("plan_path"), rubric=rubric, turn_order=chosen.roles)


@pytest.mark.parametrize("answers", ["strict", "free"])
def test_thinking_that_the_prompt_opened_and_the_limit_cut_off_is_malformed(answers: str) -> None:
    text = "Maybe [U, R]?\n</think>\n\n[U, R]"
    whole = roll_out(answers, text, Thinker(ALPHABET))
    assert list_malformed(whole) == {f"<think>{text}": False, "<think>[U]": True}
    cut = roll_out(answers, text, Thinker(ALPHABET), max_new_tokens=16)
    assert list_malformed(cut) == {f"<think>{text[:16]}": True, "<think>[U]": True}
    rates = episode_metrics(cut.episodes)
    assert [rates[f"rollout/{role}/malformed_rate"] for role in ("tool_agent", "plan_agent")] == [1.0, 1.0]
