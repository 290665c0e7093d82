"""The state of an RL learner as a checkpoint: one file of arrays, and a manifest without a probe."""

import re
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.artifacts.refs import CheckpointRef
from components.config.hybrid import LEARNER_POLICY
from components.errors import ArtifactCorrupt
from components.session.checkpoint_cache import CheckpointCache
from components.session.session import Session
from components.training.base import CheckpointManifest

LearnerState = dict[str, NDArray[Any]]
STATE_FILE = "state.safetensors"
"""Inside a checkpoint folder of the learner: all its arrays."""
_LESSON, _WEIGHTS = "lesson", "weights."
_SAVE_STATE = re.compile(r"(games\.(?:\d+\.)?)state(\.\d+)")


def read_learner(session: Session, checkpoint: CheckpointRef) -> LearnerState:
    """The arrays of a checkpoint of the session's run. Raises ArtifactCorrupt where they are not those of its digests."""
    return read_arrays(session.copies, checkpoint)


def read_arrays(copies: CheckpointCache, checkpoint: CheckpointRef) -> LearnerState:
    """The arrays of a learner's checkpoint. Raises ArtifactCorrupt where they are not those of its digests."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = copies.path(checkpoint) / STATE_FILE
    try:
        state: LearnerState = load_file(file)
    except (OSError, SafetensorError) as error:
        raise ArtifactCorrupt(f"{file}: {error}") from error
    if (found := _digests(state)) != (checkpoint.weights_digest, checkpoint.optimizer_digest):
        raise ArtifactCorrupt(f"{file}: it has the digests {found}, and the run's record has others")
    return state


def store_learner(session: Session, state: LearnerState, *, step: int) -> CheckpointRef:
    """The state as a checkpoint of the policy `reflexes`: one file of arrays and a manifest without a probe."""
    from safetensors.numpy import save_file

    from components.training.checkpoint import write_manifest

    work = session.copies.work_folder(step)
    try:
        folder = work / "checkpoint"
        folder.mkdir()
        arrays = {name: np.require(state[name], requirements="C") for name in sorted(state)}
        save_file(arrays, folder / STATE_FILE)
        weights, rest = _digests(state)
        manifest = CheckpointManifest(
            policy=LEARNER_POLICY, step=step, weights_digest=weights, optimizer_digest=rest, probe=None
        )
        write_manifest(folder, manifest)
        return session.copies.store(folder, base=None)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _digests(state: LearnerState) -> tuple[str, str]:
    """The digest of policy and value function, and that of all else that decides how training goes on.

    A save state holds the last drawn frame too: the digest of its memory, which stands beside it, is covered in its place.
    """
    from components.hybrid.experience import digest_state

    weights = {name: values for name, values in state.items() if name.startswith(_WEIGHTS)}
    sealed = {name for name in state if _SAVE_STATE.fullmatch(name) and _SAVE_STATE.sub(r"\1memory\2", name) in state}
    return digest_state(weights), digest_state({name: state[name] for name in state.keys() - weights.keys() - sealed})


def lesson_in(state: Mapping[str, NDArray[Any]]) -> str:
    """The subgoals of a state, one a line; "" without any."""
    return bytes(state[_LESSON].tobytes()).decode()


def with_lesson(state: Mapping[str, NDArray[Any]], lesson: str) -> LearnerState:
    """The state with these subgoals."""
    return {**state, _LESSON: np.frombuffer(lesson.encode(), np.uint8)}
