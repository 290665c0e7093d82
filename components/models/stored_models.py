"""Reading a Hugging Face model folder, for engines and trainer alike."""

from pathlib import Path
from typing import Any

from components.errors import ArtifactCorrupt, ConfigurationError
from components.machine.torch_state import building_a_model

EXACT_BASES = "choose a base with full attention in every layer, such as Llama 3, Qwen2.5, Qwen3 or SmolLM2"
"""The remedy for a model that the in-process engine or the trainer does not compute exactly."""


def load_stored_model(folder: Path) -> Any:
    """The causal language model in `folder`, in its stored type, without dropout.

    Raises ConfigurationError when there is no such folder, ArtifactCorrupt when it cannot be read.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # it would disturb the run's own progress bar
    if not (folder / "config.json").is_file():
        raise ConfigurationError(f"{folder} is not a model folder: it has no config.json")
    try:
        with building_a_model():
            model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True)
    # A damaged folder fails in safetensors, json or torch, which raise different classes.
    except Exception as error:
        raise ArtifactCorrupt(f"{folder} cannot be read as a model: {error}") from error
    return model.eval()


def most_tokens(config: Any) -> int | None:
    """The most tokens of a prompt and its answer that a model computes; None if no limit is known.

    `config` is a text configuration. **Example** SmolLM2-135M: 8192.
    """
    known = (
        getattr(config, "max_position_embeddings", None),
        find_fixed_positions(config),
        find_choosing_length(config),
    )
    return min((each for each in known if each is not None), default=None)


def find_fixed_positions(config: Any) -> int | None:
    """The most tokens up to which rotary positions do not depend on the longest row of a batch; None if they never do.

    `config` is a text configuration. **Example** "longrope" of Phi-3-mini-128k: 4096.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") not in ("dynamic", "longrope"):
        return None
    return int(rope.get("original_max_position_embeddings") or config.max_position_embeddings)


def find_choosing_length(config: Any) -> int | None:
    """The most tokens up to which every token sees all before it, in a model that chooses what longer rows see; else None.

    `config` is a text configuration. **Example** Doge: its keep_window_size, 2048.
    """
    window = getattr(config, "keep_window_size", None)
    return window if isinstance(window, int) else None
