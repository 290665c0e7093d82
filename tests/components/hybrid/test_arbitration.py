"""Measured progress decides, whatever anybody claims; emergencies interrupt; a resume is exact."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hybrid.arbitration import (
    Actor,
    ArbiterState,
    credit_actor,
    end_episode,
    is_stuck,
    new_arbiter,
    next_actor,
)
from components.hybrid.segment_bandit import BanditState, Tally

GOOD_LLM = {("town", "llm"): 0.5, ("town", "rl"): 0.1, ("route", "llm"): 0.5, ("route", "rl"): 0.1}
BAD_LLM = {("town", "llm"): -0.01, ("town", "rl"): 0.1, ("route", "llm"): -0.01, ("route", "rl"): 0.1}
MIXED = {("town", "llm"): 0.5, ("town", "rl"): 0.1, ("route", "llm"): -0.01, ("route", "rl"): 0.4}


def play(
    gains: dict[tuple[str, str], float], *, seed: int = 0, episodes: int = 150
) -> tuple[ArbiterState, list[tuple[str, Actor]]]:
    """Episodes of 25 decisions in town and 25 on the route, with noise of the size of the differences."""
    state, rng, acted = new_arbiter(seed), random.Random(seed), []
    for _ in range(episodes):
        for phase in ["town"] * 25 + ["route"] * 25:
            state = next_actor(state, phase)
            acted.append((phase, state.actor))
            state = credit_actor(state, rng.gauss(gains[phase, state.actor], 0.3))
        state = end_episode(state)
    return state, acted


@pytest.mark.parametrize(("gains", "lowest", "highest"), [(GOOD_LLM, 0.85, 1.0), (BAD_LLM, 0.0, 0.15)])
def test_whoever_makes_progress_plays_however_sure_the_other_is(
    gains: dict[tuple[str, str], float], lowest: float, highest: float
) -> None:
    """The bad model of the study claims .95 against the policy's .5 and would have every decision by confidence."""
    state, _ = play(gains)
    assert lowest <= state.num_llm_decisions / state.num_decisions <= highest


