"""Prompts as texts, by the tokenizers in the run's checkpoints."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import PolicyConfig
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused
from components.generation.api.tokenizer import ByteTokenizer
from components.machine.scratch import scratch_folder
from components.runs.available_checkpoints import checkpoints_after
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.training.base import MODEL_FOLDER

PromptText = Callable[[Sequence[int]], str]
"""The text of a prompt's tokens, special tokens included."""
_TOKENIZER = f"{MODEL_FOLDER}/tokenizer"


def prompt_texts(
    store: ArtifactStore, run: Run, step: int, policies: Mapping[str, PolicyConfig]
) -> tuple[dict[str, PromptText], tuple[str, ...]]:
    """By policy, what reads its prompts of `step`, and a note for each policy whose tokenizer is not in the store any more.

    Only the tokenizer's files are fetched, from the checkpoint that played or else from another one of the policy.
    """
    found: dict[str, PromptText] = {}
    notes = []
    for policy, settings in policies.items():
        if settings.api is not None:
            found[policy] = prompt_of_an_api
        elif (text := _tokenizer_text(store, _checkpoints(store, run, step, policy))) is not None:
            found[policy] = text
        else:
            notes.append(
                f"prompts of {policy} are shown as token ids: no checkpoint with its tokenizer is in the store"
            )
    return found, tuple(notes)


def _checkpoints(store: ArtifactStore, run: Run, step: int, policy: str) -> Iterable[CheckpointRef]:
    """The policy's checkpoints that may have files: the one that played, the first and the newest."""
    newest = first_unfinished_step(store, run)
    for num_updates in dict.fromkeys((step, 0, newest)):
        try:
            checkpoint = (checkpoints_after(store, run, num_updates) or {}).get(policy)
        except ArtifactCorrupt:
            continue  # another checkpoint has the same tokenizer
        if checkpoint is not None:
            yield checkpoint


def _tokenizer_text(store: ArtifactStore, checkpoints: Iterable[CheckpointRef]) -> PromptText | None:
    for checkpoint in checkpoints:
        for folder in (checkpoint.folder, checkpoint.base):
            if folder is not None and (text := _text_by(store, folder)) is not None:
                return text
    return None


def _text_by(store: ArtifactStore, folder: ArtifactRef) -> PromptText | None:
    """What reads prompts by the tokenizer in a checkpoint's folder; None without one."""
    from tokenizers import Tokenizer

    with tempfile.TemporaryDirectory(prefix="tokenizer-", dir=scratch_folder()) as name:
        try:
            file = store.get_folder(folder, Path(name), under=_TOKENIZER) / f"{_TOKENIZER}.json"
        except (ArtifactCorrupt, ArtifactMissing, StoreRefused):
            return None
        tokenizer = Tokenizer.from_file(str(file)) if file.is_file() else None
    if tokenizer is None:
        return None
    return lambda tokens: str(tokenizer.decode(list(tokens), skip_special_tokens=False))


def prompt_of_an_api(tokens: Sequence[int]) -> str:
    """The text of a prompt for a policy behind an API: its instructions, then the state."""
    return "\n".join(part for part in ByteTokenizer().split(tokens) if part)
