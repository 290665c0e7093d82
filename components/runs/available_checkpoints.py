"""Checkpoints that are still in the store: `troupe gc` removes old ones but not the records of their steps."""

from collections.abc import Iterable

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import check_listing
from components.artifacts.parallel import in_parallel
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.runs.history import has_checkpoint_files, read_history
from components.runs.initial_checkpoints import read_initial_checkpoints
from components.runs.run import Run
from components.runs.steps import first_unfinished_step, read_finished_step


def checkpoints_after(store: ArtifactStore, run: Run, num_updates: int) -> dict[str, CheckpointRef] | None:
    """The checkpoints after this many updates, with or without files; None if the run has not reached that."""
    return read_initial_checkpoints(store, run) if num_updates == 0 else read_finished_step(store, run, num_updates - 1)


def is_available(store: ArtifactStore, checkpoint: CheckpointRef) -> bool:
    """Whether all files of the checkpoint and its base are in the store."""
    return all(has_folder(store, folder) for folder in (checkpoint.folder, checkpoint.base) if folder is not None)


def has_folder(store: ArtifactStore, folder: ArtifactRef) -> bool:
    """Whether all files of a folder are in the store with their sizes."""
    found = {each.key: each.num_bytes for each in store.scan(f"{folder.key}/")}
    listing = check_listing(folder)
    return all(found.get(f"{folder.key}/{path}") == num_bytes for path, (_, num_bytes) in listing.items())


def available_steps(store: ArtifactStore, run: Run) -> list[int]:
    """The numbers of updates after which all checkpoints are still in the store. Costs a listing per finished step."""
    history = read_history(store, run, first_unfinished_step(store, run))
    kept = in_parallel(lambda step: has_checkpoint_files(store, step), history.steps)
    start = read_initial_checkpoints(store, run)
    first = [0] if start and all(is_available(store, checkpoint) for checkpoint in start.values()) else []
    return first + [shown.step + 1 for shown, is_there in zip(history.steps, kept, strict=True) if is_there]


def format_ranges(steps: Iterable[int]) -> str:
    """**Example** "0, 95 to 100" for 0, 95, 96, 97, 98, 99 and 100."""
    stretches: list[list[int]] = []
    for step in steps:
        if stretches and step == stretches[-1][-1] + 1:
            stretches[-1][1:] = [step]
        else:
            stretches.append([step])
    return ", ".join(" to ".join(map(str, stretch)) for stretch in stretches)
