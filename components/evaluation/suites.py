"""Named sets of problems to evaluate on."""

from collections.abc import Mapping

from components.environments.base import Split
from components.environments.family import Family
from components.errors import ConfigurationError
from components.frozen import Frozen
from components.schema import Problem
from components.suggestions import suggest

_MAX_REPEATS_PER_PROBLEM = 20


SUITES: Mapping[str, tuple[Split, int]] = {
    "test": ("test", 0),
    "train_check": ("train", 1_000_000_000),
    "train": ("train", 0),
}
"""Name -> the split and the index of the first problem. test: held-out problems. train_check: train-split problems beyond the
reach of training, which gate the warm start. train: the problems of the first steps, to measure practised problems."""


def suite(name: str) -> tuple[Split, int]:
    """The suite called `name`. Raises ConfigurationError with the nearest name."""
    if name not in SUITES:
        remedy = suggest(name, SUITES, otherwise=f"suites are {', '.join(SUITES)}")
        raise ConfigurationError(f"suite {name!r}: unknown; {remedy}")
    return SUITES[name]


def suite_problems(name: str, family: Family, options: Frozen, *, num_problems: int, seed: int) -> tuple[Problem, ...]:
    """The first `num_problems` different problems of a suite: a pure function of its arguments.

    Raises ConfigurationError if the suite seems to have fewer.
    """
    problems = different_problems(name, family, options, num_problems=num_problems, seed=seed)
    if len(problems) < num_problems:
        raise ConfigurationError(
            f"suite {name!r} of {family.name} with {options!r} has only {len(problems)} different problems, "
            f"{num_problems} were asked for; ask for at most that many"
        )
    return problems


def different_problems(
    name: str, family: Family, options: Frozen, *, num_problems: int, seed: int
) -> tuple[Problem, ...]:
    """The first `num_problems` different problems of a suite; fewer if 20 draws in a row per found problem bring no new one."""
    split, first_index = suite(name)
    problems: dict[str, Problem] = {}
    draw = num_repeats = 0
    while len(problems) < num_problems and num_repeats <= _MAX_REPEATS_PER_PROBLEM * len(problems):
        problem = family.problem(options, split=split, index=first_index + draw, seed=seed)
        num_repeats = num_repeats + 1 if problem.problem_id in problems else 0
        problems.setdefault(problem.problem_id, problem)
        draw += 1
    return tuple(problems.values())
