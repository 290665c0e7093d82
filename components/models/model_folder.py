"""Writing a Hugging Face model folder: configuration, safetensors weights, tokenizer."""

from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from components.models.digests import model_tensors

WEIGHTS_FILE = "model.safetensors"


def write_weights(model: nn.Module, folder: Path) -> None:
    """Write the tensors of `model` into an existing model folder. Equal weights give equal bytes.

    `save_pretrained` would import DeepSpeed, which takes seconds.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model_tensors(model).items()}
    unfinished = folder / f"{WEIGHTS_FILE}.unfinished"
    save_file(tensors, unfinished, metadata={"format": "pt"})
    unfinished.replace(folder / WEIGHTS_FILE)


def write_model_folder(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write what `from_pretrained` needs: config.json, generation_config.json, weights and tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = model.dtype
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_weights(model, folder)
