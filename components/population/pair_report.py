"""The report of the benchmark of pairs: each kind's numbers, and whether OUR beats PG, on paired seeds with intervals."""

from collections.abc import Mapping, Sequence
from math import fsum, sqrt
from statistics import median, pstdev
from typing import Any

from components.errors import ConfigurationError
from components.identity import seed_for
from components.population.pairs import KINDS, Kind, PairRules, PairRun, play_pair, target_value

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
