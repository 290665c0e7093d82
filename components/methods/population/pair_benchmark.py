"""The benchmark of two learners that cooperate or compete: kinds of pairs on paired seeds, with intervals."""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean, median, pstdev
from typing import Any

from components.environments.social.coop_compete import PairGame
from components.evaluation.comparison import payoff_difference
from components.identity import seed_for
from components.population.pairs import KINDS, Kind, PairRun, play_pair, target_value

LEARNING_RATE = 0.5
"""Reaches .845 or more at level .6 within 200 episodes on every seed tried; 1 ends in the worse equilibrium on some seeds,
.05 is still on its way."""


def run_pair_benchmark(
    *, runs: int, episodes: int, coop_level: float, difficulty: float, horizon: int, seed: int
) -> dict[str, Any]:
    """Pairs that always cooperate (AC), always compete (AP), learn (PG), and learn and know their opponent (OUR).

    `params`; `metrics` by kind: the mean reward a step of A and B with deviations over runs, that of the last 20 episodes with
    its 95% interval, episodes until the target, the final cooperation rate and exploitability; `comparison` of OUR with PG on
    paired seeds, each number with its interval and who is `better`. All is JSON. Raises ConfigurationError.

    **Example** 5 runs of 200 episodes at level .6, difficulty .3, horizon 32, seed 42: `metrics.PG.last_20_mean` .847.
    """
    game = PairGame(cooperation_level=coop_level, difficulty=difficulty, num_steps=horizon)
    seeds = [seed_for(seed, "run", number) for number in range(runs)]

    def play(kind: Kind, scales: Sequence[float] = ()) -> list[PairRun]:
        lrs = [LEARNING_RATE * scale for scale in scales or [1.0] * runs]
        return [play_pair(game, kind, episodes=episodes, seed=each, lr=lr) for each, lr in zip(seeds, lrs, strict=True)]

    played = {kind: play(kind) for kind in KINDS}
    scales = [each.mean_step_scale for each in played["OUR"]]
    our_ends, pg_ends = ([each.last_mean() for each in played[kind]] for kind in ("OUR", "PG"))
    steps = {kind: _count_episodes(pairs, episodes) for kind, pairs in played.items()}
    params = {
        "runs": runs,
        "episodes": episodes,
        "horizon": horizon,
        "coop_level": coop_level,
        "difficulty": difficulty,
    }
    known = {"seed": seed, "target_per_step": target_value(game), "learning_rate": LEARNING_RATE}
    return {
        "params": {**params, **known},
        "metrics": {kind: _summary(pairs) for kind, pairs in played.items()},
        "comparison": {
            "episodes_saved": _difference(steps["OUR"], steps["PG"]),
            "last_20_gain": _difference(pg_ends, our_ends),
            "episodes_saved_at_equal_steps": _difference(steps["OUR"], _count_episodes(play("PG", scales), episodes)),
            "mean_step_scale": fmean(scales),
        },
    }


def _summary(pairs: Sequence[PairRun]) -> dict[str, Any]:
    averages = {"A": [fmean(each.rewards_A) for each in pairs], "B": [fmean(each.rewards_B) for each in pairs]}
    last = [each.last_mean() for each in pairs]
    reached = [each.episodes_to_target for each in pairs if each.episodes_to_target is not None]
    return {
        **{f"avg_{name}": fmean(values) for name, values in averages.items()},
        **{f"std_{name}": pstdev(values) for name, values in averages.items()},
        "last_20_mean": fmean(last),
        "last_20_interval": _difference([0.0] * len(last), last)["interval"],
        "num_reached": len(reached),
        "median_steps": median(reached) if reached else None,
        "mean_steps": fmean(reached) if reached else None,
        "std_steps": pstdev(reached) if reached else None,
        "cooperation_rate": fmean(each.cooperation_rate for each in pairs),
        "exploitability": fmean(each.exploitability for each in pairs),
    }


def _count_episodes(runs: Sequence[PairRun], episodes: int) -> list[float]:
    """Episodes to the target; the whole run for one that never reached it."""
    return [float(episodes if each.episodes_to_target is None else each.episodes_to_target) for each in runs]


def _difference(before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    """The mean of the second less the first, paired by seed, its interval (None of one pair), and whom it shows as better."""
    found = payoff_difference("", before, after)
    low, high = found.interval
    better = "OUR" if low > 0 else "PG" if high < 0 else "no difference is shown"
    return {"mean": found.difference, "interval": found.interval if isfinite(low) else None, "better": better}
