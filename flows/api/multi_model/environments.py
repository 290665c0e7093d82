"""The games of the reference, which a trainer trains on, and the benchmark of pairs."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from components.environments.registry import family, family_options
from components.environments.social.coop_compete import PairGame
from components.environments.social.rules.base import ACTIONS, JointState, joint_step
from components.errors import ConfigurationError
from components.methods.population.pair_benchmark import run_pair_benchmark
from components.population.pairs import OurMethodPolicy, SimplePG
from flows.api.fields import Count, Share, check_arguments
from flows.api.multi_model.configs import EnvironmentType, MultiModelConfig

FAMILIES: Mapping[EnvironmentType, str] = {
    EnvironmentType.COOPERATIVE_COMPETITIVE: "coop_compete",
    EnvironmentType.MULTI_AGENT_STAGED: "staged",
    EnvironmentType.TEAM_BATTLE: "team_battle",
    EnvironmentType.MAZE_NAVIGATION: "maze",
    EnvironmentType.SOCIAL_INTERACTION: "social_trading",
}
Move = Annotated[int, Field(ge=0, le=1)]
TURNS_OF_AN_OFFER = 3
"""Answers that an offer of social_trading takes: the offer, the reply, and both deliveries at once."""


class MultiModelTrainingEnvironment:
    """A game that a trainer trains on: its type, the seed of its problems, and its own options.

    **Example** `trainer.environment = create_multi_model_coop_compete_env(num_models=8, cooperation_level=0.7)`.
    """

    @check_arguments
    def __init__(self, env_type: EnvironmentType, *, seed: int = 0, **options: Any) -> None:
        """`options` are those of the environment `FAMILIES` names. Raises ConfigurationError for another type or option."""
        self.env_type, self.name, self.seed, self.options = env_type, FAMILIES[env_type], seed, options
        self._checked = family_options(self.name, options)
        self.players = family(self.name).under(self._checked).roles

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
        self._game = PairGame(cooperation_level=cooperation_level, difficulty=difficulty, num_steps=horizon)
        self._state = JointState(seed=seed)

    @check_arguments
    def step(self, action_a: Move, action_b: Move) -> tuple[float, ...]:
        """The rewards of both. After `horizon` steps another episode begins by itself."""
        outcome = joint_step(self._game, self._state, (ACTIONS[action_a], ACTIONS[action_b]))
        following = JointState(seed=self._state.seed, episode=self._state.episode + 1)
        self._state = following if outcome.done else outcome.state
        return outcome.rewards_N


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
