"""Small random models on disk, wide enough in their weights that log-probabilities differ."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from components.models.character_tokenizer import character_tokenizer
from components.models.digests import model_digest
from components.models.model_folder import write_model_folder
from components.schema import PolicyVersion

ALPHABET = "ABCDEFG\n "


def random_model(
    *, seed: int = 0, family: str = "qwen3", tied: bool = True, vocab_size: int = len(ALPHABET) + 2
) -> Any:
    """A two-layer model with grouped key-value heads."""
    kinds = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}
    config_type, model_type = kinds[family]
    config = config_type(
        vocab_size=vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        initializer_range=0.15,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_type(config).eval()


def save_model(model: Any, folder: Path, *, step: int = 0) -> PolicyVersion:
    """Write `model` with a tokenizer into `folder`; the version that lies there."""
    write_model_folder(model, character_tokenizer(ALPHABET), folder)
    return PolicyVersion(policy="team", step=step, weights_digest=model_digest(model))


def make_tagged_tokenizer(letters: str = "".join(pre_tokenizers.ByteLevel.alphabet())) -> Any:
    """A tokenizer of bytes, or some letters, with an end token, and a token for each tag of thinking, as reasoning models have.

    "ab" is one token and "é" is two. The chat template opens thinking if `thinking` is true, and closes it if it is false.
    """
    vocabulary = {token: number for number, token in enumerate([*sorted(letters), "ab"])}
    backend = Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    tokenizer.add_special_tokens({"eos_token": "<|end|>"})
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}<|end|>{% endfor %}bot:"
        "{% if thinking is defined %}<think>\n{% if not thinking %}\n</think>{% endif %}{% endif %}"
    )
    return tokenizer


def full_logprobs(model: Any, prompt: tuple[int, ...], completion: tuple[int, ...]) -> list[float]:
    """Log-probabilities by one forward over the whole sequence: no cache, no padding, no batch."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    chosen = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])
    return [float(value) for value in chosen[:, 0]]
