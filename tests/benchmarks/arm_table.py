"""The tables of arms as Markdown: success, the dose that each arm got, and differences seed by seed."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from tests.benchmarks.arm_runs import SAMPLINGS, Trained
from tests.benchmarks.intervals import mean_interval
from tests.benchmarks.markdown import markdown
from tests.benchmarks.power import detectable_difference

SINGLE, TEAM = "single agent, GRPO", "team, GRPO"
GREEDY, RANDOM = "team, AT-GRPO, best handed on", "team, AT-GRPO, random handed on at .75"
PER_ROLE, NESTED = "the same, a policy per role", "team, C3"
ARMS: Mapping[str, tuple[str, str]] = {
    "single agent, prompted": ("single", "before"),
    SINGLE: ("single", "after"),
    "team, prompted": ("at-grpo-greedy", "before"),
    TEAM: ("team-grpo", "after"),
    GREEDY: ("at-grpo-greedy", "after"),
    RANDOM: ("at-grpo-mixed", "after"),
    PER_ROLE: ("per-role", "after"),
    NESTED: ("c3", "after"),
}
"""Each arm's run, and whether its success is from before or after training."""
PAIRS = (
    (GREEDY, TEAM),
    (GREEDY, SINGLE),
    (RANDOM, TEAM),
    (RANDOM, SINGLE),
    (RANDOM, GREEDY),
    (PER_ROLE, RANDOM),
    (NESTED, GREEDY),
    (NESTED, TEAM),
)
"""Arms whose difference is told: an arm, and what it is compared with."""
PAPER: Mapping[str, tuple[float, float]] = {
    "single agent, prompted": (12.0, 9.0),
    SINGLE: (47.0, 14.0),
    "team, prompted": (71.0, 16.0),
    TEAM: (96.0, 30.0),
    GREEDY: (93.0, 96.0),
    PER_ROLE: (96.0, 98.0),
}
"""Plan-Path and Sokoban in arXiv 2510.11062, Qwen3-8B on its own boards; it hands on the best, with one policy or several."""


def success_table(rows: Iterable[Trained]) -> str:
    """Success in percent by arm, game and way of sampling: mean and half the 95% interval."""
    found = list(rows)
    columns = _columns(found)
    titles = ["arm", *(f"{game}, {sampling}" for game, sampling in columns), "paper: Plan-Path", "Sokoban"]
    body = []
    for arm in ARMS:
        cells = [_mean(by_seed(found, arm, *column).values(), ".1f") for column in columns]
        if any(cells):
            body.append([arm, *cells, *(f"{value:.1f}" for value in PAPER.get(arm, ()))])
    return markdown(titles, body)


def difference_table(rows: Iterable[Trained]) -> str:
    """Differences of arms over the seeds that both have, and the true difference that so many could have seen."""
    found = list(rows)
    columns = _columns(found)
    titles = ["points, 95% interval (could have seen)", *(f"{game}, {sampling}" for game, sampling in columns)]
    body = []
    for arm, other in PAIRS:
        cells = [_difference(paired(found, arm, other, *column)) for column in columns]
        if any(cells):
            body.append([f"*{arm}*, less *{other}*", *cells])
    return markdown(titles, body)


def dose_table(rows: Iterable[Trained]) -> str:
    """What each trained arm got: means over seeds."""
    found = list(rows)
    body = []
    for game in dict.fromkeys(row.game for row in found):
        for arm, (run, when) in ARMS.items():
            mine = [row for row in found if (row.game, row.run) == (game, run)]
            if when == "after" and mine:
                body.append([game, arm, str(len(mine)), *_doses(mine)])
    titles = ["game", "arm", "seeds", "generated tokens", "rows", "with a signal", "optimizer steps"]
    titles.append("first role's gradient")
    return markdown(titles, body)


def _doses(mine: Sequence[Trained]) -> list[str]:
    counts = [
        [row.num_tokens for row in mine],
        [row.num_rows for row in mine],
        [row.num_rows_with_signal for row in mine],
        [row.num_updates for row in mine],
    ]
    shares = [100 * row.first_role_share for row in mine if row.first_role_share is not None]
    return [f"{statistics.mean(each):.0f}" for each in counts] + [f"{statistics.mean(shares):.0f}%" if shares else ""]


def by_seed(rows: Iterable[Trained], arm: str, game: str, sampling: str) -> dict[int, float]:
    """Success of one arm in percent."""
    run, when = ARMS[arm]
    mine = [row for row in rows if (row.game, row.run) == (game, run)]
    return {row.seed: 100 * float(getattr(row, when)[sampling]) for row in mine}


def paired(rows: Iterable[Trained], arm: str, other: str, game: str, sampling: str) -> list[float]:
    """The differences of two arms in points, for each seed that both have, in the order of seeds."""
    found = list(rows)
    mine, theirs = by_seed(found, arm, game, sampling), by_seed(found, other, game, sampling)
    return [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]


def _columns(rows: Iterable[Trained]) -> list[tuple[str, str]]:
    return [(game, sampling) for game in dict.fromkeys(row.game for row in rows) for sampling in SAMPLINGS]


def _difference(values: Sequence[float]) -> str:
    mean = _mean(values, "+.1f")
    seen = detectable_difference(values)
    return mean if math.isnan(seen) else f"{mean} ({seen:.1f})"


def _mean(values: Iterable[float], spelled: str) -> str:
    """**Example** "71.2 ± 4.0"; without an interval for a single value, empty for none."""
    numbers = list(values)
    if not numbers:
        return ""
    mean, half = mean_interval(numbers)
    return f"{mean:{spelled}}" if math.isnan(half) else f"{mean:{spelled}} ± {half:.1f}"
