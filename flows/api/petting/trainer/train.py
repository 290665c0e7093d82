"""Training by the name of a configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.config import RunConfig, StoreConfig, TrackingConfig
from flows.api.petting.configs import merge_config, run_config

CHECKPOINT_DIR = "checkpoints/"


def train(
    config_name: str | Mapping[str, Any] | None = None,
    num_iterations: int | None = None,
    checkpoint_dir: str | Path | None = CHECKPOINT_DIR,
    *,
    run_id: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train a team, and return the run's summary: `run_id`, `num_steps`, `evaluations`, `checkpoint_digest` and others.

    `config_name` is the name of a configuration, or its edited dict; `settings` are single keys of it with other values.
    `num_iterations` None: those of the configuration. All that the run stores is in the folder `checkpoint_dir`, under `run_id`
    (default: the configuration's name); None: in the store of the configuration, with reports to its MLflow. The same call
    again resumes, and more iterations continue. Raises ConfigurationError before anything expensive starts.
    """
    stated = merge_config(config_name, settings)
    if num_iterations is not None:
        stated["num_iterations"] = num_iterations
    settled = in_folder(run_config(stated), checkpoint_dir)
    from flows.train import train_here  # imports Prefect, which takes seconds

    return train_here(settled, run_id or settled.preset)


def in_folder(config: RunConfig, checkpoint_dir: str | Path | None) -> RunConfig:
    """`config` with all that its run stores in the folder, and without reports to MLflow; None: as it is."""
    if checkpoint_dir is None:
        return config
    store = StoreConfig(kind="local", root=str(Path(checkpoint_dir).expanduser().absolute()))
    return config.model_copy(update={"tracking": TrackingConfig(kind="none"), "store": config.store.move_to(store)})
