"""Model and adapter folders from which other libraries answer as the policy did in training."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from components.errors import ArtifactCorrupt
from components.models.tokenizer import HuggingFaceTokenizer
from components.training.checkpoint import copy_companions

_UNKNOWN_TO_PEFT = ("freeze_a",)
"""What an adapter's configuration says to the trainer alone; PEFT warns of it."""


def complete_model_folder(folder: Path, *, temperature: float) -> HuggingFaceTokenizer:
    """Set the tokenizer and sampling settings of a model folder to those of training; returns the tokenizer.

    Weights and `config.json` do not change. Raises ArtifactCorrupt if the tokenizer cannot be read.
    """
    tokenizer = HuggingFaceTokenizer.from_folder(folder)
    if tokenizer.splits_special_tokens:
        # The class name is known to every version of transformers.
        changes = {"split_special_tokens": True, "tokenizer_class": "PreTrainedTokenizerFast"}
        _change(folder / "tokenizer_config.json", changes)
    # Any other setting of a base (top_p, penalties) would sample from another distribution.
    sampling = {
        "do_sample": True,
        "temperature": temperature,
        "top_k": 0,
        "top_p": 1.0,
        "eos_token_id": sorted(tokenizer.end_tokens) if len(tokenizer.end_tokens) > 1 else tokenizer.end_token,
        "pad_token_id": tokenizer.pad_token,
    }
    (folder / "generation_config.json").write_text(json.dumps(sampling, indent=2) + "\n", encoding="utf-8")
    return tokenizer


def complete_adapter_folder(folder: Path, *, base: Path, base_place: Path) -> None:
    """Add the tokenizer of `base` to an adapter's folder, and the absolute path where its base will be."""
    assert base_place.is_absolute(), base_place
    copy_companions(base, folder)
    for name in ("config.json", "README.md"):  # with config.json it would look like a broken model
        (folder / name).unlink(missing_ok=True)
    _change(folder / "adapter_config.json", {"base_model_name_or_path": str(base_place)}, without=_UNKNOWN_TO_PEFT)


def _change(file: Path, changes: dict[str, Any], *, without: Collection[str] = ()) -> None:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactCorrupt(f"{file} is not JSON: {error}") from error
    changed = {**{name: value for name, value in values.items() if name not in without}, **changes}
    file.write_text(json.dumps(changed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
