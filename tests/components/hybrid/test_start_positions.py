"""Practice begins where play has been, more where it is rare, and ever less of it."""

import numpy as np

from components.config.hybrid import StartsConfig
from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_facts import Action
from components.hybrid.start_positions import GamesFromPositions, section_names
from components.hybrid.twin import Twin
from tests.components.hybrid.scripted_play import competent_actions


def play(share: float, steps: int, *, num_games: int = 8, decay: float = 1.0) -> GamesFromPositions:
    """Games of 60 steps by the competent player."""
    rule = StartsConfig(share=share, last_share=0.0, decay=decay)
    games = GamesFromPositions(Twin(num_games, seed=0, rule=EpisodeRule(max_steps=60, goal_badges=2)), rule, seed=0)
    for _ in range(steps):
        games.step(competent_actions(games.facts))
    return games


def test_play_finds_the_sections_of_the_way_and_episodes_begin_there() -> None:
    games = play(1.0, 61)
    assert {"party 1, badges 0, map 24.4", "party 1, badges 0, map 24.3", "party 1, badges 1, map 24.3"} <= set(
        games.sections
    )
    assert not games.from_start_N.any(), "all share"
    assert len(set(section_names(games.facts))) > 1
    assert (games.facts["party_count"] == 1).all()


def test_without_a_share_all_begin_at_the_start() -> None:
    games = play(0.0, 60)
    assert games.from_start_N.all()
    assert (games.facts["party_count"] == 0).all()


def test_what_a_position_has_reached_is_not_paid_again_and_its_clock_is_new() -> None:
    twin = Twin(2, seed=0, rule=EpisodeRule(max_steps=40))
    for _ in range(20):
        twin.step(competent_actions(twin.facts))
    position, other = twin.position(0), Twin(2, seed=1, rule=EpisodeRule(max_steps=40))
    other.begin_at(1, position)
    step = other.step(np.array([Action.NONE, Action.NONE]))
    assert step.rewards_N[1] == step.terms["step"][1]
    assert step.lengths_N.tolist() == [1, 1]
    assert other.facts["party_count"].tolist() == [0, 1]


def test_the_share_decays_with_episodes_from_the_true_start() -> None:
    games = play(0.5, 600, decay=0.9)
    assert games.curriculum.num_episodes > 20
    assert games.curriculum.llm_confidence < 0.1
