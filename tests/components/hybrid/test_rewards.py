"""Rewards telescope, nothing pays twice, masks are never empty, and state variables keep their bounds."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.hybrid.game_facts import (
    LARGEST,
    NUM_ACTIONS,
    STATE_VARIABLES,
    Action,
    action_masks,
    no_facts,
    state_variables,
)
from components.hybrid.rewards import Records, RewardWeights, potential, reward_terms, total_reward

WEIGHTS = RewardWeights()
facts_of_a_game = st.fixed_dictionaries({name: st.integers(0, largest) for name, largest in LARGEST.items()})


def arrays(*games: dict[str, int]) -> dict[str, Any]:
    return {name: np.array([game.get(name, 0) for game in games]) for name in LARGEST}


def walk(places: list[tuple[int, int]], **facts: int) -> list[Records]:
    """The records of one game that is walked through (map, x) places."""
    records, seen, found = Records.none(1), set(), []
    for place in places:
        seen.add(place)
        game = arrays({"map_number": place[0], "x": place[1], **facts})
        records = records.with_state(
            game, tiles=np.array([len(seen)]), maps=np.array([len({m for m, _ in seen})]), subgoals=np.array([0])
        )
        found.append(records)
    return found


def test_a_door_walked_back_and_forth_earns_exactly_nothing() -> None:
    door = walk([(4, 8), (3, 1), *[(4, 8), (3, 1)] * 20])
    for before, after in itertools.pairwise(door[1:]):
        terms = reward_terms(before, after, WEIGHTS)
        assert {name: float(term[0]) for name, term in terms.items() if name != "step" and term[0] != 0} == {}
        assert total_reward(reward_terms(before, after, RewardWeights(step=0.0)))[0] == 0.0
        assert total_reward(terms)[0] == WEIGHTS.step


def test_the_examples_of_the_docstrings() -> None:
    before = Records.none(1).with_state(arrays({}), tiles=np.array([5]), maps=np.array([1]), subgoals=np.array([0]))
    badge = arrays({"johto_badges": 1})
    after = before.with_state(badge, tiles=np.array([6]), maps=np.array([1]), subgoals=np.array([0]))
    earned = {name: float(term[0]) for name, term in reward_terms(before, after, WEIGHTS).items() if term[0]}
    assert earned == {"badges": 100.0, "tiles": 0.1, "step": -0.01}
    state = arrays({"party_count": 1, "level": 7})
    records = Records.none(1).with_state(state, tiles=np.array([12]), maps=np.array([2]), subgoals=np.array([0]))
    assert potential(records, WEIGHTS)[0] == pytest.approx(40.2)


def test_levels_beyond_the_soft_cap_count_a_quarter() -> None:
    worth = [potential(walk([(4, 1)], level=level)[0], WEIGHTS)[0] for level in (0, 5, 6, 22, 26)]
    assert np.diff(worth).tolist() == pytest.approx([0, 5, 80, 5])


@given(st.lists(st.tuples(facts_of_a_game, st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=8))
def test_an_episode_earns_its_last_potential_and_no_step_loses_any(
    steps: list[tuple[dict[str, int], int, int]],
) -> None:
    records, total = Records.none(1), 0.0
    for facts, tiles, maps in steps:
        after = records.with_state(
            arrays(facts), tiles=np.array([tiles]), maps=np.array([maps]), subgoals=np.array([maps])
        )
        terms = reward_terms(records, after, WEIGHTS)
        assert all(term[0] >= 0 for name, term in terms.items() if name != "step")
        total += total_reward(terms)[0]
        records = after
    assert total == pytest.approx(potential(records, WEIGHTS)[0] + len(steps) * WEIGHTS.step)


@pytest.mark.parametrize("wrong", [{"badges": -1.0}, {"step": 0.1}, {"maps": float("inf")}])
def test_impossible_weights_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        RewardWeights(**wrong)


@given(facts_of_a_game, facts_of_a_game)
def test_every_mask_allows_something_and_each_game_has_its_own(one: dict[str, int], other: dict[str, int]) -> None:
    masks = action_masks(arrays(one, other))
    assert masks.shape == (2, NUM_ACTIONS)
    assert masks[:, Action.NONE].all()
    assert masks[:, Action.A].all()
    assert not masks[:, Action.SELECT].any()
    assert (masks[0] == action_masks(arrays(one))[0]).all()
    if one["battle_mode"]:
        assert masks[0, [Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT]].all(), "the menus of battles need them"


def test_the_masks_of_the_docstring() -> None:
    masks = action_masks(arrays({}, {"battle_mode": 1}, {"script": 1}))
    assert masks.astype(int).tolist() == [
        [1, 1, 1, 0, 1, 1, 1, 1, 1],
        [1, 1, 0, 0, 1, 1, 1, 1, 1],
        [1, 1, 0, 0, 0, 0, 0, 0, 1],
    ]


@given(facts_of_a_game)
def test_state_variables_keep_their_bounds(facts: dict[str, int]) -> None:
    variables = state_variables(arrays(facts))
    assert variables.shape == (1, 25)
    assert variables.dtype == np.float32
    assert ((variables >= 0) & (variables <= 1)).all()


def test_state_variables_are_those_of_an_independent_reader() -> None:
    facts = arrays(
        {"x": 4, "y": 5, "map_group": 24, "map_number": 4, "facing": 8, "party_count": 1, "species": 155, "level": 5, "hp": 15,
         "max_hp": 20, "party_hp": 15, "party_max_hp": 20, "party_levels": 5, "party_alive": 1, "money": 3000, "menu": 1,
         "enemy_level": 4, "enemy_hp": 3, "enemy_max_hp": 16}
    )  # fmt: skip
    wanted = dict.fromkeys(STATE_VARIABLES, 0.0) | {
        "x": 4 / 255, "y": 5 / 255, "map_group": 24 / 26, "map_number": 4 / 255, "facing": 8 / 12, "party_count": 1 / 6,
        "species": 155 / 251, "level": 0.05, "hp_share": 0.75, "party_hp_share": 0.75, "party_levels": 5 / 600,
        "alive_share": 1.0, "log_money": 0.5796, "menu_or_script": 1.0,
    }  # fmt: skip
    assert dict(zip(STATE_VARIABLES, state_variables(facts)[0].tolist(), strict=True)) == pytest.approx(
        wanted, abs=1e-4
    )
    battle = facts | {"battle_mode": np.array([1])}
    assert state_variables(battle)[0, STATE_VARIABLES.index("enemy_hp_share")] == pytest.approx(3 / 16)
    assert not state_variables(no_facts(3)).any()
