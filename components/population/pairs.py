"""Pairs of a game of two: some always cooperate, some always compete, and two kinds learn the logit of cooperating.

`SimplePG` is REINFORCE with the episode's mean as baseline and its deviation as scale: without the scale, rewards that vary by
.05 move nothing within hundreds of episodes. Both kinds of learners start from one seed and meet one stream of noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, isfinite, log, log1p
from random import Random
from typing import Any, Literal

from components.config.bounds import check_share
from components.errors import ConfigurationError
from components.identity import seed_for
from components.metrics import population_std
from components.population.interaction_graph import Action

ACTIONS: tuple[Action, ...] = ("compete", "cooperate")
"""In the order of the numbers 0 and 1."""
EPSILON = 1e-4
"""As in `components.algorithms.normalisation`."""
MAX_RATIO = 2.0
"""Importance ratios above this count as this (truncated importance sampling)."""
Trajectory = Sequence[tuple[int, float, float]]
"""Steps of one member: action (1 cooperates, 0 competes), its log-probability when it was drawn, reward."""
Kind = Literal["AC", "AP", "PG", "OUR"]
KINDS: tuple[Kind, ...] = ("AC", "AP", "PG", "OUR")
"""Always cooperate, always compete, policy gradient, policy gradient that knows its opponent."""
TARGET_SHARE = 0.9
"""The target lies at this share of the way from two coin flips to the best pair of actions."""
LAST_EPISODES = 20


class SimplePG:
    """A policy gradient on one logit: `theta += lr mean(ratio (a - p) (r - mean r) / std r)`.

    **Example** at theta 0 and lr .5, the steps (1, log .5, 1.0) and (0, log .5, 0.0): advantages 1 and -1, theta .25.
    """

    def __init__(self, lr: float = 0.5, seed: int = 0) -> None:
        """Raises ConfigurationError unless `lr` is above 0. `seed` decides every draw."""
        if not isinstance(lr, int | float) or not (lr > 0 and isfinite(lr)):
            raise ConfigurationError(f"lr {lr!r}: use a number above 0")
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
        for row in trajectory:
            if len(row) != 3 or row[0] not in (0, 1) or not (isfinite(row[1]) and isfinite(row[2])):
                raise ConfigurationError(f"trajectories: {row!r}: give action (1 or 0), log-probability, reward")
        rewards = [reward for _, _, reward in trajectory]
        if not rewards or min(rewards) == max(rewards):
            return 0.0
        mean, p = fsum(rewards) / len(rewards), self.cooperation_probability
        terms = (
            min(MAX_RATIO, exp(min(self.log_probability(action) - before, log(MAX_RATIO)))) * (action - p) * (r - mean)
            for action, before, r in trajectory
        )
        return fsum(terms) / len(rewards) / (population_std(rewards) + EPSILON)


class OurMethodPolicy(SimplePG):
    """A policy gradient whose step is scaled by `1 + gain / 2`, with `gain = (2 c - 1) (2 o - 1)`.

    c is the game's `cooperation_level`, o an average of the other's actions: steps are larger, by up to half, where the other
    does what the game pays for, and smaller where it does not.
    """

    def __init__(self, lr: float = 0.5, momentum: float = 0.9, seed: int = 0) -> None:
        super().__init__(lr, seed)
        self.momentum = check_share("momentum", momentum)
        self.opp_coop_est = 0.5

    def observe_opponent(self, opp_action: int) -> None:
        """Take the other's action into the average: `o = momentum o + (1 - momentum) action`.

        **Example** .5 after it cooperates, at .9: .55.
        """
        if opp_action not in (0, 1):
            raise ConfigurationError(f"opp_action {opp_action!r}: use 0 or 1")
        self.opp_coop_est = self.momentum * self.opp_coop_est + (1 - self.momentum) * opp_action

    def step_scale(self, game: Any) -> float:
        """What the step is multiplied by, .5 to 1.5. **Example** level .6, the other always cooperates: 1.1."""
        return 1 + 0.5 * (2 * float(game.cooperation_level) - 1) * (2 * self.opp_coop_est - 1)

    def update(self, trajectories: Trajectory, env: Any = None) -> None:
        """One step on one episode of the game `env`, whose `cooperation_level` decides the scale. Raises ConfigurationError."""
        if not hasattr(env, "cooperation_level"):
            raise ConfigurationError(f"env {env!r}: give the CoopCompeteEnv of the episode, as update(steps, env)")
        self.theta += self.lr * self.step_scale(env) * self._gradient(trajectories)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRun:
    """One pair's whole run: each episode's mean reward a step of A and of B, and where both ended.

    `episodes_to_target`: after so many the exact value first reached the target; None if it never did. `mean_step_scale` is the
    average factor on the learning rate, 1 for all but OUR.
    """

    rewards_A: tuple[float, ...]
    rewards_B: tuple[float, ...]
    cooperation_rate: float
    exploitability: float
    episodes_to_target: int | None
    mean_step_scale: float

    def last_mean(self) -> float:
        """The mean reward of both over the last 20 episodes."""
        last = (*self.rewards_A[-LAST_EPISODES:], *self.rewards_B[-LAST_EPISODES:])
        return fsum(last) / len(last)


def pair_value(game: Any, p_A: float, p_B: float) -> float:
    """What each earns a step of a `PairGame`, without noise, if they cooperate with these chances.

    **Example** level .6: .85 at (1, 1), .7125 at (.5, .5).
    """
    chances = {(a, b): (p_A if a else 1 - p_A) * (p_B if b else 1 - p_B) for a in (0, 1) for b in (0, 1)}
    return fsum(chance * payoff for chance, payoff in zip(chances.values(), _payoffs(game).values(), strict=True))


def pair_exploitability(game: Any, p_A: float, p_B: float) -> float:
    """The most that one of both gains by another policy, 0 at an equilibrium.

    **Example** level .6: 0 at (1, 1); at (.5, .5) cooperating earns .725, .0125 more.
    """
    best = max(pair_value(game, *pair) for pair in ((0.0, p_B), (1.0, p_B), (p_A, 0.0), (p_A, 1.0)))
    return max(0.0, best - pair_value(game, p_A, p_B))


def target_value(game: Any) -> float:
    """The value that counts as learned. **Example** level .6: .7125 + .9 x .1375 = .83625."""
    coin_flips, best = pair_value(game, 0.5, 0.5), max(pair_value(game, 0.0, 0.0), pair_value(game, 1.0, 1.0))
    return coin_flips + TARGET_SHARE * (best - coin_flips)


def play_pair(game: Any, kind: Kind, *, episodes: int, seed: int, lr: float) -> PairRun:
    """A pair's run of that many episodes. Learners of one seed draw the same numbers, whatever their kind."""
    learner: Any = {"PG": SimplePG, "OUR": OurMethodPolicy}.get(kind)
    pair = [learner(lr, seed=seed_for(seed, "member", member)) for member in (0, 1)] if learner else []
    table, draw, target = _payoffs(game), Random(seed_for(seed, "noise")), target_value(game)
    values, means_E, scales = [pair_value(game, *_chances(kind, pair))], [], []
    for _ in range(episodes):
        steps: tuple[list[tuple[int, float, float]], ...] = ([], [])
        for _ in range(game.num_steps):
            drawn = [policy.act() for policy in pair] or [(int(kind == "AC"), 0.0)] * 2
            earned = table[drawn[0][0], drawn[1][0]]
            for member, (action, logprob) in enumerate(drawn):
                steps[member].append(
                    (action, logprob, max(game.lowest_reward, earned + draw.gauss(0.0, game.noise_std)))
                )
        means_E.append([fsum(reward for _, _, reward in member) / game.num_steps for member in steps])
        scales += _update(game, pair, steps)
        values.append(pair_value(game, *_chances(kind, pair)))
    rewards_A, rewards_B = zip(*means_E, strict=True)
    return PairRun(
        rewards_A=rewards_A,
        rewards_B=rewards_B,
        cooperation_rate=fsum(_chances(kind, pair)) / 2,
        exploitability=pair_exploitability(game, *_chances(kind, pair)),
        episodes_to_target=next((number for number, value in enumerate(values) if value >= target), None),
        mean_step_scale=fsum(scales) / len(scales) if scales else 1.0,
    )


def _payoffs(game: Any) -> Mapping[tuple[int, int], float]:
    return {(a, b): game.payoffs((ACTIONS[a], ACTIONS[b]))[0] for a in (0, 1) for b in (0, 1)}


def _chances(kind: Kind, pair: Sequence[SimplePG]) -> tuple[float, float]:
    if not pair:
        return (1.0, 1.0) if kind == "AC" else (0.0, 0.0)
    return pair[0].cooperation_probability, pair[1].cooperation_probability


def _update(game: Any, pair: Sequence[SimplePG], steps: Sequence[Trajectory]) -> list[float]:
    """Update both; the factors on their learning rates."""
    scales = []
    for member, policy in enumerate(pair):
        if isinstance(policy, OurMethodPolicy):
            for action, _, _ in steps[1 - member]:
                policy.observe_opponent(action)
            scales.append(policy.step_scale(game))
            policy.update(steps[member], game)
        else:
            policy.update(steps[member])
    return scales
