"""How many problems a run uses of an environment that may have few: small boards and datasets run out."""

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


def list_required_problems(config: RunConfig) -> Iterator[Demand]:
    """The demands of a run with `config`.

    Steps may repeat problems, as epochs over a dataset do, and so may the demonstrations of a warm start: of the train split a
    run needs the problems of one step, and if it clones, those of a check.
    """
    yield Demand("rollout.num_problems", "train", config.rollout.num_problems, config.seed)
    if any(policy.base == "tiny" and policy.api is None for policy in config.policies.values()):
        yield Demand("warm_start.num_check_problems", "train_check", config.warm_start.num_check_problems, SUITE_SEED)
    yield Demand("evaluation.num_problems", "test", config.evaluation.num_problems, SUITE_SEED)


def lower_default_counts(scenario: Scenario) -> tuple[RunConfig, list[str]]:
    """The scenario's configuration with numbers of problems that nobody chose lowered to what there is, and a line for each.

    They count as chosen afterwards: whoever continues the run finds them in its configuration.
    """
    config, lines = scenario.config, list[str]()
    if not config.method.writes_answers:
        return config, lines
    for demand in list_required_problems(config):
        section, _, name = demand.field.partition(".")
        if name in getattr(config, section).model_fields_set:
            continue
        found = _count_problems(scenario, demand)
        if found < demand.num_problems and not (section == "rollout" and found < config.rollout.num_shards):
            lines.append(
                f"{demand.field} is {found}: {scenario.family.name} has no more different problems for the suite "
                f"{demand.suite!r}, and the default of {demand.num_problems} was not chosen"
            )
            config = _with_count(config, section, name, found)
        else:
            config = _with_count(config, section, name, demand.num_problems)
    return config, lines


def keep_counts(config: RunConfig, chosen: RunConfig, recorded: RunConfig | None) -> tuple[RunConfig, list[str]]:
    """`config` with the numbers of problems that the run was started with, and a line for each that a new run would have
    differently.

    Only where `chosen`, the configuration before defaults were lowered, has no number: data that have grown since change
    neither the steps nor the evaluation of the run.
    """
    lines = list[str]()
    if recorded is None or not config.method.writes_answers:
        return config, lines
    for demand in list_required_problems(config):
        section, _, name = demand.field.partition(".")
        number = getattr(getattr(recorded, section), name)
        if name in getattr(chosen, section).model_fields_set or number == demand.num_problems:
            continue
        lines.append(f"{demand.field} is {number}, as the run was started with; set it for a run with others")
        config = _with_count(config, section, name, number)
    return config, lines


def _with_count(config: RunConfig, section: str, name: str, number: int) -> RunConfig:
    changed = getattr(config, section).model_copy(update={name: number})
    return config.model_copy(update={section: changed})


def _count_problems(scenario: Scenario, demand: Demand) -> int:
    """How many different problems of a suite there are, up to those demanded."""
    family, options = scenario.family, scenario.options
    return len(different_problems(demand.suite, family, options, num_problems=demand.num_problems, seed=demand.seed))


def check_problem_counts(scenario: Scenario) -> None:
    """Raise ConfigurationError with the field, its value and the number of problems, if there are too few.

    Draws the problems as the run will; of datasets this reads the rows, as a run does anyway.
    """
    config = scenario.config
    for demand in list_required_problems(config):
        found = _count_problems(scenario, demand)
        if found < demand.num_problems:
            raise ConfigurationError(
                f"{demand.field} {demand.num_problems}: {scenario.family.name} with environment.options "
                f"{dict(config.environment.options)} has only {found} different problems for the suite "
                f"{demand.suite!r}; ask for at most {found}, or choose larger environment.options"
            )
