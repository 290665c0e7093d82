"""The smallest learners of a game of two actions: one number, the logit of cooperating.

`GradientPolicy` is REINFORCE with the episode's mean as baseline and its deviation as scale. Without the division the
step is in units of reward, whose spread here is .05: at any learning rate that is stable elsewhere nothing moves within
hundreds of episodes. `OpponentAwarePolicy` takes larger steps where what it knows of the other fits the game.
"""

from collections.abc import Sequence
from math import exp, fsum, isfinite, log, log1p, sqrt
from random import Random
from typing import Protocol

from components.bounds import checked_share
from components.errors import ConfigurationError

EPSILON = 1e-4
"""As in `components.algorithms.normalisation`."""
MAX_RATIO = 2.0
"""Importance ratios above this count as this (truncated importance sampling)."""

Trajectory = Sequence[tuple[int, float, float]]
"""Steps of one member: action (1 cooperates, 0 competes), its log-probability when it was drawn, reward."""


class CooperationGame(Protocol):
    """What `OpponentAwarePolicy` reads of a game."""

    @property
    def cooperation_level(self) -> float:
        """How much cooperating pays, 0 to 1."""
        ...


class GradientPolicy:
    """A policy gradient on one logit: `theta += lr mean(ratio (a - p) (r - mean r) / std r)`.

    **Example** at theta 0 and lr .5, the steps (1, log .5, 1.0) and (0, log .5, 0.0): advantages 1 and -1, theta .25.
    """

    def __init__(self, lr: float = 0.5, seed: int = 0) -> None:
        """Raises ConfigurationError unless `lr` is above 0. `seed` decides every draw."""
        if not (lr > 0 and isfinite(lr)):
            raise ConfigurationError(f"lr {lr}: use a number above 0")
        self.lr = lr
        self.theta = 0.0
        self._random = Random(seed)

    @property
    def cooperation_probability(self) -> float:
        """The chance of cooperating, 0 to 1."""
        return 1 / (1 + exp(-self.theta))

    def act(self) -> tuple[int, float]:
        """An action, 1 or 0, and its log-probability."""
        action = int(self._random.random() < self.cooperation_probability)
        return action, self.log_probability(action)

    def log_probability(self, action: int) -> float:
        """The log-probability of an action, exact for any logit."""
        signed = self.theta if action else -self.theta
        return -log1p(exp(-signed)) if signed > 0 else signed - log1p(exp(signed))

    def update(self, trajectories: Trajectory) -> None:
        """One step on one episode. An empty one, or one of equal rewards, changes nothing. Raises ConfigurationError."""
        self.theta += self.lr * self._gradient(trajectories)

    def _gradient(self, trajectory: Trajectory) -> float:
        if bad := [
            step for step in trajectory if step[0] not in (0, 1) or not (isfinite(step[1]) and isfinite(step[2]))
        ]:
            raise ConfigurationError(f"trajectory: step {bad[0]}: use action 0 or 1, and finite numbers")
        rewards = [reward for _, _, reward in trajectory]
        if not rewards or min(rewards) == max(rewards):
            return 0.0
        mean = fsum(rewards) / len(rewards)
        deviation = sqrt(fsum((each - mean) ** 2 for each in rewards) / len(rewards))
        p = self.cooperation_probability
        terms = (
            min(MAX_RATIO, exp(min(self.log_probability(action) - before, log(MAX_RATIO)))) * (action - p) * (r - mean)
            for action, before, r in trajectory
        )
        return fsum(terms) / len(rewards) / (deviation + EPSILON)


class OpponentAwarePolicy(GradientPolicy):
    """A policy gradient whose step is scaled by `1 + gain / 2`, with `gain = (2 c - 1) (2 o - 1)`.

    c is the game's level of cooperation, o an average of the other's actions: steps are larger, by up to half, where the
    other does what the game pays for, and smaller where it does not.
    """

    def __init__(self, lr: float = 0.5, momentum: float = 0.9, seed: int = 0) -> None:
        super().__init__(lr, seed)
        self.momentum = checked_share("momentum", momentum)
        self.opp_coop_est = 0.5

    def observe_opponent(self, opp_action: int) -> None:
        """Take the other's action into the average: `o = momentum o + (1 - momentum) action`.

        **Example** .5 after it cooperates, at .9: .55.
        """
        if opp_action not in (0, 1):
            raise ConfigurationError(f"opp_action {opp_action!r}: use 0 or 1")
        self.opp_coop_est = self.momentum * self.opp_coop_est + (1 - self.momentum) * opp_action

    def step_scale(self, game: CooperationGame) -> float:
        """What the step is multiplied by, .5 to 1.5.

        **Example** level .6, the other always cooperates: 1.1.
        """
        return 1 + 0.5 * (2 * game.cooperation_level - 1) * (2 * self.opp_coop_est - 1)

    def update(self, trajectories: Trajectory, env: CooperationGame | None = None) -> None:
        """One step on one episode of the game `env`, which decides the scale."""
        if env is None:
            raise ConfigurationError("env: give the game of the episode, as update(steps, env)")
        self.theta += self.lr * self.step_scale(env) * self._gradient(trajectories)
