"""Checks that an environment has as many problems as a run needs: small boards and datasets run out."""

from collections.abc import Iterator
from typing import NamedTuple

from components.config import RunConfig
from components.errors import ConfigurationError
from components.evaluation.suites import different_problems
from components.session.scenario import SUITE_SEED, Scenario


class Demand(NamedTuple):
    """A field that requires `num_problems` different problems of a suite at once."""

    field: str
    suite: str
    num_problems: int
    seed: int


def required_problems(config: RunConfig) -> Iterator[Demand]:
    """The demands of a run with `config`.

    Steps may repeat problems, as epochs over a dataset do, and so may the demonstrations of a warm start: of the train split a
    run needs the problems of one step, and if it clones, those of a check.
    """
    yield Demand("rollout.num_problems", "train", config.rollout.num_problems, config.seed)
    if any(policy.base == "tiny" and policy.api is None for policy in config.policies.values()):
        yield Demand("warm_start.num_check_problems", "train_check", config.warm_start.num_check_problems, SUITE_SEED)
    yield Demand("evaluation.num_problems", "test", config.evaluation.num_problems, SUITE_SEED)


def check_problem_counts(scenario: Scenario) -> None:
    """Raise ConfigurationError with the field, its value and the number of problems, if there are too few.

    Draws the problems as the run will; of datasets this reads the rows, as a run does anyway.
    """
    config = scenario.config
    family, options = scenario.family, scenario.options
    for demand in required_problems(config):
        found = different_problems(demand.suite, family, options, num_problems=demand.num_problems, seed=demand.seed)
        if len(found) < demand.num_problems:
            raise ConfigurationError(
                f"{demand.field} {demand.num_problems}: {family.name} with environment.options "
                f"{dict(config.environment.options)} has only {len(found)} different problems for the suite "
                f"{demand.suite!r}; ask for at most {len(found)}, or choose larger environment.options"
            )
