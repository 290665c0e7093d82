"""PettingZoo behind the environment: exact clones or replays, the game's own rewards, texts, and what is refused."""

import copy
import pickle
import sys
from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

from components.environments.social import petting_games
from components.environments.social.petting_games import PettingGame, clone_game, petting_game
from components.environments.social.petting_zoo import observation_text
from components.errors import ConfigurationError, ServiceMissing
from tests.components.environments.social.games import Line, make_problem

MODULES = ("mpe2.simple_tag_v3", "mpe2.simple_spread_v3", "pettingzoo.classic.rps_v2")


@pytest.mark.parametrize("module", MODULES)
def test_the_games_own_rewards_are_paid(module: str) -> None:
    """The same seed and actions, played by PettingZoo alone."""
    known, problem = make_problem("petting_zoo", {"game": module, "max_steps": 6}, 4)
    line, rng = Line(known, problem), Random(4)
    paid = [[outcome.local["payoff"] for outcome in line.advance(phase, line.drawn(phase, rng))] for phase, _ in line]
    state = line.position.state.played
    alone = petting_game(module, {}).make()
    alone.reset(seed=state.seed % 2**31)
    for step, rewards in zip(state.steps, paid, strict=True):
        assert list(alone.step(dict(step))[1].values()) == pytest.approx(rewards)
    assert len(paid) == 6


def test_deepcopy_of_a_game_is_another_game_and_a_clone_is_not() -> None:
    """The reason for `clone_game`: after a copy by deepcopy the very next step fails or differs."""
    game = petting_game("mpe2.simple_spread_v3", {})
    live = game.start(3).live
    live.step(dict.fromkeys(live.agents, 1))
    actions = dict.fromkeys(live.agents, 2)
    with pytest.raises(AttributeError):
        copy.deepcopy(live).step(actions)
    first, second = clone_game(live), clone_game(live)
    first.step(dict.fromkeys(live.agents, 4))
    assert second.step(actions)[1] == live.step(actions)[1]


def test_a_game_whose_clones_are_wrong_is_replayed_and_one_by_chance_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(petting_games, "clone_game", copy.deepcopy)
    game = PettingGame(("mpe2.simple_spread_v3", "{}"))
    assert game.copying == "replay"
    monkeypatch.undo()
    exact, rng = PettingGame(("mpe2.simple_spread_v3", "{}")), Random(1)
    assert exact.copying == "clone"
    one, other = game.start(5), exact.start(5)
    for _ in range(4):
        actions = petting_games.random_actions(one, rng)
        one, other = game.after(one, actions), exact.after(other, actions)
        assert one.rewards == other.rewards

    original, whim = PettingGame.start, Random(0)
    monkeypatch.setattr(PettingGame, "start", lambda self, seed: original(self, whim.randrange(2**31)))
    with pytest.raises(ConfigurationError, match=r"'mpe2\.simple_spread_v3': it neither clones nor replays exactly"):
        PettingGame(("mpe2.simple_spread_v3", "{}"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"game": "mpe2.simple_spred_v3"}, r"no such module; did you mean 'mpe2\.simple_spread_v3'"),
        ({"game": "pettingzoo.classic.tictactoe_v3"}, r"it has no parallel_env; games in turns have none"),
        ({"game": "pettingzoo.mpe.simple_v3"}, r"MPE has been moved into its own package"),
        (
            {"game": "mpe2.simple_v3", "parameters": {"continuous_actions": True}},
            r"acts in Box.*continuous_actions: false",
        ),
        ({"game": "mpe2.simple_v3", "parameters": {"size": 3}}, r"parameters .*refuses them: .*'size'"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_problem("petting_zoo", options)


def test_a_library_that_a_game_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = petting_games.import_module

    def missing(name: str) -> Any:
        if name in ("pettingzoo", "mpe2.simple_v3"):
            lacking = "pettingzoo" if name == "pettingzoo" else "pymunk"
            raise ModuleNotFoundError(f"No module named {lacking!r}", name=lacking)
        return real(name)

    petting_games._game_types.cache_clear()
    monkeypatch.setattr(petting_games, "import_module", missing)
    with pytest.raises(ServiceMissing, match=r"PettingZoo is not installed; .*pip install 'troupe\[populations\]'"):
        petting_games.import_game("mpe2.simple_v3")
    monkeypatch.setattr(petting_games, "_game_types", lambda: ())
    with pytest.raises(ConfigurationError, match=r"'mpe2\.simple_v3': needs pymunk, which is not installed"):
        petting_games.import_game("mpe2.simple_v3")


def test_observations_as_text() -> None:
    assert observation_text(np.array([0.5, -1.0, 0.0, 12.345, -0.25, -0.001])) == ".5 -1 0 12.35 -.25 0"
    assert observation_text(np.array([0.5, -1.0]), ("x", "y")) == "x .5 y -1"
    assert observation_text(np.array([0.5]), ("x", "y")) == ".5"
    channels = np.zeros((2, 3, 2))
    channels[0, 1, 0] = channels[1, 2, 1] = channels[1, 2, 0] = 1
    assert observation_text(channels) == ".1.\n..2"
    assert observation_text({"observation": np.array([[0, 0], [1, 2]]), "action_mask": [1]}) == "1 2"


def test_a_mask_leaves_the_legal_actions() -> None:
    game = SimpleNamespace(agents=("a",), first_action=(1,), num_actions=(3,))
    masked = petting_games.PettingState(
        game=game,  # type: ignore[arg-type]
        seed=0,
        live=SimpleNamespace(agents=["a"]),
        seen={"a": {"observation": 0, "action_mask": np.array([0, 1, 1])}},
    )
    assert masked.legal(0) == [2, 3]


class Masked(ParallelEnv):  # type: ignore[type-arg]
    """Step k allows action k alone, as its infos say, and fails at every other one."""

    metadata: ClassVar[dict[str, Any]] = {"name": "masked"}
    possible_agents: ClassVar[list[str]] = ["red", "green"]

    def __init__(self, num_entries: int = 3) -> None:
        self.num_entries = num_entries

    def observation_space(self, agent: str) -> Box:
        return Box(0, 9, (1,), dtype=np.float32)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(3)

    def told(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self.mask = np.arange(self.num_entries) == self.num_steps % 3
        return (
            dict.fromkeys(self.agents, np.zeros(1, dtype=np.float32)),
            {"red": {"action_mask": self.mask}, "green": {}},
        )

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, self.num_steps = list(self.possible_agents), 0
        return self.told()

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        assert actions["red"] == self.num_steps % 3, "illegal"
        self.num_steps += 1
        seen, infos = self.told()
        no = dict.fromkeys(self.agents, False)
        return seen, dict.fromkeys(self.agents, 0.0), no, no, infos


def test_actions_that_infos_mask_are_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "masked_by_infos", SimpleNamespace(parallel_env=Masked))
    line, rng = Line(*make_problem("petting_zoo", {"game": "masked_by_infos", "max_steps": 5})), Random(0)
    for step, (phase, position) in enumerate(line):
        choices = [line.referee.rules.choices(position.state, agent) for agent in phase.agents]
        assert choices == [(str(step % 3),), ("0", "1", "2")]
        line.advance(phase, line.drawn(phase, rng))
    assert line.position.state.num_steps == 5
    again = pickle.loads(pickle.dumps(line.position.state.played))
    assert again.legal(0) == line.position.state.played.legal(0) == [2]
    with pytest.raises(
        ConfigurationError, match="the action_mask of red has 2 entries for 3 actions; correct the game"
    ):
        make_problem("petting_zoo", {"game": "masked_by_infos", "parameters": {"num_entries": 2}})
