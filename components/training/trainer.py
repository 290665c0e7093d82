"""The trainer: starts and ends the worker processes of one training configuration, and sends them jobs."""

import atexit
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.config import TrainingConfig
from components.training.base import UpdateJob, UpdateResult
from components.training.deepspeed_config import complete_config, read_deepspeed_config
from components.training.launcher import launch
from components.training.worker_handle import Processes
from components.training.worker_protocol import Answer, error_of


class DeepSpeedTrainer:
    """Runs updates in worker processes, one a rank, each in a session of its own.

    Jobs may differ only in learning rate and minibatches. The processes start with the first update, or earlier with `start`,
    and are reused. On this host they get only `environment` and TROUPE_RUN=`run_label`, by which the processes of a run are
    found. Raises ConfigurationError when the DeepSpeed configuration (values, or the JSON file that holds them) is not for
    `training`.

    `devices` are names in CUDA_VISIBLE_DEVICES, one a rank. `own_code_folder` may contain user-defined losses.
    """

    def __init__(
        self,
        training: TrainingConfig,
        *,
        deepspeed_config: Mapping[str, Any] | Path,
        run_label: str,
        environment: Mapping[str, str],
        devices: Sequence[str] = (),
        own_code_folder: Path | None = None,
    ) -> None:
        self._training = training
        self._deepspeed = read_deepspeed_config(deepspeed_config)
        complete_config(self._deepspeed, training)
        self._devices = tuple(devices)
        self._run_label = run_label
        self._environment = dict(environment)
        self._own_code_folder = own_code_folder
        self._processes: Processes | None = None
        self._one_at_a_time = threading.Lock()
        atexit.register(self.close)

    def start(self) -> None:
        """Start the processes unless they run; returns at once, while they are still importing."""
        if self._processes is not None and self._processes.alive:
            return
        self.close()
        self._processes = launch(
            self._training,
            self._deepspeed,
            run_label=self._run_label,
            inherited=self._environment,
            devices=self._devices,
            own_code_folder=self._own_code_folder,
        )

    def update(self, job: UpdateJob) -> UpdateResult:
        """Run one update and wait for it.

        Raises WorkerDied when the processes end or take longer than `training.update_timeout_seconds`, and the error that
        the worker reported, as UpdateFailed if it is not in our error tree. The next call starts new processes if needed.
        Calls from several threads run one at a time.
        """
        assert launch_settings(job.training) == launch_settings(self._training), (
            "another configuration than the worker's"
        )
        assert not job.output_folder.exists(), f"{job.output_folder} exists"
        with self._one_at_a_time:
            answer = self._answer(job)
        if answer.failure is not None:
            raise error_of(answer.failure)
        assert answer.result is not None
        return answer.result

    def close(self) -> None:
        """End the worker and every process it started; the next update starts new ones."""
        if self._processes is not None:
            self._processes.end()
            self._processes = None

    def _answer(self, job: UpdateJob) -> Answer:
        self.start()
        assert self._processes is not None
        deadline = time.monotonic() + self._training.update_timeout_seconds
        try:
            return self._processes.ask(job, deadline)
        except BaseException:
            # Also on KeyboardInterrupt: a worker in the middle of a step must not survive.
            self.close()
            raise


def launch_settings(training: TrainingConfig) -> dict[str, Any]:
    """The settings that a worker is started with; the others come with each job, because policies may differ in them."""
    return training.model_dump(exclude={"learning_rate", "num_minibatches"})
