"""petting_zoo: any parallel game of PettingZoo with discrete actions, by its module."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import Field

from components.environments.base import JointStep
from components.environments.social.game import SocialGame, join_choices, member_names, place_of
from components.environments.social.petting_games import PettingState, petting_game
from components.frozen import Settings

ACTION_NAMES: Mapping[tuple[str, int], tuple[str, ...]] = {
    ("pettingzoo.classic.rps", 3): ("rock", "paper", "scissors"),
    ("mpe2.simple", 5): ("stay", "left", "right", "down", "up"),
    ("pettingzoo.sisl.pursuit", 5): ("left", "right", "up", "down", "stay"),
    ("pettingzoo.butterfly.knights_archers_zombies", 6): (
        "forward",
        "back",
        "turn left",
        "turn right",
        "attack",
        "stay",
    ),
    ("pettingzoo.butterfly.cooperative_pong", 3): ("stay", "up", "down"),
}
"""(beginning of a module's name, number of actions) -> their names, in the game's order."""
_MOST_NUMBERS = 512


class PettingZooOptions(Settings):
    """The options of petting_zoo."""

    game: str = "pettingzoo.classic.rps_v2"
    """The module of a parallel game, such as mpe2.simple_spread_v3."""
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Parameters of the game's `parallel_env`."""
    max_steps: int = Field(25, ge=1, le=10_000)
    """Joint steps after which an episode ends, if the game does not end before; `environment.max_turns` must allow as many."""
    action_names: tuple[str, ...] = ()
    """Words for the actions, for the agents that have as many; else the game's own if they are known, or numbers."""
    observation_names: tuple[str, ...] = ()
    """Words for the numbers of an observation, for the agents that see as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Petting:
    """A game's state and how it is told."""

    played: PettingState
    max_steps: int
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]

    @property
    def seed(self) -> int:
        """The seed of the problem."""
        return self.played.seed

    @property
    def num_steps(self) -> int:
        """The joint steps so far."""
        return self.played.num_steps


class PettingZooEnvironment(SocialGame):
    """Parallel games of PettingZoo. A problem is a game and the seed of its reset; `player_i` is the i-th of its agents.

    Payoffs are the game's rewards. `solved`: the game was played to its end, or for `max_steps`.
    """

    roles = member_names(2)
    Options = PettingZooOptions

    def roles_for(self, options: PettingZooOptions) -> tuple[str, ...]:
        return member_names(len(petting_game(options.game, options.parameters).agents))

    def start(self, problem: Mapping[str, Any]) -> Petting:
        return Petting(
            played=petting_game(problem["game"], problem["parameters"]).start(problem["seed"]),
            max_steps=problem["max_steps"],
            action_names=tuple(problem["action_names"]),
            observation_names=tuple(problem["observation_names"]),
        )

    def next_role(self, state: Petting) -> tuple[str, ...] | None:
        return tuple(f"player_{member}" for member in state.played.acting) or None

    def choices(self, state: Petting, agent: str) -> tuple[str, ...]:
        return tuple(_actions(state, place_of(agent)))

    def longest_answer(self, options: PettingZooOptions) -> int:
        game = petting_game(options.game, options.parameters)
        names = [_names(options.game, options.action_names, count) for count in game.num_actions]
        return max(len(name) for each in names for name in each)

    def after(self, state: Petting, played: Mapping[str, str]) -> JointStep:
        agents = state.played.game.agents
        chosen = {agents[place_of(agent)]: _actions(state, place_of(agent))[text] for agent, text in played.items()}
        after = state.played.game.after(state.played, chosen)
        done = not after.acting or after.num_steps >= state.max_steps
        earned = {f"player_{member}": after.rewards.get(agent, 0.0) for member, agent in enumerate(agents)}
        return JointStep(
            state=replace(state, played=after),
            solved=done,
            done=done,
            payoffs=earned,
        )

    def observe(self, state: Petting, agent: str) -> str:
        member = place_of(agent)
        played = state.played
        name = played.game.agents[member]
        seen = observation_text(played.seen[name], state.observation_names)
        asked = f"\n{join_choices(self.choices(state, agent))}?" if member in played.acting else ""
        return f"{agent} ({name}), step {state.num_steps + 1} of {state.max_steps}\n{seen}{asked}"

    def instructions(self, state: Petting, agent: str) -> str:
        game = state.played.game
        title = game.key[0].rpartition(".")[2].rpartition("_v")[0].replace("_", " ")
        return (
            f"You are {agent}, called {game.agents[place_of(agent)]}, one of {len(game.agents)} players of the game {title}, "
            "who all act at once. You see the numbers of your observation.\n"
            f"Answer with one of these and nothing else: {join_choices(self.choices(state, agent))}."
        )

    def render(self, state: Petting) -> str:
        rewards = " ".join(f"{agent} {paid:.3f}" for agent, paid in state.played.rewards.items())
        return f"{state.played.game.key[0]}, {state.num_steps} steps" + (
            f"\nlast rewards: {rewards}" if rewards else ""
        )


def observation_text(seen: Any, names: tuple[str, ...] = ()) -> str:
    """An observation as text: numbers with two decimals, a small map of channels with one character for each cell.

    In a map a cell shows the number of its last channel that is not 0.

    **Example** [0.5, -1] is ".5 -1", with names "x .5 y -1".
    """
    array = np.asarray(seen["observation"] if isinstance(seen, Mapping) else seen)
    if array.ndim == 3 and array.shape[0] * array.shape[1] <= _MOST_NUMBERS:
        return "\n".join(
            "".join(_cell(array[row, column]) for column in range(array.shape[1])) for row in range(len(array))
        )
    numbers = array.reshape(-1)
    if len(numbers) > _MOST_NUMBERS:
        numbers = numbers[:: -(-len(numbers) // _MOST_NUMBERS)]  # a picture: every so many-th number
    if array.ndim == 2:
        return "\n".join(" ".join(map(_number, row)) for row in array if row.any())
    told = [_number(value) for value in numbers]
    return " ".join(told if len(names) != len(told) else map(" ".join, zip(names, told, strict=True)))


def _cell(channels: Any) -> str:
    marked = [number for number, value in enumerate(channels) if value]
    return str(min(marked[-1] + 1, 9)) if marked else "."


def _number(value: Any) -> str:
    """**Example** .5, -1, 0."""
    text = f"{float(value):.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0", "0") else text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _names(module: str, given: tuple[str, ...], count: int) -> tuple[str, ...]:
    if len(given) == count:
        return given
    known = (names for (beginning, num), names in ACTION_NAMES.items() if num == count and module.startswith(beginning))
    return next(known, tuple(map(str, range(count))))


def _actions(state: Petting, member: int) -> dict[str, int]:
    """Choice -> action."""
    game = state.played.game
    names = _names(game.key[0], state.action_names, game.num_actions[member])
    return {names[action - game.first_action[member]]: action for action in state.played.legal(member)}
