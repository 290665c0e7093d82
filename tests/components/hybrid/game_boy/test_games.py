"""Games depend on seed and buttons alone, snapshots are exact, rewards cannot be farmed, and damaged states have names."""

from typing import Any

import numpy as np
import pytest

from components.errors import ConfigurationError
from components.hybrid.episodes import EpisodeRule
from components.hybrid.errors import SaveStateCorrupt, SaveStateOfOtherRom
from components.hybrid.game_boy.emulator import open_state, seal_state
from components.hybrid.game_facts import LARGEST, GamesStep, grey_screens
from components.hybrid.rewards import RewardWeights
from components.hybrid.subgoals import read_lesson
from tests.components.hybrid.game_boy.one_game import mix_actions, open_games

RULE = EpisodeRule(max_steps=25, subgoals=read_lesson("start: x == 4 and y == 5\nlab: y <= 2", LARGEST).subgoals)


def play(games: Any, steps: int, seed: int = 0) -> list[GamesStep]:
    rng = np.random.default_rng(seed)
    return [games.step(mix_actions(games, rng)) for _ in range(steps)]


def same(one: GamesStep, other: GamesStep, first_game: int = 0) -> bool:
    """Whether the games of `one` from that on have taken the step of `other`."""
    names = [name for name in GamesStep.__slots__ if name not in ("terms", "final_facts")]
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    pairs += [(values, other.final_facts[name]) for name, values in one.final_facts.items()]
    return all(np.array_equal(values[first_game:], others) for values, others in pairs)


def test_a_game_has_its_number_and_knows_no_neighbours_and_frames_that_are_drawn_change_nothing() -> None:
    with open_games(2, rule=RULE) as two, open_games(1, rule=RULE, first_game=1, renders=True) as second:
        rng = np.random.default_rng(0)
        for _ in range(60):
            actions = mix_actions(two, rng)
            assert same(two.step(actions), second.step(actions[1:]), first_game=1)
        assert two.digests()[1:] == second.digests()
        assert two.digests()[0] != second.digests()[0]
        assert two.save_states()[1:] != second.save_states(), "states hold pictures: never compare them"


def test_a_snapshot_goes_on_exactly_in_new_emulators_and_every_part_of_it_counts() -> None:
    with open_games(2, rule=RULE) as games:
        play(games, 33)
        snapshot = games.snapshot()
        straight = play(games, 60, seed=2)
        digests = games.digests()
    with open_games(2, rule=RULE, seed=0) as other:
        fresh = other.snapshot() | {"_met_N_G": np.zeros((2, 2), np.bool_)}

        def resumes_equally(snapshot: dict[str, Any]) -> bool:
            other.restore(snapshot)
            return all(map(same, play(other, 60, seed=2), straight)) and other.digests() == digests

        play(other, 5)
        assert resumes_equally(snapshot)
        for name in ("_met_N_G", "_steps_N", "_episodes_N", "records.tiles", "tiles.0"):
            assert not resumes_equally({**snapshot, name: fresh[name]}), name
        assert not resumes_equally({**snapshot, **{name: fresh[name] for name in ("state.1", "memory.1")}})
        with pytest.raises(ValueError, match="_steps_N"):
            other.restore({**snapshot, "_steps_N": np.zeros(3, np.int64)})


def test_a_screen_is_right_after_a_state_is_loaded() -> None:
    with open_games(1, renders=True) as games:
        play(games, 9)
        snapshot, screen = games.snapshot(), games.screens()
        play(games, 3)
        assert not np.array_equal(games.screens(), screen)
        games.restore(snapshot)
        np.testing.assert_array_equal(games.screens(), screen)
        assert screen.shape == (1, 144, 160, 3)
        assert len(np.unique(screen)) > 1


def test_what_is_seen_is_the_screen_also_at_the_end_of_an_episode_and_after_a_state_is_loaded() -> None:
    with open_games(2, rule=EpisodeRule(max_steps=99), renders=True) as longer:
        play(longer, 25)
        last = grey_screens(longer.screens())
    with open_games(2, rule=RULE, sees_screens=True) as games:
        cut = play(games, 25)[-1]
        assert cut.cut_N.all()
        first = grey_screens(games.screens())
        np.testing.assert_array_equal(cut.final_states_N_S, last)
        np.testing.assert_array_equal(cut.states_N_S, first)
        assert (last != first).any(axis=(1, 2)).all()
        snapshot = games.snapshot()
        play(games, 7)
        games.restore(snapshot)
        np.testing.assert_array_equal(games.states(), first)


def test_an_episode_earns_its_records_term_by_term() -> None:
    weights = RewardWeights(step=0.0)
    rng, total = np.random.default_rng(0), dict.fromkeys([*RewardWeights.__dataclass_fields__], 0.0)
    with open_games(1, rule=EpisodeRule(weights=weights), seed=2) as games:
        for _ in range(120):
            step = games.play(mix_actions(games, rng, competence=1.0))
            assert float(step.rewards_N[0]) == pytest.approx(sum(float(term[0]) for term in step.terms.values()))
            total = {name: total[name] + float(term[0]) for name, term in step.terms.items()}
            if step.ended_N[0]:
                break
        assert (bool(step.ended_N[0]), bool(step.cut_N[0])) == (True, False)
        level = int(games.facts["level"][0])
    assert (total["badges"], total["party"], total["maps"]) == (100, 25, 2), "the first map is no gain"
    assert total["levels"] == 5 * (level - 5)


def test_damaged_and_foreign_states_have_names_and_change_nothing() -> None:
    with open_games(1) as games:
        play(games, 4)
        state, before = games.save_states()[0], games.digests()
        wrong = {
            SaveStateCorrupt: [b"", b"nonsense", state[:-9], state[:-1] + bytes([state[-1] ^ 1]), state[:200]],
            SaveStateOfOtherRom: [seal_state(b"raw", b"another ROM")],
        }
        for error, states in wrong.items():
            for each in states:
                with pytest.raises(error, match=r"start from the beginning, or give a state"):
                    games._emulators[0].load_state(each)
                assert games.digests() == before
        games._emulators[0].load_state(state)
        assert games.digests() == before


def test_a_sealed_state_is_the_state() -> None:
    raw = bytes(range(256)) * 700
    sealed = seal_state(raw, b"rom")
    assert open_state(sealed, b"rom") == raw
    assert len(sealed) < len(raw) / 50


def test_wrong_arguments_are_refused() -> None:
    with open_games(1) as games:
        for actions in (np.array([9]), np.array([-1]), np.array([1, 1])):
            with pytest.raises(ValueError, match="give one of 0 to 8"):
                games.play(actions)
        with pytest.raises(ConfigurationError, match="renders=True"):
            games.screens()
