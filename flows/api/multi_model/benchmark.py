"""The benchmark of two learners that cooperate or compete, with the documented names."""

from typing import Any

from components.methods.population.pair_benchmark import run_pair_benchmark
from components.population.pairs import OurMethodPolicy, SimplePG
from flows.api.multi_model.environments import create_multi_model_coop_compete_env
from flows.api.multi_model.fields import Count, Share, check_arguments

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