def test_each_phase_has_the_actor_that_is_better_there() -> None:
    _, acted = play(MIXED)
    late = acted[len(acted) // 2 :]
    for phase, best in (("town", Actor.LLM), ("route", Actor.RL)):
        there = [actor for where, actor in late if where == phase]
        assert there.count(best) / len(there) > 0.85


def test_without_exploration_the_better_one_has_every_decision() -> None:
    state, _ = play(MIXED)
    for phase, best in (("town", Actor.LLM), ("route", Actor.RL)):
        for _ in range(100):
            state = next_actor(state, phase, explore=False)
            assert state.actor == best


def test_without_exploration_nobody_is_tried_and_nobody_stays_for_having_been_tried_last() -> None:
    tallies = (
        Tally(context="town", arm="rl", segments=9, gains=0.9, squares=9, last_segment=3),
        Tally(context="town", arm="llm", segments=9, gains=0, squares=0, last_segment=8),
    )
    bandit = BanditState(seed=0, tallies=tallies, num_segments=9)
    for phase in ("town", "never seen"):
        state = next_actor(ArbiterState(bandit=bandit), phase, explore=False)
        assert state.actor is Actor.RL
        stuck = next_actor(state, phase, emergency=True, explore=False)
        assert (stuck.actor, stuck.is_emergency) == (Actor.RL, False)
    assert next_actor(ArbiterState(bandit=bandit), "town").actor is Actor.LLM, "within the margin it stays"


@pytest.mark.parametrize(("segments", "is_proven"), [(1, False), (9, True)])
def test_without_exploration_a_lucky_segment_overrules_no_favourite(segments: int, is_proven: bool) -> None:
    """In town the model gained .6 a segment beside .5 with a deviation of .2; on the road it gained nothing."""
    tallies = (
        Tally(context="town", arm="rl", segments=100, gains=50, squares=25 + 100 * 0.2**2, last_segment=3),
        Tally(
            context="town", arm="llm", segments=segments, gains=0.6 * segments, squares=0.36 * segments, last_segment=8
        ),
        Tally(context="road", arm="rl", segments=9, gains=18, squares=36, last_segment=9),
        Tally(context="road", arm="llm", segments=1, gains=0, squares=0, last_segment=10),
        Tally(context="gym", arm="rl", segments=2, gains=-0.02, squares=0.0002, last_segment=4),
        Tally(context="gym", arm="llm", segments=60, gains=0.3, squares=0.0015, last_segment=7),
        Tally(context="cave", arm="llm", segments=90, gains=900, squares=9000, last_segment=11),
    )
    state = ArbiterState(bandit=BanditState(seed=0, tallies=tallies, num_segments=12))
    for phase, proven in (("town", is_proven), ("road", False), ("gym", False), ("cave", False), ("never seen", False)):
        assert (next_actor(state, phase, explore=False).actor is Actor.LLM) == proven


def test_an_emergency_calls_the_other_actor_for_a_few_decisions() -> None:
    state = new_arbiter(0)
    for _ in Actor:  # each is tried once
        state = end_episode(credit_actor(next_actor(state, "town"), 0.1))
    state = credit_actor(next_actor(state, "town"), 0.1)
    holder, called = state.actor, []
    for emergency in (True, True, False, False):
        state = credit_actor(next_actor(state, "town", emergency=emergency), 0.2)
        called.append(state.actor)
        assert state.is_emergency
    assert holder not in called
    assert not next_actor(state, "town", emergency=True).is_emergency, "the phase decides before the next call"
    assert end_episode(state).bandit.tally("emergency in town", called[0]).mean == pytest.approx(0.2)
    assert not next_actor(state, "battle").is_emergency


@pytest.mark.parametrize(("gain", "fewest", "most"), [(1.0, 0.9, 1.0), (0.0, 0.0, 0.1)])
def test_the_other_actor_is_called_while_it_helps(gain: float, fewest: float, most: float) -> None:
    """The policy gains .5 in the phase, the language model nothing, but `gain` when the player is stuck."""
    state, called = new_arbiter(0), []
    for number in range(4000):
        state = next_actor(state, "town", emergency=number % 20 == 0)
        if number % 20 == 0:
            called.append(state.is_emergency)
        gained = gain if state.is_emergency else 0.0
        state = credit_actor(state, 0.5 if state.actor is Actor.RL else gained)
    assert fewest <= sum(called[20:]) / len(called[20:]) <= most


@pytest.mark.parametrize(("squares", "is_called"), [(4 * 0.6**2, True), (40.0, False)])
def test_a_call_must_be_better_by_its_standard_error(squares: float, is_called: bool) -> None:
    """Four calls with a mean of .6 against .5 in the phase: enough if they were all alike, not if they varied."""
    tallies = (
        Tally(context="town", arm="rl", segments=100, gains=50, squares=25, last_segment=9),
        Tally(context="town", arm="llm", segments=1, gains=0, squares=0, last_segment=1),
        Tally(context="emergency in town", arm="llm", segments=4, gains=2.4, squares=squares, last_segment=8),
    )
    bandit = BanditState(seed=0, tallies=tallies, context="town", arm="rl", decisions_left=5)
    state = next_actor(ArbiterState(bandit=bandit), "town", emergency=True, explore=False)
    assert state.is_emergency == is_called


@given(st.integers(0, 2**62), st.integers(0, 3))
def test_a_resumed_arbiter_goes_on_as_an_uninterrupted_one(seed: int, episodes: int) -> None:
    state, _ = play(MIXED, seed=seed, episodes=episodes)
    again = ArbiterState.from_json(json.loads(json.dumps(state.to_json())))
    assert again == state
    for phase in ["town"] * 30:
        state, again = (credit_actor(next_actor(each, phase), 0.2) for each in (state, again))
        assert again == state


def test_stuck_is_two_states_for_a_while() -> None:
    assert is_stuck([1, 2, 3, *[5, 6] * 4])
    assert not is_stuck([5, 6] * 3 + [5])
    assert not is_stuck([5, 6, 5, 6, 7, 6, 5, 6])
