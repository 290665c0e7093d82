"""Pairs of arms: which seeds of two arms are compared, and which of their differences survive Holm's correction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.arm_runs import SAMPLINGS, Trained
from benchmarks.intervals import adjust_by_holm, mean_interval
from benchmarks.power import LEVEL, compute_paired_p_value

SINGLE, TEAM = "single agent, GRPO", "team, GRPO"
GREEDY, RANDOM = "team, AT-GRPO, best handed on", "team, AT-GRPO, random handed on at .75"
PER_ROLE, NESTED = "the same, a policy per role", "team, C3"
ARMS: Mapping[str, tuple[str, str]] = {
    "single agent, prompted": ("single", "before"),
    SINGLE: ("single", "after"),
    "team, prompted": ("at-grpo-greedy", "before"),
    "team, prompted, a policy per role": ("per-role", "before"),
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
OWN_START = (SINGLE, PER_ROLE)
"""Arms that cannot begin where one policy for a team begins: a single agent is cloned as one, and each role's policy by itself.
Their seeds are compared by number, as trained from starts of their own; every other pair must begin at one start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One arm less another, in points, in the order of the seeds that both have."""

    arm: str
    other: str
    game: str
    sampling: str
    differences: Sequence[float]
    num_left_out: int
    """Seeds that both arms have, but from different starts."""
    adjusted: float = 1.0
    """The p-value after Holm's correction for all comparisons of the table."""

    @property
    def survives(self) -> bool:
        return self.adjusted < LEVEL

    @property
    def is_hint(self) -> bool:
        """Whether its interval leaves 0 out, though it does not survive the correction."""
        return not self.survives and bool(self.differences) and compute_paired_p_value(self.differences) < LEVEL

    @property
    def num_seeds(self) -> int:
        """That both arms have."""
        return len(self.differences) + self.num_left_out

    @property
    def mean(self) -> float:
        return mean_interval(self.differences)[0]


def comparisons(rows: Iterable[Trained]) -> list[Comparison]:
    """All of the table, with p-values corrected for their number. One without an interval counts too, and shows nothing."""
    trained = list(rows)
    found = [
        each
        for arm, other in PAIRS
        for game, sampling in columns(trained)
        if (each := compare_arms(trained, arm, other, game, sampling)).differences or each.num_left_out
    ]
    adjusted = adjust_by_holm([compute_paired_p_value(each.differences) for each in found])
    return [replace(each, adjusted=value) for each, value in zip(found, adjusted, strict=True)]


def compare_arms(rows: Iterable[Trained], arm: str, other: str, game: str, sampling: str) -> Comparison:
    """Two arms over the seeds that both have; of arms that can begin at one start, only those that did."""
    trained = list(rows)
    mine, theirs = rows_by_seed(trained, arm, game), rows_by_seed(trained, other, game)
    common = sorted(mine.keys() & theirs.keys())
    paired = [seed for seed in common if {arm, other} & {*OWN_START} or same_start(mine[seed], theirs[seed])]
    one, two = success_by_seed(trained, arm, game, sampling), success_by_seed(trained, other, game, sampling)
    return Comparison(
        arm=arm,
        other=other,
        game=game,
        sampling=sampling,
        differences=[one[seed] - two[seed] for seed in paired],
        num_left_out=len(common) - len(paired),
    )


def same_start(one: Trained, other: Trained) -> bool:
    """Whether two runs began with the same weights: by digest, or where a record has none, by equal success before training."""
    if one.start is not None and other.start is not None:
        return one.start == other.start
    return one.before == other.before


def rows_by_seed(rows: Iterable[Trained], arm: str, game: str) -> dict[int, Trained]:
    """The rows of an arm's run, in the order of seeds."""
    mine = [row for row in rows if (row.game, row.run) == (game, ARMS[arm][0])]
    return {row.seed: row for row in sorted(mine, key=lambda row: row.seed)}


def success_by_seed(rows: Iterable[Trained], arm: str, game: str, sampling: str) -> dict[int, float]:
    """Success of one arm in percent."""
    when = ARMS[arm][1]
    return {seed: 100 * float(getattr(row, when)[sampling]) for seed, row in rows_by_seed(rows, arm, game).items()}


def gains_by_seed(rows: Iterable[Trained], arm: str, game: str, sampling: str) -> dict[int, float]:
    """Success of one arm after training less that before, in points."""
    return {
        seed: 100 * (row.after[sampling] - row.before[sampling]) for seed, row in rows_by_seed(rows, arm, game).items()
    }


def columns(rows: Iterable[Trained]) -> list[tuple[str, str]]:
    """Each game with each way of sampling."""
    return [(game, sampling) for game in dict.fromkeys(row.game for row in rows) for sampling in SAMPLINGS]
