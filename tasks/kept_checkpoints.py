"""Of which steps the checkpoints are still in the store: `troupe gc` removes old ones and leaves the records of their steps."""

from collections.abc import Iterable

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import checked_listing
from components.artifacts.parallel import in_parallel
from components.artifacts.refs import ArtifactRef, CheckpointRef
from tasks.first_checkpoints import known_first_checkpoints
from tasks.history import has_checkpoint_files, read_history
from tasks.run import Run
from tasks.steps import finished_step, first_unfinished_step


def checkpoints_after(store: ArtifactStore, run: Run, num_updates: int) -> dict[str, CheckpointRef] | None:
    """What the run left after so many updates, with or without files; None where it has not come so far."""
    return known_first_checkpoints(store, run) if num_updates == 0 else finished_step(store, run, num_updates - 1)


def is_kept(store: ArtifactStore, checkpoint: CheckpointRef) -> bool:
    """Whether all files of the checkpoint are there, those of its base too."""
    return all(_is_whole(store, folder) for folder in (checkpoint.folder, checkpoint.base) if folder is not None)


def kept_steps(store: ArtifactStore, run: Run) -> list[int]:
    """After how many updates all checkpoints of the run are still there, in order; 0 is before training.

    Costs a listing for each finished step.
    """
    history = read_history(store, run, first_unfinished_step(store, run))
    kept = in_parallel(lambda step: has_checkpoint_files(store, step), history.steps)
    start = known_first_checkpoints(store, run)
    first = [0] if start and all(is_kept(store, checkpoint) for checkpoint in start.values()) else []
    return first + [shown.step + 1 for shown, is_there in zip(history.steps, kept, strict=True) if is_there]


def spelled_steps(steps: Iterable[int]) -> str:
    """**Example** "0, 95 to 100" for 0, 95, 96, 97, 98, 99 and 100."""
    stretches: list[list[int]] = []
    for step in steps:
        if stretches and step == stretches[-1][-1] + 1:
            stretches[-1][1:] = [step]
        else:
            stretches.append([step])
    return ", ".join(" to ".join(map(str, stretch)) for stretch in stretches)


def _is_whole(store: ArtifactStore, folder: ArtifactRef) -> bool:
    return {f"{folder.key}/{path}" for path in checked_listing(folder)} <= set(store.list(f"{folder.key}/"))
