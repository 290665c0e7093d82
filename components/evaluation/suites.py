"""Suites: the problems to evaluate on, and the rules by which they are played."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from components.config.environment import EnvironmentConfig
from components.environments.base import Split
from components.environments.family import Family
from components.errors import ConfigurationError
from components.frozen import Frozen, Settings
from components.identity import fingerprint
from components.schema import Problem
from components.text.suggestions import suggest

SuiteSplit = Literal["test", "train", "train_check"]
_MAX_REPEATS_PER_PROBLEM = 20


SUITES: Mapping[str, tuple[Split, int]] = {
    "test": ("test", 0),
    "train_check": ("train", 1_000_000_000),
    "train": ("train", 0),
}
"""Name -> the split and the index of the first problem. test: held-out problems. train_check: train-split problems beyond the
reach of training, which gate the warm start. train: the problems of the first steps, to measure practised problems."""


class Suite(Settings):
    """What subjects are evaluated on, whoever they are."""

    environment: EnvironmentConfig
    """What is played. How answers are read and who acts when belong to the team that plays, if it has them of its own."""
    split: SuiteSplit = "test"
    """test: held-out problems. train: those of the first steps. train_check: train-split problems beyond training."""
    num_problems: int = Field(100, ge=1)
    seed: int = 0
    """Chooses the problems."""
    problems_per_block: int = Field(50, ge=1)
    """Problems played together. Affects results, because it decides batch shapes."""

    @property
    def title(self) -> str:
        """**Example** "plan_path/test"."""
        return f"{self.environment.name}/{self.split}"

    def problems(self, family: Family, options: Frozen) -> tuple[Problem, ...]:
        """The problems in the family of the environment. Raises ConfigurationError if it has fewer."""
        return suite_problems(self.split, family, options, num_problems=self.num_problems, seed=self.seed)


def suite_digest(environment: EnvironmentConfig, options: Frozen, split: str, problems: Sequence[Problem]) -> str:
    """12 hex digits that two suites share if their problems, in this order, and the rules of play are equal.

    `options` are those of `environment`, validated. A problem's id is a digest of its content, so other data or another seed
    give another digest. How answers are read and who acts when are a team's own, and not part of it.
    """
    rules = environment.model_dump(
        mode="json", exclude={"answer_format", "turn_order", "options", "data"}, exclude_defaults=True
    )
    chosen = options.model_dump(mode="json", exclude_defaults=True)
    ids = [each.problem_id for each in problems]
    return fingerprint({"rules": rules, "options": chosen, "split": split, "problems": ids})[:12]


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
