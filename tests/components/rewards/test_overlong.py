"""The soft overlong punishment by the paper's formula, and in the reward stage."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import RewardConfig
from components.errors import ConfigurationError
from components.rewards.overlong import Overlong, overlong_for
from components.rewards.score import score_shard
from components.rollout.sampler import collect_shard
from tests.components.rollout.toy_team import RUBRIC, ToyFamily, toy_plan, toy_router

FAMILY = ToyFamily(2)


def test_it_falls_linearly_within_the_buffer() -> None:
    overlong = Overlong(buffer=4, penalty=2.0, limits={"a": 20})
    assert [overlong.punishment("a", n) for n in (0, 15, 16, 17, 18, 20)] == [0.0, 0.0, 0.0, 0.5, 1.0, 2.0]


@given(st.integers(2, 300), st.integers(1, 299), st.floats(0, 3), st.data())
def test_it_is_the_papers_formula(limit: int, buffer: int, penalty: float, data: Any) -> None:
    buffer = min(buffer, limit - 1)
    num_tokens = data.draw(st.integers(0, limit))
    expected_length = limit - buffer
    paper = 0.0 if num_tokens <= expected_length else (expected_length - num_tokens) / buffer
    found = Overlong(buffer=buffer, penalty=penalty, limits={"a": limit}).punishment("a", num_tokens)
    assert found == pytest.approx(-penalty * paper)


def test_no_buffer_punishes_nobody_and_one_as_long_as_the_answer_is_refused() -> None:
    assert overlong_for(RewardConfig(), {"a": 5}) is None
    with pytest.raises(ConfigurationError, match=r"rewards\.overlong_buffer 5: answers of b have at most 5 tokens"):
        overlong_for(RewardConfig(overlong_buffer=5), {"a": 9, "b": 5})


def test_the_stage_takes_it_from_each_answer_by_its_own_agents_limit() -> None:
    plan = toy_plan(FAMILY, 4, group_size=4)
    played = collect_shard(plan, family=FAMILY, router=toy_router(FAMILY), rubric=RUBRIC)
    overlong = overlong_for(RewardConfig(overlong_buffer=2, overlong_penalty=0.5), {"agent0": 4, "agent1": 8})
    assert overlong is not None
    plain = score_shard(played, family=FAMILY, rubric=RUBRIC)
    scored = score_shard(played, family=FAMILY, rubric=RUBRIC, overlong=overlong)
    num_punished = 0
    for episode, plain_N_K, scored_N_K in zip(played.episodes, plain.rewards_E_N_K, scored.rewards_E_N_K, strict=True):
        for node, plain_K, scored_K in zip(episode.nodes, plain_N_K, scored_N_K, strict=True):
            for candidate, before, after in zip(node.candidates, plain_K, scored_K, strict=True):
                limit = {"agent0": 4, "agent1": 8}[node.group.agent]
                lost = 0.5 * min(max(len(candidate.tokens) - (limit - 2), 0) / 2, 1.0)
                assert after == pytest.approx(before - lost)
                num_punished += lost > 0
    assert scored.num_overlong == num_punished > 0
    assert plain.num_overlong is None
