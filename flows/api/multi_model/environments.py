"""The games of the reference, to be stepped by hand or given to a trainer."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.methods.population.pair_benchmark import run_pair_benchmark
from components.population.pairs import OurMethodPolicy, SimplePG
from components.text.suggestions import suggest
from flows.api.fields import Count, Share, check_arguments
from flows.api.multi_model.configs import EnvironmentType, MultiModelConfig

FAMILIES: Mapping[EnvironmentType, str] = {
    EnvironmentType.COOPERATIVE_COMPETITIVE: "coop_compete",
    EnvironmentType.MULTI_AGENT_STAGED: "staged",
    EnvironmentType.TEAM_BATTLE: "team_battle",
    EnvironmentType.MAZE_NAVIGATION: "maze",
    EnvironmentType.SOCIAL_INTERACTION: "social_trading",
}
TURNS_OF_AN_OFFER = 3
"""Answers that an offer of social_trading takes: the offer, the reply, and both deliveries at once."""


class MultiModelTrainingEnvironment:
    """A game by its type and its own options; all members act at once, or in turn, as `players_to_act` says.

    **Example**

        env = create_multi_model_coop_compete_env(num_models=2, cooperation_level=0.6)
        env.reset()
        state, rewards, done, info = env.step({"player_0": "cooperate", "player_1": 1})  # rewards of about .85 each
    """

    @check_arguments
    def __init__(self, env_type: EnvironmentType, *, seed: int = 0, **options: Any) -> None:
        """`options` are those of the environment `FAMILIES` names. Raises ConfigurationError for another type or option."""
        self.env_type, self.name, self.seed = env_type, FAMILIES[env_type], seed
        self.options = dict(options)
        self._checked = family_options(self.name, self.options)
        self._family = family(self.name).under(self._checked)
        self._game: Any = self._family.environment
        self.players = self._family.roles
        self._index = -1
        self._state: Any = None

    def reset(self) -> dict[str, str]:
        """Begin another episode; what each player sees."""
        self._index += 1
        problem = self._family.problem(self._checked, split="train", index=self._index, seed=self.seed)
        self._state = self._game.start(problem.payload)
        return self._observe(self._state)

    def players_to_act(self) -> tuple[str, ...]:
        """Whose actions the next `step` takes. Raises ConfigurationError before `reset`."""
        turn = self._game.next_role(self._read_state())
        return (turn,) if isinstance(turn, str) else tuple(turn)

    def actions(self, player: str) -> tuple[str, ...]:
        """What a player may answer now. Raises ConfigurationError before `reset`, and for an unknown player."""
        return tuple(self._game.choices(self._read_state(player), player))

    def step(self, actions: Mapping[str, str | int]) -> tuple[dict[str, str], dict[str, float], bool, dict[str, Any]]:
        """What each player sees then, what each earned, whether the episode is over, and `info`.

        An action is one of `actions`, or its number: 1 cooperates and 0 competes. Raises ConfigurationError for a wrong player
        or action, and then nothing has happened.
        """
        state, acting = self._read_state(), self.players_to_act()
        if not isinstance(actions, Mapping) or set(actions) != set(acting):
            raise ConfigurationError(f"actions {actions!r}: the players who act now are {', '.join(acting)}")
        outcome = self._game.step_together(state, {each: self._choice(each, actions[each]) for each in acting})
        self._state = None if outcome.done else outcome.state
        rewards = {each: float(outcome.payoffs.get(each, 0.0)) for each in self.players}
        info = {"solved": outcome.solved, "team": dict(outcome.team), "players": list(acting)}
        return self._observe(outcome.state), rewards, outcome.done, info

    def fit(self, num_models: int, episode_length: int) -> "MultiModelTrainingEnvironment":
        """This game for so many members, and of so many steps, unless it has its own.

        Raises ConfigurationError for a length beside the game's own, and for fewer players than members.
        """
        options, fields = dict(self.options), type(self._checked).model_fields
        if "num_members" in fields and self.env_type is not EnvironmentType.TEAM_BATTLE:
            options.setdefault("num_members", num_models)
        own = options.setdefault("num_rounds" if "num_rounds" in fields else "num_steps", episode_length)
        if episode_length not in (own, MultiModelConfig.episode_length):
            raise ConfigurationError(
                f"episode_length {episode_length}: the environment has {own} steps of its own; leave one of them out"
            )
        fitting = MultiModelTrainingEnvironment(self.env_type, seed=self.seed, **options)
        if (num := len(fitting.players)) < num_models:
            raise ConfigurationError(
                f"num_models {num_models}: the environment {self.name} has {num} players; use num_models {num} or fewer, or "
                f"make the environment with {num_models} players"
            )
        return fitting

    def section(self) -> dict[str, Any]:
        """The section `environment` of a configuration that trains on this game, which has a length."""
        rounds = self.options.get("num_rounds")
        turns = self.options["num_steps"] if rounds is None else rounds * TURNS_OF_AN_OFFER
        return {"name": self.name, "options": self.options, "max_turns": turns, "answer_format": "choice"}

    def _observe(self, state: Any) -> dict[str, str]:
        return {each: self._game.observe(state, each) for each in self.players}

    def _read_state(self, player: str | None = None) -> Any:
        """The state of the episode that is played. Raises ConfigurationError for none, and for an unknown player."""
        if player is not None and player not in self.players:
            raise ConfigurationError(f"player {player!r}: {suggest(str(player), self.players)}")
        if self._state is None:
            raise ConfigurationError("environment: no episode is under way; call reset()")
        return self._state

    def _choice(self, player: str, action: str | int) -> str:
        choices = self.actions(player)
        if isinstance(action, Integral) and not isinstance(action, bool) and 0 <= int(action) < len(choices):
            return choices[int(action)]
        if action not in choices:
            raise ConfigurationError(f"actions[{player!r}] {action!r}: use one of {', '.join(choices)}, or its number")
        return str(action)


def create_multi_model_coop_compete_env(
    num_models: int = 8, cooperation_level: float = 0.6, **options: Any
) -> MultiModelTrainingEnvironment:
    """Cooperate or compete: two pure equilibria, reached by where play starts. Raises ConfigurationError."""
    given = {"num_members": num_models, "cooperation_level": cooperation_level, **options}
    return MultiModelTrainingEnvironment(EnvironmentType.COOPERATIVE_COMPETITIVE, **given)


def create_multi_model_team_battle(**options: Any) -> MultiModelTrainingEnvironment:
    """Two teams of four."""
    return MultiModelTrainingEnvironment(EnvironmentType.TEAM_BATTLE, **options)


def create_multi_model_staged_env(num_models: int = 8, **options: Any) -> MultiModelTrainingEnvironment:
    """A warm-up, then a game in which some members gain by competing; `warmup_episodes` is an option."""
    return MultiModelTrainingEnvironment(EnvironmentType.MULTI_AGENT_STAGED, **{"num_members": num_models, **options})


def create_maze_training_env(complexity: str = "medium", **options: Any) -> MultiModelTrainingEnvironment:
    """A maze: simple, medium, complex or drawn."""
    return MultiModelTrainingEnvironment(EnvironmentType.MAZE_NAVIGATION, **{"layout": complexity, **options})


def create_social_training_env(
    scenario: str = "trading", num_models: int = 6, **options: Any
) -> MultiModelTrainingEnvironment:
    """Trading by typed offers and promises. Raises ConfigurationError for another scenario."""
    if scenario != "trading":
        raise ConfigurationError(
            f"scenario {scenario!r}: use trading; negotiation is option game bargaining of the environment open_spiel"
        )
    return MultiModelTrainingEnvironment(EnvironmentType.SOCIAL_INTERACTION, **{"num_members": num_models, **options})


__all__ = ["CoopCompeteEnv", "OurMethodPolicy", "SimplePG", "run_benchmark"]


class CoopCompeteEnv:
    """The game of two, step by step: 1 cooperates, 0 competes.

    **Example** `CoopCompeteEnv(0.6, 0.3).step(1, 1)` is two rewards around .85.
    """

    @check_arguments
    def __init__(
        self, cooperation_level: Share = 0.6, difficulty: Share = 0.3, horizon: Count = 32, seed: int = 42
    ) -> None:
        """Raises ConfigurationError for a level or difficulty outside of 0 to 1."""
        self.cooperation_level, self.difficulty = cooperation_level, difficulty
        self._game = create_multi_model_coop_compete_env(
            2, cooperation_level, difficulty=difficulty, num_steps=horizon, seed=seed
        )
        self._game.reset()

    def step(self, action_a: int, action_b: int) -> tuple[float, float]:
        """The rewards of both. After `horizon` steps another episode begins by itself. Raises ConfigurationError."""
        first, second = self._game.players
        _, rewards, done, _ = self._game.step({first: action_a, second: action_b})
        if done:
            self._game.reset()
        return rewards[first], rewards[second]


@check_arguments
def run_benchmark(
    runs: Count = 5,
    episodes: Count = 200,
    coop_level: Share = 0.6,
    difficulty: Share = 0.3,
    horizon: Count = 32,
    seed: int = 42,
) -> dict[str, Any]:
    """What `run_pair_benchmark` reports: pairs that always cooperate, always compete, learn, and learn and know their opponent.

    **Example** the defaults: `metrics.PG.last_20_mean` .847. Raises ConfigurationError.
    """
    return run_pair_benchmark(
        runs=runs, episodes=episodes, coop_level=coop_level, difficulty=difficulty, horizon=horizon, seed=seed
    )
