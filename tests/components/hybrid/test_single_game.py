"""One game, button by button: what a step earns, what the episode has reached, and that a seed decides it."""

import pytest

from components.hybrid.game_environment import competent_action
from components.hybrid.game_facts import Action
from components.hybrid.rewards import RewardWeights
from components.hybrid.single_game import HOMEBREW, TWIN, SingleGame


@pytest.mark.parametrize("rom", [TWIN, HOMEBREW])
def test_a_step_earns_its_terms_and_the_state_counts_what_was_reached(rom: str) -> None:
    with SingleGame(rom, weights=RewardWeights(tiles=3.0, step=-0.5)) as game:
        game.begin(7)
        start = game.state
        assert (start["visited_tiles"], start["visited_maps"], start["idle_steps"]) == (1, 1, 0)
        terms = game.press(Action.DOWN)
        assert (terms["tiles"], terms["step"], sum(terms.values())) == (3.0, -0.5, 2.5)
        assert game.state["potential"] - start["potential"] == 3.0
        for number in range(1, 4):
            assert sum(game.press(Action.NONE).values()) == -0.5
            assert (game.state["visited_tiles"], game.state["idle_steps"]) == (2, number)
        assert game.facts["y"] == start["y"] + 1
        assert game.variables_S.shape == (25,)
        game.begin(7)
        assert game.state == start


def test_equal_seeds_and_buttons_give_equal_games_and_others_do_not() -> None:
    games = []
    for seed in (1, 1, 2):
        with SingleGame(TWIN) as game:
            game.begin(seed)
            seen = []
            for _ in range(200):
                game.press(competent_action(game.facts))
                seen.append(game.state)
        games.append(seen)
    assert games[0] == games[1] != games[2]
