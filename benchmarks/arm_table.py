"""The tables of arms as Markdown: success, the dose that each arm got, and differences seed by seed."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.arm_pairs import (
    ARMS,
    GREEDY,
    OWN_START,
    PAIRS,
    PER_ROLE,
    SINGLE,
    TEAM,
    Comparison,
    columns,
    comparisons,
    success_by_seed,
)
from benchmarks.arm_runs import Trained
from benchmarks.intervals import mean_interval
from benchmarks.markdown import markdown
from benchmarks.power import detectable_difference

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
    titles = ["arm", *(f"{game}, {sampling}" for game, sampling in columns(found)), "paper: Plan-Path", "Sokoban"]
    body = []
    for arm in ARMS:
        cells = [_mean(success_by_seed(found, arm, *column).values(), ".1f") for column in columns(found)]
        if any(cells):
            body.append([arm, *cells, *(f"{value:.1f}" for value in PAPER.get(arm, ()))])
    return markdown(titles, body)


def difference_table(rows: Iterable[Trained]) -> str:
    """Differences of arms over the seeds that they are compared by, and the true difference that so many could have seen; bold
    if it survives Holm's correction for all comparisons of the table."""
    found = list(rows)
    by_cell = {(each.arm, each.other, each.game, each.sampling): each for each in comparisons(found)}
    titles = ["points, 95% interval (could have seen)", *(f"{game}, {sampling}" for game, sampling in columns(found))]
    body = []
    for arm, other in PAIRS:
        cells = [_difference(by_cell.get((arm, other, *column))) for column in columns(found)]
        if any(cells):
            starts = ", from starts of their own" if {arm, other} & {*OWN_START} else ""
            body.append([f"*{arm}*, less *{other}*{starts}", *cells])
    return markdown(titles, body)


def dose_table(rows: Iterable[Trained]) -> str:
    """What each trained arm got: means over seeds, and of tokens the range."""
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
    tokens = counts[0]
    shares = [100 * row.first_role_share for row in mine if row.first_role_share is not None]
    means = [f"{statistics.mean(each):.0f}" for each in counts]
    means[0] += f" ({min(tokens)} to {max(tokens)})"
    return [*means, f"{statistics.mean(shares):.0f}%" if shares else ""]


def _difference(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    if not comparison.differences:
        return "no common start"
    mean = _mean(comparison.differences, "+.1f")
    shown = f"**{mean}**" if comparison.survives else mean
    seen = detectable_difference(comparison.differences)
    return shown if math.isnan(seen) else f"{shown} ({seen:.1f})"


def _mean(values: Iterable[float], spelled: str) -> str:
    """**Example** "71.2 ± 4.0"; without an interval for a single value, empty for none."""
    numbers = list(values)
    if not numbers:
        return ""
    mean, half = mean_interval(numbers)
    return f"{mean:{spelled}}" if math.isnan(half) else f"{mean:{spelled}} ± {half:.1f}"
