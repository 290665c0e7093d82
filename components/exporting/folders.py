"""Model folders and adapter folders from which plain libraries answer as the policy did in training."""

import json
from pathlib import Path
from typing import Any

from components.errors import ArtifactCorrupt
from components.generation.tokenizer import HuggingFaceTokenizer
from components.training.checkpoint import copy_companions

_TOKENIZER_CONFIG = "tokenizer_config.json"
_GENERATION_CONFIG = "generation_config.json"
_ADAPTER_CONFIG = "adapter_config.json"


def complete_model_folder(folder: Path, *, temperature: float) -> HuggingFaceTokenizer:
    """Make the tokenizer and the sampling of a model folder those of training; returns the tokenizer.

    Weights and `config.json` stay as they are. Raises ArtifactCorrupt where the tokenizer cannot be read.
    """
    tokenizer = HuggingFaceTokenizer.from_folder(folder)
    if tokenizer.splits_special_tokens:
        _change(
            folder / _TOKENIZER_CONFIG,
            # As in training; and this class is the name that every version knows.
            {"split_special_tokens": True, "tokenizer_class": "PreTrainedTokenizerFast"},
        )
    # All else that a base brings along (top_p, penalties, further ends) would draw from another distribution.
    sampling = {
        "do_sample": True,
        "temperature": temperature,
        "top_k": 0,
        "top_p": 1.0,
        "eos_token_id": tokenizer.end_token,
        "pad_token_id": tokenizer.pad_token,
    }
    (folder / _GENERATION_CONFIG).write_text(json.dumps(sampling, indent=2) + "\n")
    return tokenizer


def complete_adapter_folder(folder: Path, *, base: Path, base_place: Path) -> None:
    """Give an adapter's folder what else `from_pretrained` looks for: where its base will lie, and the tokenizer of `base`.

    Its weights stay as they are. `base_place` must be absolute, because libraries take a relative path from the current folder.
    """
    assert base_place.is_absolute(), base_place
    copy_companions(base, folder)
    for name in ("config.json", "README.md"):  # the first would make a broken model of it
        (folder / name).unlink(missing_ok=True)
    _change(folder / _ADAPTER_CONFIG, {"base_model_name_or_path": str(base_place)})


def _change(file: Path, changes: dict[str, Any]) -> None:
    try:
        values = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ArtifactCorrupt(f"{file} is no JSON: {error}") from error
    file.write_text(json.dumps({**values, **changes}, indent=2, sort_keys=True) + "\n")
