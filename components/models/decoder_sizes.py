"""The sizes of common decoders from their config.json alone, without building a model."""

from collections.abc import Iterable, Mapping
from typing import Any

from components.config import AdapterConfig

_QUERY_BIAS = {"llama": "attention_bias", "qwen3": "attention_bias", "qwen2": None}
"""Decoders whose layers are counted here, and the field that gives their attention biases; None: there are always some, except
on the way out."""
KNOWN = {
    "smollm2-135m": {
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "tie_word_embeddings": True,
    },
    "Qwen/Qwen2.5-1.5B-Instruct": {
        "model_type": "qwen2",
        "vocab_size": 151936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
}
"""What the config.json of the presets' bases says of sizes, for machines on which they are not."""


def is_common_decoder(config: Mapping[str, Any]) -> bool:
    """Whether the functions below count a model of this config.json."""
    return config.get("model_type") in _QUERY_BIAS and not config.get("mlp_bias")


def list_layer_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The linear maps of one layer: name -> values in, values out.

    **Example** hidden 1536, 12 heads of 128, 2 for keys and values: k_proj (1536, 256).
    """
    hidden, wide, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head = read_head_width(config)
    keys = head * config.get("num_key_value_heads", heads)
    return {
        "q_proj": (hidden, head * heads),
        "k_proj": (hidden, keys),
        "v_proj": (hidden, keys),
        "o_proj": (head * heads, hidden),
        "gate_proj": (hidden, wide),
        "up_proj": (hidden, wide),
        "down_proj": (wide, hidden),
    }


def read_head_width(config: Mapping[str, Any]) -> int:
    """The values of one attention head."""
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def count_parameters(config: Mapping[str, Any]) -> int:
    """The weights of a common decoder.

    **Example** Qwen2.5-1.5B-Instruct: 1,543,714,304.
    """
    hidden, kind, shapes = config["hidden_size"], config["model_type"], list_layer_shapes(config)
    layer = sum(inside * outside for inside, outside in shapes.values()) + 2 * hidden
    field = _QUERY_BIAS[kind]
    if field is None or config.get(field):
        layer += sum(shapes[name][1] for name in ("q_proj", "k_proj", "v_proj", *(["o_proj"] if field else [])))
    if kind == "qwen3":
        layer += 2 * read_head_width(config)
    embeddings = config["vocab_size"] * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return int(embeddings + config["num_hidden_layers"] * layer + hidden)


def count_adapted(config: Mapping[str, Any], adapters: Iterable[AdapterConfig]) -> int:
    """The weights of `adapters` in all layers.

    **Example** rank 4 on a map from 10 to 20 values, in 2 layers: 2 x 4 x 30.
    """
    shapes = list_layer_shapes(config)
    return sum(
        config["num_hidden_layers"] * each.rank * sum(sum(shapes[name]) for name in each.targets if name in shapes)
        for each in adapters
    )
