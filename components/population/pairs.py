"""Pairs of a game of two: some always cooperate, some always compete, and two kinds learn one number, the logit of cooperating.

`GradientPolicy` is REINFORCE with the episode's mean as baseline and its deviation as scale. Without the division the
step is in units of reward, whose spread here is .05: at any learning rate that is stable elsewhere nothing moves within
hundreds of episodes. `OpponentAwarePolicy` takes larger steps where what it knows of the other fits the game.

Both learners start from one seed and see one stream of noise (paired seeds), so that their difference is theirs and not
the luck of the draw. Episodes to the target are counted on the exact value of both policies, without noise. The report
says whether OUR beats PG, with intervals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, isfinite, log, log1p, sqrt
from random import Random
from statistics import median, pstdev
from typing import Any, Literal, Protocol

from components.bounds import checked_share
from components.errors import ConfigurationError
from components.identity import seed_for
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


class HasCooperationLevel(Protocol):
    """What `OpponentAwarePolicy` reads of a game."""

    @property
    def cooperation_level(self) -> float:
        """How much cooperating pays, 0 to 1."""
        ...


class PairRules(HasCooperationLevel, Protocol):
    """A game in which two act at once, and earn the same but for noise, cut at `lowest_reward` from below."""

    @property
    def difficulty(self) -> float: ...
    @property
    def num_steps(self) -> int: ...
    @property
    def noise_std(self) -> float: ...
    @property
    def lowest_reward(self) -> float: ...
    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each of the two earns, without noise."""
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

    def step_scale(self, game: HasCooperationLevel) -> float:
        """What the step is multiplied by, .5 to 1.5.

        **Example** level .6, the other always cooperates: 1.1.
        """
        return 1 + 0.5 * (2 * game.cooperation_level - 1) * (2 * self.opp_coop_est - 1)

    def update(self, trajectories: Trajectory, env: HasCooperationLevel | None = None) -> None:
        """One step on one episode of the game `env`, which decides the scale."""
        if env is None:
            raise ConfigurationError("env: give the game of the episode, as update(steps, env)")
        self.theta += self.lr * self.step_scale(env) * self._gradient(trajectories)


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


