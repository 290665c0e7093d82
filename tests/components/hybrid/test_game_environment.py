"""The cartridge by name: it is played as the twin is, its expert wins, and what cannot be pressed is malformed."""

import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from pydantic import ValidationError

from components.environments.registry import family, family_options
from components.errors import MalformedAction, ServiceMissing
from components.hybrid.episodes import EpisodeRule
from components.hybrid.errors import RomMissing
from components.hybrid.game_environment import PLAYER, GameBoyEnvironment, GameBoyOptions
from components.hybrid.language_model import WORDS
from components.hybrid.twin import Twin

ACTIONS = {word: action for action, word in WORDS.items()}
GAME = GameBoyEnvironment()


def test_it_is_played_as_the_twin_of_its_seed_and_earns_as_much() -> None:
    state = GAME.start({"seed": 7, "goal_badges": 1})
    twin, rng, earned, paid = Twin(1, seed=7, rule=EpisodeRule(goal_badges=9, max_steps=10_000)), Random(1), 0.0, 0.0
    for _ in range(200):
        assert np.array_equal(
            twin.masks()[0], [any(word == WORDS[action] for word in GAME.choices(state, PLAYER)) for action in WORDS]
        )
        before, answer = state.game["facts.x"].copy(), GAME.noisy_expert(state, PLAYER, noise=0.2, rng=rng)
        step = GAME.step(state, PLAYER, answer)
        assert np.array_equal(state.game["facts.x"], before), "a state is never changed"
        earned += step.payoffs[PLAYER]
        paid += float(twin.step(np.array([ACTIONS[answer]])).rewards_N[0])
        state = step.state
    assert all(np.array_equal(values, state.game[name]) for name, values in twin.snapshot().items())
    assert earned == pytest.approx(paid)


@pytest.mark.parametrize("goal_badges", [1, 2])
def test_its_expert_solves_it_and_is_asked_in_words(goal_badges: int) -> None:
    known = family("game_boy", "choice")
    problem = known.problem(
        family_options("game_boy", {"goal_badges": goal_badges, "game": "twin"}), split="test", index=0, seed=0
    )
    played = known.build(problem)
    assert "You are in the town at column 4, row 5" in GAME.observe(GAME.start(problem.payload), PLAYER)
    for _ in range(600):
        if played.apply(PLAYER, known.expert_action(played.position, PLAYER)).done:
            break
    assert played.position.state.game["facts.johto_badges"][0] == goal_badges


def test_what_cannot_be_pressed_is_malformed() -> None:
    state = GAME.start(GAME.draw(GameBoyOptions(game="twin"), Random(0)))
    for answer in ("Select", "a", "Left, Left", ""):
        with pytest.raises(MalformedAction, match="no button that can be pressed now"):
            GAME.step(state, PLAYER, answer)


def test_a_problem_names_its_game_but_for_the_rules_alone() -> None:
    names = [
        GAME.draw(GameBoyOptions(**({"game": game} if game else {})), Random(0)).get("game") for game in ("", "twin")
    ]
    assert names == ["homebrew", None]


def test_on_the_cartridge_each_state_goes_on_alone() -> None:
    pytest.importorskip("pyboy")
    problem = GAME.draw(GameBoyOptions(goal_badges=1), Random(3))
    first, other = GAME.start(problem), GAME.start({**problem, "seed": 8})

    def play(*, between: bool) -> list[object]:
        state, said = first, []
        for step in range(60):
            if between:
                GAME.step(other, PLAYER, "Down")
            brought = GAME.step(state, PLAYER, GAME.noisy_expert(state, PLAYER, noise=0.2, rng=Random(step)))
            state = brought.state
            said.append((GAME.observe(state, PLAYER), brought.payoffs))
        return [*said, {name: values.tobytes() for name, values in state.game.items() if "state" not in name}]

    alone = play(between=False)
    assert alone == play(between=True)
    assert len({str(each) for each in alone}) > 30


def test_the_expert_wins_on_the_cartridge() -> None:
    pytest.importorskip("pyboy")
    known = family("game_boy", "choice")
    options = family_options("game_boy", {"goal_badges": 1})
    play = known.build(known.problem(options, split="test", index=0, seed=0))
    for _ in range(300):
        if play.apply(PLAYER, known.expert_action(play.position, PLAYER)).done:
            break
    assert play.success


def test_without_the_emulator_the_error_names_the_extra_and_the_rules_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("one_game", "pyboy_emulator"):
        monkeypatch.delitem(sys.modules, f"components.hybrid.game_boy.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "pyboy", None)
    with pytest.raises(
        ServiceMissing, match=r"PyBoy is not installed: .*(make extras|hybrid).*; or set game to twin, which plays"
    ):
        GAME.start(GAME.draw(GameBoyOptions(), Random(0)))
    GAME.start(GAME.draw(GameBoyOptions(game="twin"), Random(0)))


def test_a_copy_that_is_not_there_and_a_window_without_a_screen_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match="game twin has no screen"):
        GameBoyOptions(window=True, game="twin")
    pytest.importorskip("pyboy")
    with pytest.raises(RomMissing, match=r"rom roms/x.gbc: there is no such file"):
        GAME.start(GAME.draw(GameBoyOptions(game=Path("roms/x.gbc")), Random(0)))
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.raises(ServiceMissing, match="start it where there is a screen, which DISPLAY names"):
        GAME.start(GAME.draw(GameBoyOptions(window=True), Random(0)))
