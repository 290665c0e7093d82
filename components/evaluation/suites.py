"""Named sets of problems to evaluate on."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from components.artifacts.refs import Frozen
from components.environments.base import EnvironmentFamily, Split
from components.errors import ConfigurationError
from components.schema import Problem

_MAX_DRAWS_PER_PROBLEM = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A stretch of one split, from `first_index` on."""

    split: Split
    first_index: int


SUITES: Mapping[str, Suite] = {
    "test": Suite(split="test", first_index=0),
    "train_check": Suite(split="train", first_index=1_000_000_000),
    "train": Suite(split="train", first_index=0),
}
"""test: the held-out problems. train_check: train-split problems beyond all that training reaches, on which the warm start is
gated. train: the problems of the first steps, to see how much better a team is on what it has practised."""


def suite(name: str) -> Suite:
    """The suite called `name`. Raises ConfigurationError with the nearest name."""
    if name not in SUITES:
        nearest = difflib.get_close_matches(name, SUITES, n=1, cutoff=0.4)
        remedy = f"did you mean {nearest[0]!r}?" if nearest else f"suites are {', '.join(SUITES)}"
        raise ConfigurationError(f"suite {name!r}: unknown; {remedy}")
    return SUITES[name]


def suite_problems(
    name: str, family: EnvironmentFamily, options: Frozen, *, num_problems: int, seed: int
) -> tuple[Problem, ...]:
    """The first `num_problems` different problems of a suite: a pure function of its arguments.

    Raises ConfigurationError when the suite seems to hold fewer.
    """
    chosen = suite(name)
    problems: dict[str, Problem] = {}
    for draw in range(num_problems * _MAX_DRAWS_PER_PROBLEM):
        if len(problems) == num_problems:
            break
        problem = family.problem(options, split=chosen.split, index=chosen.first_index + draw, seed=seed)
        problems.setdefault(problem.problem_id, problem)
    if len(problems) < num_problems:
        raise ConfigurationError(
            f"suite {name!r} of {family.name} with {options!r} has only {len(problems)} different problems in "
            f"{num_problems * _MAX_DRAWS_PER_PROBLEM} draws; ask for at most that many"
        )
    return tuple(problems.values())