LEARNING_RATE = 0.5
"""Reaches .845 or more at level .6 within 200 episodes on every seed tried; 1 ends in the worse equilibrium on some seeds,
.05 is still on its way."""
_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The .975 quantile of Student's t for 1 to 30 degrees of freedom, which serves for all above, too (2.042 against 1.960)."""


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95% interval of a mean by Student's t; None for fewer than two values.

    **Example** (1, 2, 3): 2 -+ 4.303 / sqrt(3), -.484 to 4.484.
    """
    num = len(values)
    if num < 2:
        return None
    mean = fsum(values) / num
    reach = _T_975[min(num - 1, len(_T_975)) - 1] * sqrt(fsum((each - mean) ** 2 for each in values) / (num - 1) / num)
    return mean - reach, mean + reach


def benchmark_report(game: PairRules, *, runs: int, episodes: int, seed: int) -> dict[str, Any]:
    """`runs` pairs of each kind: `params`, `metrics` by kind, and `comparison` of OUR with PG, as JSON types.

    Raises ConfigurationError for fewer than one run or episode.
    """
    if runs < 1:
        raise ConfigurationError(f"runs {runs}: use 1 or more")
    seeds = [seed_for(seed, "run", number) for number in range(runs)]
    played = {
        kind: [play_pair(game, kind, episodes=episodes, seed=each, lr=LEARNING_RATE) for each in seeds]
        for kind in KINDS
    }
    matched = [
        play_pair(game, "PG", episodes=episodes, seed=each, lr=LEARNING_RATE * our.mean_step_scale)
        for each, our in zip(seeds, played["OUR"], strict=True)
    ]
    return {
        "params": {
            "runs": runs,
            "episodes": episodes,
            "horizon": game.num_steps,
            "coop_level": game.cooperation_level,
            "difficulty": game.difficulty,
            "target_per_step": target_value(game),
            "learning_rate": LEARNING_RATE,
            "seed": seed,
        },
        "metrics": {kind: _numbers(pairs, episodes) for kind, pairs in played.items()},
        "comparison": _comparison(played, matched, episodes),
    }


def _numbers(pairs: Sequence[PairRun], episodes: int) -> dict[str, Any]:
    averages = {name: [fsum(rewards) / episodes for rewards in _curves(pairs, name)] for name in ("A", "B")}
    last = [each.last_mean() for each in pairs]
    reached = [each.episodes_to_target for each in pairs if each.episodes_to_target is not None]
    return {
        **{f"avg_{name}": fsum(values) / len(values) for name, values in averages.items()},
        **{f"std_{name}": pstdev(values) for name, values in averages.items()},
        "last_20_mean": fsum(last) / len(last),
        "last_20_interval": mean_interval(last),
        "num_reached": len(reached),
        "median_steps": median(reached) if reached else None,
        "mean_steps": fsum(reached) / len(reached) if reached else None,
        "std_steps": pstdev(reached) if reached else None,
        "cooperation_rate": fsum(each.cooperation_rate for each in pairs) / len(pairs),
        "exploitability": fsum(each.exploitability for each in pairs) / len(pairs),
    }


def _curves(pairs: Sequence[PairRun], name: str) -> list[tuple[float, ...]]:
    return [each.rewards_A if name == "A" else each.rewards_B for each in pairs]


def _comparison(played: Mapping[Kind, Sequence[PairRun]], matched: Sequence[PairRun], episodes: int) -> dict[str, Any]:
    our, pg = played["OUR"], played["PG"]
    saved = _difference([(_steps(one, episodes), _steps(other, episodes)) for one, other in zip(pg, our, strict=True)])
    ended = _difference([(one.last_mean(), other.last_mean()) for one, other in zip(our, pg, strict=True)])
    alike = _difference(
        [(_steps(one, episodes), _steps(other, episodes)) for one, other in zip(matched, our, strict=True)]
    )
    scale = fsum(each.mean_step_scale for each in our) / len(our)
    return {
        "episodes_saved": saved,
        "last_20_gain": ended,
        "episodes_saved_at_equal_steps": alike,
        "mean_step_scale": scale,
        "verdict": _verdict(saved, ended, alike, scale),
    }


def _steps(run: PairRun, episodes: int) -> float:
    """Episodes to the target; the whole run for one that never reached it."""
    return float(episodes if run.episodes_to_target is None else run.episodes_to_target)


def _difference(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The mean of the first less the second, and its interval."""
    values = [one - other for one, other in pairs]
    return {"mean": fsum(values) / len(values), "interval": mean_interval(values)}


def _verdict(saved: Mapping[str, Any], ended: Mapping[str, Any], alike: Mapping[str, Any], scale: float) -> str:
    """In words: who reaches the target first, who ends higher, and whether the size of the steps explains it."""
    sentences = [
        _said(
            saved, better=f"OUR reaches the target {saved['mean']:.1f} episodes before PG", what="the target's episode"
        ),
        _said(ended, better=f"OUR ends {ended['mean']:.4f} higher", what="the last 20 episodes"),
        _said(
            alike,
            better=f"at equal step sizes it is still {alike['mean']:.1f} episodes earlier",
            what=f"the target's episode if PG takes OUR's mean step size (x{scale:.2f})",
        ),
    ]
    return "; ".join(sentences) + "."


def _said(difference: Mapping[str, Any], *, better: str, what: str) -> str:
    interval = difference["interval"]
    if interval is None:
        return f"one run shows nothing about {what}"
    low, high = interval
    shown = f"(95% interval {low:.4g} to {high:.4g})"
    if low > 0:
        return f"{better} {shown}"
    return f"PG beats OUR in {what} {shown}" if high < 0 else f"no difference is shown in {what} {shown}"
