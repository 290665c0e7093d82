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
    config: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    track: bool | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train a team, and return the run's summary: `run_id`, `num_steps`, `evaluations`, `checkpoint_digest` and others.

    `config_name` is the name of a configuration, or `config` its edited dict; `settings` are single keys of it with other
    values. `num_iterations` None: those of the configuration. All that the run stores is in the folder `checkpoint_dir`, under
    `run_id` (default: the configuration's name); None: in the store of the configuration. The same call again resumes, and
    more iterations continue. `track`: report to MLflow; None: where the run is in no folder. Raises ConfigurationError before
    anything expensive starts.

    **Example**

    >>> summary = train("math_single_policy", 2, "checkpoints/", batch_size=4)  # doctest: +SKIP
    >>> summary["run_id"], summary["num_steps"], summary["evaluations"][-1]["success_rate"]  # doctest: +SKIP
    ('math_single_policy', 2, 0.07)
    """
    stated = merge_config(config_name, config, settings)
    if num_iterations is not None:
        stated["num_iterations"] = num_iterations
    is_tracked = checkpoint_dir is None if track is None else track
    settled = in_folder(run_config(stated), checkpoint_dir, is_tracked=is_tracked)
    from flows.train import train_here  # imports Prefect, which takes seconds

    return train_here(settled, run_id or settled.preset)


def in_folder(config: RunConfig, checkpoint_dir: str | Path | None, *, is_tracked: bool) -> RunConfig:
    """`config` with all that its run stores in the folder (None: its own store), and with or without reports to MLflow."""
    changed: dict[str, Any] = {} if is_tracked else {"tracking": TrackingConfig(kind="none")}
    if checkpoint_dir is not None:
        folder = str(Path(checkpoint_dir).expanduser().absolute())
        changed["store"] = config.store.move_to(StoreConfig(kind="local", root=folder))
    return config.model_copy(update=changed)
