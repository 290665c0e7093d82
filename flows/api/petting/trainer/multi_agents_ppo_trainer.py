"""The AT-GRPO trainer as a class."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.config import RunConfig
from components.session.scenario import scenario_of
from flows.api.petting.configs import merge_config, run_config
from flows.api.petting.evaluate.evaluate import evaluate
from flows.api.petting.trainer.train import CHECKPOINT_DIR, train
from flows.preflight.checks import check_configuration


class MultiAgentsPPOTrainer:
    """Trains the team of one configuration in a folder.

    **Example**

        trainer = MultiAgentsPPOTrainer(single_policy.get_config(), checkpoint_dir="checkpoints/")
        trainer.init_workers()
        trainer.fit()
        trainer.validate(num_episodes=200)["success_rate"]
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str,
        *,
        checkpoint_dir: str | Path = CHECKPOINT_DIR,
        run_id: str | None = None,
        **settings: Any,
    ) -> None:
        """`config` is a configuration or its name, `settings` are keys of it with other values. Raises ConfigurationError."""
        self.config = merge_config(config, settings)
        self.run_config: RunConfig = run_config(self.config)
        self.checkpoint_dir = Path(checkpoint_dir)
        self.run_id = run_id or self.run_config.preset

    def init_workers(self) -> None:
        """Check the configuration and all that it names. Workers start with the first iteration, and end with `fit`."""
        check_configuration(scenario_of(self.run_config))

    def fit(self, num_iterations: int | None = None) -> dict[str, Any]:
        """Train to the end and return the summary of `train`; again, it resumes."""
        return train(self.config, num_iterations, self.checkpoint_dir, run_id=self.run_id)

    def validate(self, num_episodes: int = 200, **options: Any) -> dict[str, Any]:
        """The result of `evaluate` for the newest checkpoint, on what it was trained on."""
        return evaluate(self.checkpoint_dir / self.run_id, num_episodes=num_episodes, **options)
