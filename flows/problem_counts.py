"""Whether an environment has as many problems as a run will ask for: small boards and datasets run out."""

from collections.abc import Iterator
from typing import NamedTuple

from components.config import RunConfig
from components.errors import ConfigurationError
from components.evaluation.suites import different_problems
from tasks.scenario import SUITE_SEED, scenario_of


class Demand(NamedTuple):
    """A field that asks for `num_problems` different problems of a suite, all at once."""

    field: str
    suite: str
    num_problems: int
    seed: int


def demands(config: RunConfig) -> Iterator[Demand]:
    """What a run of `config` asks for.

    Steps may meet a problem again, as epochs over a dataset do, and so may the demonstrations of a warm start: of the train
    split a run needs one step's problems, and where it clones, those of a check.
    """
    yield Demand("rollout.num_problems", "train", config.rollout.num_problems, config.seed)
    if any(policy.base == "tiny" and policy.api is None for policy in config.policies.values()):
        yield Demand("warm_start.num_check_problems", "train_check", config.warm_start.num_check_problems, SUITE_SEED)
    yield Demand("evaluation.num_problems", "test", config.evaluation.num_problems, SUITE_SEED)


def check_problem_counts(config: RunConfig) -> None:
    """Raise ConfigurationError naming the field, its value and how many problems there are, where there are too few.

    Draws the problems as the run will; of datasets this reads the rows, which a run reads anyway.
    """
    scenario = scenario_of(config)
    family, options = scenario.family, scenario.options
    for demand in demands(config):
        found = different_problems(demand.suite, family, options, num_problems=demand.num_problems, seed=demand.seed)
        if len(found) < demand.num_problems:
            raise ConfigurationError(
                f"{demand.field} {demand.num_problems}: {family.name} with environment.options "
                f"{dict(config.environment.options)} has only {len(found)} different problems for the suite "
                f"{demand.suite!r}; ask for at most {len(found)}, or choose larger environment.options"
            )
