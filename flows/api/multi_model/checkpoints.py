"""Checkpoints by their documented names: RUN@STEP, over the store in the folder of checkpoints."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.config import RunConfig, StoreConfig
from components.errors import ConfigurationError, TroupeError
from components.rollout.rules import num_episodes
from components.runs.available_checkpoints import available_steps, checkpoints_after
from components.runs.lineages import list_indexed_runs
from components.runs.run import Run
from components.runs.session_records import readable_sessions
from components.runs.stored_runs import read_run
from components.session.stores import open_store
from flows.api.fields import AnyPath, check_arguments
from flows.api.multi_model.configs import MultiModelConfig
from flows.api.multi_model.errors import CheckpointNotFound

_FOLDER = MultiModelConfig.checkpoint_dir


def list_available_checkpoints(checkpoint_dir: str | Path = _FOLDER) -> list[str]:
    """The checkpoints whose files are all in the folder, as RUN@STEP: those of the newest run first, its newest step first.

    Steps are compared as numbers. A folder that does not exist has none; damaged runs are left out.

    **Example** after 12 steps of one run: `["multimodel-1f2e3d4c@12", "...@11", ..., "...@0"]`.
    """
    store = open_folder(checkpoint_dir)
    if store is None:
        return []
    found = []
    for run_id in list_indexed_runs(store):
        try:
            run = read_run(store, run_id)
            started_at = max((each.started_at for each in readable_sessions(store, run_id)), default="")
            found.append((started_at, [f"{run_id}@{step}" for step in reversed(available_steps(store, run))]))
        except TroupeError:
            continue  # `troupe verify` says what is wrong with it
    return [each for _, steps in sorted(found, key=lambda pair: pair[0], reverse=True) for each in steps]


def load_checkpoint_metadata(checkpoint_id: str, checkpoint_dir: str | Path = _FOLDER) -> dict[str, Any]:
    """What is known of a checkpoint: run, step, episode, the digest of each model's weights and optimizer, the configuration.

    Raises FileNotFoundError "Checkpoint not found".
    """
    store, run, step = find_checkpoint(checkpoint_id, checkpoint_dir)
    checkpoints = checkpoints_after(store, run, step) or {}
    return {
        "checkpoint_id": checkpoint_id,
        "run_id": run.run_id,
        "step": step,
        "episode": step * episodes_per_step(run.config),
        "models": {name: each.model_dump(mode="json") for name, each in checkpoints.items()},
        "config": run.config.model_dump(mode="json"),
    }


@check_arguments
def find_checkpoint(checkpoint_id: str, checkpoint_dir: AnyPath) -> tuple[ArtifactStore, Run, int]:
    """The store, run and step of a checkpoint whose files are there. Raises CheckpointNotFound."""
    run_id, _, step = checkpoint_id.rpartition("@")
    store = open_folder(checkpoint_dir)
    with suppress(ConfigurationError):  # an unknown run
        if store is not None and run_id and step.isdecimal():
            run = read_run(store, run_id)
            if int(step) in available_steps(store, run):
                return store, run.bind_to_store(store_config(checkpoint_dir)), int(step)
    there = ", ".join(list_available_checkpoints(checkpoint_dir)[:5]) or "none"
    raise CheckpointNotFound(f"Checkpoint not found: {checkpoint_id!r} is not in {checkpoint_dir}; there are {there}")


def open_folder(checkpoint_dir: str | Path) -> ArtifactStore | None:
    """The store in the folder; None if there is none."""
    is_store = (Path(checkpoint_dir).expanduser() / "format.json").is_file()
    return open_store(store_config(checkpoint_dir)) if is_store else None


def store_config(checkpoint_dir: str | Path) -> StoreConfig:
    """The store of a folder of checkpoints."""
    return StoreConfig(kind="local", root=str(Path(checkpoint_dir).expanduser().absolute()))


def episodes_per_step(config: RunConfig) -> int:
    """The episodes of one step of a run."""
    return config.rollout.num_problems * num_episodes(config.rollout)
