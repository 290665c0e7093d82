"""Four kinds of pairs in a game of two: two that always cooperate, two that always compete, and two kinds that learn.

Both learners start from one seed and see one stream of noise (paired seeds), so that their difference is theirs and not
the luck of the draw. Episodes to the target are counted on the exact value of both policies, without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from random import Random
from typing import Literal, Protocol

from components.errors import ConfigurationError
from components.identity import seed_for
from components.population.bernoulli_policies import GradientPolicy, OpponentAwarePolicy
from components.population.interaction_graph import Action

ACTIONS: tuple[Action, ...] = ("compete", "cooperate")
"""In the order of the numbers 0 and 1."""
Kind = Literal["AC", "AP", "PG", "OUR"]
KINDS: tuple[Kind, ...] = ("AC", "AP", "PG", "OUR")
"""Always cooperate, always compete, policy gradient, policy gradient that knows its opponent."""
TARGET_SHARE = 0.9
"""The target lies at this share of the way from two coin flips to the best pair of actions."""
LAST_EPISODES = 20


class PairRules(Protocol):
    """A game in which two act at once, and earn the same but for noise."""

    @property
    def cooperation_level(self) -> float:
        """How much cooperating pays, 0 to 1."""
        ...

    @property
    def difficulty(self) -> float:
        """How little everybody earns before any bonus, 0 to 1."""
        ...

    @property
    def num_steps(self) -> int:
        """The steps of an episode."""
        ...

    @property
    def noise_std(self) -> float:
        """The deviation of the normal noise on each reward."""
        ...

    @property
    def lowest_reward(self) -> float:
        """Rewards are cut at this from below."""
        ...

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each of the two earns, without noise."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRun:
    """One pair's whole run: each episode's mean reward a step of A and of B, and where both ended.

    `episodes_to_target` is the number of episodes after which the exact value first reached the target; None if it never did.
    `mean_step_scale` is the average factor on the learning rate, 1 for all but OUR.
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


def pair_value(game: PairRules, p_A: float, p_B: float) -> float:
    """What each earns a step, without noise, if they cooperate with these chances.

    **Example** level .6: .85 at (1, 1), .7125 at (.5, .5).
    """
    chances = {(a, b): (p_A if a else 1 - p_A) * (p_B if b else 1 - p_B) for a in (0, 1) for b in (0, 1)}
    return fsum(chance * game.payoffs((ACTIONS[a], ACTIONS[b]))[0] for (a, b), chance in chances.items())


def pair_exploitability(game: PairRules, p_A: float, p_B: float) -> float:
    """The most that one of both gains by another policy, 0 at an equilibrium.

    **Example** level .6: 0 at (1, 1); at (.5, .5) cooperating earns .725, .0125 more.
    """
    value = pair_value(game, p_A, p_B)
    best = max(pair_value(game, *pair) for pair in ((0.0, p_B), (1.0, p_B), (p_A, 0.0), (p_A, 1.0)))
    return max(0.0, best - value)


def target_value(game: PairRules) -> float:
    """The value that counts as learned.

    **Example** level .6: .7125 + .9 x .1375 = .83625.
    """
    coin_flips, best = pair_value(game, 0.5, 0.5), max(pair_value(game, 0.0, 0.0), pair_value(game, 1.0, 1.0))
    return coin_flips + TARGET_SHARE * (best - coin_flips)


def play_pair(game: PairRules, kind: Kind, *, episodes: int, seed: int, lr: float) -> PairRun:
    """A pair's run of that many episodes. Learners of one seed draw the same numbers, whatever their kind."""
    if episodes < 1:
        raise ConfigurationError(f"episodes {episodes}: use 1 or more")
    table = {(a, b): game.payoffs((ACTIONS[a], ACTIONS[b]))[0] for a in (0, 1) for b in (0, 1)}
    pair, draw, target = _pair(kind, seed, lr), Random(seed_for(seed, "noise")), target_value(game)
    values = [pair_value(game, *_chances(kind, pair))]
    rewards_E: list[tuple[float, float]] = []
    scales: list[float] = []
    for _ in range(episodes):
        steps: tuple[list[tuple[int, float, float]], ...] = ([], [])
        for _ in range(game.num_steps):
            drawn = [policy.act() for policy in pair] or [(int(kind == "AC"), 0.0)] * 2
            earned = table[drawn[0][0], drawn[1][0]]
            for member, (action, logprob) in enumerate(drawn):
                reward = max(game.lowest_reward, earned + draw.gauss(0.0, game.noise_std))
                steps[member].append((action, logprob, reward))
        means = [fsum(reward for _, _, reward in member) / game.num_steps for member in steps]
        rewards_E.append((means[0], means[1]))
        scales += _update(game, pair, steps)
        values.append(pair_value(game, *_chances(kind, pair)))
    chances = _chances(kind, pair)
    return PairRun(
        rewards_A=tuple(each[0] for each in rewards_E),
        rewards_B=tuple(each[1] for each in rewards_E),
        cooperation_rate=fsum(chances) / 2,
        exploitability=pair_exploitability(game, *chances),
        episodes_to_target=next((number for number, value in enumerate(values) if value >= target), None),
        mean_step_scale=fsum(scales) / len(scales) if scales else 1.0,
    )


def _pair(kind: Kind, seed: int, lr: float) -> list[GradientPolicy]:
    seeds = [seed_for(seed, "member", member) for member in (0, 1)]
    if kind == "PG":
        return [GradientPolicy(lr, seed=each) for each in seeds]
    return [OpponentAwarePolicy(lr, seed=each) for each in seeds] if kind == "OUR" else []


def _chances(kind: Kind, pair: Sequence[GradientPolicy]) -> tuple[float, float]:
    if not pair:
        return (1.0, 1.0) if kind == "AC" else (0.0, 0.0)
    return pair[0].cooperation_probability, pair[1].cooperation_probability


def _update(
    game: PairRules, pair: Sequence[GradientPolicy], steps: Sequence[Sequence[tuple[int, float, float]]]
) -> list[float]:
    """Update both; the factors on their learning rates."""
    scales = []
    for member, policy in enumerate(pair):
        if isinstance(policy, OpponentAwarePolicy):
            for action, _, _ in steps[1 - member]:
                policy.observe_opponent(action)
            scales.append(policy.step_scale(game))
            policy.update(steps[member], game)
        else:
            policy.update(steps[member])
    return scales
