"""A session's trainers: warm DeepSpeed workers, one per model; adapters of one base share a worker."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from components.config import RunConfig, TrainingConfig
from components.machine.child_environment import filter_environment
from components.machine.closeable import Closeable
from components.machine.package_files import package_file
from components.machine.process_variables import read_variables
from components.models.model_groups import initial_models
from components.placement.this_machine import rank_devices
from components.runs.run import Run
from components.user_code import is_custom

if TYPE_CHECKING:
    from components.training.trainer import DeepSpeedTrainer


Kept = TypeVar("Kept", bound=Closeable)


class Trainers:
    """Trainers by policy, made on first use; their processes live until `close`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._made: dict[str, DeepSpeedTrainer] = {}
        self._kept: dict[str, Closeable] = {}
        self._one_at_a_time = threading.Lock()

    def of(self, policy: str) -> "DeepSpeedTrainer":
        """The trainer of a policy."""
        models = initial_models(self._run.config.policies)
        worker = next(name for name, sharing in models.items() if policy in sharing)
        with self._one_at_a_time:
            if worker not in self._made:
                self._made[worker] = self._new(worker, training_of(self._run.config, policy))
            return self._made[worker]

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        """What `make` opens, once for each name; it ends with the session."""
        with self._one_at_a_time:
            if name not in self._kept:
                self._kept[name] = make()
            return self._kept[name]  # type: ignore[return-value]

    def warm_up(self) -> None:
        """Start the workers of all trained policies without waiting for them; a cluster's start with their first update."""
        if self._run.config.resources.runner == "ray":
            return
        for policy, settings in self._run.config.policies.items():
            if settings.trained:
                self.of(policy).start()

    def close(self) -> None:
        """End the workers."""
        for held in (self._made, self._kept):
            while held:
                held.popitem()[1].close()

    def _new(self, worker: str, training: TrainingConfig) -> "DeepSpeedTrainer":
        from components.training.trainer import DeepSpeedTrainer

        return DeepSpeedTrainer(
            training,
            deepspeed_config=package_file("infra", f"deepspeed/zero{training.zero_stage}.json"),
            run_label=f"{self._run.run_id}.{worker}",
            environment=filter_environment(read_variables()),
            devices=rank_devices(self._run.config, worker),
            own_code_folder=Path.cwd() if is_custom(self._run.config.loss.policy_loss) else None,
        )


def training_of(config: RunConfig, policy: str) -> TrainingConfig:
    """The training section with the policy's own values."""
    settings = config.policies[policy].model_dump(include={"learning_rate", "num_minibatches"}, exclude_none=True)
    return config.training.model_copy(update=settings)
