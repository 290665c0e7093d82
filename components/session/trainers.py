"""A session's trainers: warm DeepSpeed workers, one per model; adapters of one base share a worker."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from components.config import RunConfig, TrainingConfig
from components.machine.child_environment import filter_environment
from components.machine.package_files import package_file
from components.machine.process_variables import read_variable, read_variables
from components.models.model_groups import initial_models
from components.runs.run import Run
from components.user_code import is_custom

if TYPE_CHECKING:
    from components.training.trainer import DeepSpeedTrainer


class Trainers:
    """Trainers by policy, made on first use; their processes live until `close`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._made: dict[str, DeepSpeedTrainer] = {}
        self._one_at_a_time = threading.Lock()

    def of(self, policy: str) -> "DeepSpeedTrainer":
        """The trainer of a policy."""
        models = initial_models(self._run.config.policies)
        worker = next(name for name, sharing in models.items() if policy in sharing)
        with self._one_at_a_time:
            if worker not in self._made:
                self._made[worker] = self._new(worker, training_of(self._run.config, policy))
            return self._made[worker]

    def warm_up(self) -> None:
        """Start the workers of all trained policies without waiting for them."""
        for policy, settings in self._run.config.policies.items():
            if settings.trained:
                self.of(policy).start()

    def close(self) -> None:
        """End the workers."""
        while self._made:
            _, trainer = self._made.popitem()
            trainer.close()

    def _new(self, worker: str, training: TrainingConfig) -> "DeepSpeedTrainer":
        from components.training.trainer import DeepSpeedTrainer

        return DeepSpeedTrainer(
            training,
            deepspeed_config=package_file("infra", f"deepspeed/zero{training.zero_stage}.json"),
            run_label=f"{self._run.run_id}.{worker}",
            environment=trainer_environment(training),
            own_code_folder=Path.cwd() if is_custom(self._run.config.loss.policy_loss) else None,
        )


def training_of(config: RunConfig, policy: str) -> TrainingConfig:
    """The training section with the policy's own values."""
    settings = config.policies[policy].model_dump(include={"learning_rate", "num_minibatches"}, exclude_none=True)
    return config.training.model_copy(update=settings)


def trainer_environment(training: TrainingConfig) -> dict[str, str]:
    """The environment of training processes: no credentials, except the SSH agent for multi-host training."""
    agent = read_variable("SSH_AUTH_SOCK") if training.hostfile else None
    return {**filter_environment(read_variables()), **({"SSH_AUTH_SOCK": agent} if agent else {})}
