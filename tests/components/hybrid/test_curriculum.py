"""Stages are passed by steady reward, stall after their patience, and give trust back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config.hybrid import CurriculumConfig, StageConfig
from components.hybrid.curriculum import CurriculumState, first_state, list_stages, next_state
from components.hybrid.strategies import Strategy

RULE = CurriculumConfig()


def after(rewards: list[float], rule: CurriculumConfig = RULE) -> tuple[CurriculumState, list[str | None]]:
    state, events = first_state(rule), []
    for reward in rewards:
        state, event = next_state(state, rule, reward)
        events.append(event)
    return state, events


def test_a_stage_is_passed_by_a_full_window_of_its_own() -> None:
    state, events = after([60.0] * 10)
    assert events == [None] * 9 + ["curriculum_advance"]
    assert (state.stage, state.strategy, state.llm_confidence, state.recent) == (1, Strategy.BALANCED, 0.7, ())
    state, events = after([1000.0] * 35)
    assert events.count("curriculum_advance") == 3, "each stage needs episodes of its own"
    assert state.stage == 3


def test_an_unsteady_reward_passes_nothing() -> None:
    _, events = after([0.0, 120.0] * 10)
    assert "curriculum_advance" not in events


def stages(*confidences: float) -> tuple[StageConfig, ...]:
    return tuple(
        StageConfig(name=f"s{number}", reward_threshold=1e9, llm_confidence=each, strategy="balanced")
        for number, each in enumerate(confidences)
    )


def test_trust_decays_to_that_of_the_next_stage_and_a_stall_gives_it_back() -> None:
    rule = CurriculumConfig(stages=stages(0.9, 0.7), decay=0.9, window=1, patience=5)
    states = [after([1.0] * count, rule)[0] for count in range(7)]
    assert [state.llm_confidence for state in states[:6]] == pytest.approx([0.9, 0.81, 0.729, 0.7, 0.7, 0.7])
    assert after([1.0] * 6, rule)[1] == [None] * 5 + ["curriculum_stalled"]
    assert states[6].llm_confidence == pytest.approx(0.9)
    assert (states[6].strategy, states[6].num_stalls, states[6].episodes_without_gain) == (Strategy.LLM_HEAVY, 1, 0)


def test_a_gain_renews_the_patience_and_a_lucky_first_episode_does_not_spend_it() -> None:
    rule = CurriculumConfig(stages=stages(0.9, 0.7), window=2, patience=3)
    assert after([float(reward) for reward in range(20)], rule)[0].num_stalls == 0
    assert after([100.0, 0.0, 1.0, 2.0, 3.0, 4.0], rule)[1][:4] == [None] * 4
    assert after([1.0] * 100, rule)[0].num_stalls == 98 // 3


@given(st.lists(st.floats(-1e3, 1e3), max_size=60), st.integers(0, 60))
def test_trust_keeps_its_bounds_and_a_resume_changes_nothing(rewards: list[float], cut: int) -> None:
    state, _ = after(rewards[:cut])
    again = CurriculumState.from_json(json.loads(json.dumps(state.to_json())))
    assert again == state
    for reward in rewards[cut:]:
        (state, event), (again, other) = next_state(state, RULE, reward), next_state(again, RULE, reward)
        assert (state, event) == (again, other)
        lowest = list_stages(RULE)[min(state.stage + 1, 3)].llm_confidence
        assert lowest <= state.llm_confidence <= list_stages(RULE)[state.stage].llm_confidence


def test_a_reward_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="nan"):
        next_state(first_state(RULE), RULE, float("nan"))
