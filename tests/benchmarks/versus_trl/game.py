"""What all arms train: one agent that finds paths in one answer, from one warm start, under one configuration."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.config import RunConfig
from components.schema import Problem
from flows.presets import preset_config

ROLE = "plan_agent"
POLICY = "player"
TROUPE, COMPONENTS, TUNED, AS_SHIPPED = "troupe", "troupe without Prefect", "trl tuned", "trl as shipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one arm is told to do. Folders and files are paths as text, so that an order is plain JSON."""

    arm: str
    seed: int
    num_steps: int
    num_problems: int
    group_size: int
    num_threads: int
    learning_rate: float
    model_folder: str
    work_folder: str
    gate: float
    """Success at which the warm start is enough."""

    @property
    def num_samples(self) -> int:
        """Of one step."""
        return self.num_problems * self.group_size

    @property
    def result_file(self) -> Path:
        return Path(self.work_folder) / "result.json"

    def document(self) -> dict[str, Any]:
        return asdict(self)


def run_config(order: Order) -> RunConfig:
    """The run that Troupe performs; TRL's arguments are read from it too."""
    overrides = [
        f"seed={order.seed}",
        "environment.options={size: 4, wall_density: 0.05, min_distance: 2, max_distance: 3, max_moves: 3}",
        "environment.max_turns=1",
        f"agents={{{ROLE}: {{policy: {POLICY}}}}}",
        f"policies={{{POLICY}: {{base: '{order.model_folder}'}}}}",
        f"warm_start={{noise: 0.25, gate: {order.gate}, gate_ceiling: 0.8}}",
        "rollout.mode=single",
        "rollout.continue_from=best",
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
        f"store.root={Path(order.work_folder) / 'store'}",
        "tracking.kind=none",
    ]
    return preset_config("plan-path", overrides, num_steps=order.num_steps)


def problems(config: RunConfig) -> list[Problem]:
    """The problems of all steps, in the order in which Troupe plays them."""
    from components.environments.registry import family, family_options

    played, options = (
        family(config.environment.name),
        family_options(config.environment.name, config.environment.options),
    )
    count = config.num_steps * config.rollout.num_problems
    return [played.problem(options, split="train", index=index, seed=config.seed) for index in range(count)]
