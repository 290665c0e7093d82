"""A task: what all arms train, on which problems, and from which weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.versus_trl.order import Order
from benchmarks.versus_trl.outcomes import Goal
from components.config import RunConfig
from components.environments.family import Family
from components.environments.registry import family, family_options
from components.schema import Problem
from flows.presets import preset_config

POLICY = "player"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is measured unless asked otherwise."""

    num_rounds: int
    num_steps: int
    num_problems: int
    """Of one step."""
    learning_rate: float
    dtypes: tuple[str, ...]
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One agent, alone, in one environment. `overrides` are those of `preset` that an order of this task needs."""

    name: str
    told: str
    """The problems, in a few words."""
    role: str
    preset: str
    overrides: Callable[[Order], list[str]]
    start_module: str
    """The module of this package that writes the weights that all arms start from."""
    sizes: Sizes
    goal: Goal
    tells_steps: bool = False
    """Whether runs are short enough to print what each step came to."""


def config_of(task: Task, order: Order) -> RunConfig:
    """The run that Troupe performs; TRL's arguments are read from it too."""
    overrides = [
        f"seed={order.seed}",
        "environment.max_turns=1",
        "rollout.mode=single",
        "rollout.random_handoff_probability=0.0",
        f"rollout.num_problems={order.num_problems}",
        f"rollout.problems_per_block={order.num_problems}",
        f"rollout.group_size={order.group_size}",
        "algorithm.advantage=grpo",
        "loss.entropy_coefficient=0.0",
        f"training.learning_rate={order.learning_rate!r}",
        "training.num_minibatches=1",
        f"training.num_threads={order.num_threads}",
        f"generation.num_threads={order.num_threads}",
        "evaluation={num_problems: 1, sampling: [greedy]}",
        "store.kind=local",
        f"store.root={order.work_folder}/store",
        "tracking.kind=none",
    ]
    return preset_config(task.preset, [*overrides, *task.overrides(order)], num_steps=order.num_steps)


def family_of(config: RunConfig) -> Family:
    """The environment's family, as a run of `config` plays it."""
    return family(config.environment.name, config.environment.answer_format)


def problems(config: RunConfig) -> list[Problem]:
    """The problems of all steps, in the order in which Troupe plays them."""
    played, options = family_of(config), family_options(config.environment.name, config.environment.options)
    count = config.num_steps * config.rollout.num_problems
    return [played.problem(options, split="train", index=index, seed=config.seed) for index in range(count)]


def by_name(*tasks: Task) -> Mapping[str, Task]:
    """`tasks` by their names."""
    return {task.name: task for task in tasks}
