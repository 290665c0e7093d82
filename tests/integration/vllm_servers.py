"""Real vLLM servers for tests, with tiny random models."""

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from components.config import AdapterConfig, GenerationConfig, VllmConfig
from components.errors import ServiceMissing
from components.generation.vllm.launch import vllm_python
from components.models.adapters import adapter_tensors, add_adapter, compute_adapted_digest, write_adapter
from components.models.character_tokenizer import character_tokenizer
from components.models.digests import model_digest, tensors_digest
from components.models.model_folder import write_model_folder
from components.schema import PolicyVersion
from components.training.checkpoint import compute_probe
from infra.services.process import MARK
from tests.sections import choose_generation

ALPHABET = "ABCDEFG\n "
SHAPE = AdapterConfig(rank=4, alpha=8.0)


def is_installed() -> bool:
    """Whether `make vllm` has run."""
    try:
        vllm_python()
    except ServiceMissing:
        return False
    return True


REQUIRED = bool(os.environ.get("TROUPE_TEST_VLLM"))
"""Where it is set, a test fails rather than be skipped for want of vLLM."""
needs_vllm = pytest.mark.skipif(not is_installed() and not REQUIRED, reason="vLLM is not installed: make vllm")


def tiny_model(seed: int) -> Any:
    """A two-layer Qwen3 with a tied head and heads of 32, which the CPU kernels take."""
    tokenizer = character_tokenizer(ALPHABET)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        intermediate_size=64,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.15,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).eval()


def save_model(seed: int, folder: Path, *, step: int = 0) -> tuple[PolicyVersion, Any]:
    """A model folder; its version, and the trainer's probe."""
    model = tiny_model(seed)
    write_model_folder(model, character_tokenizer(ALPHABET), folder)
    version = PolicyVersion(policy="team", step=step, weights_digest=model_digest(model))
    return version, compute_probe(model)


def save_adapter(seed: int, folder: Path, *, policy: str, base_seed: int = 0) -> tuple[PolicyVersion, Any]:
    """An adapter folder on the base of `base_seed`; the version of both, and the trainer's probe."""
    model = tiny_model(base_seed)
    base = model_digest(model)
    add_adapter(model, policy, SHAPE, seed=seed)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for tensor in adapter_tensors(model, policy).values():
            tensor.normal_(std=0.3)
    tensors = adapter_tensors(model, policy)
    write_adapter(tensors, SHAPE, folder)
    digest = compute_adapted_digest(base, tensors_digest(tensors))
    return PolicyVersion(policy=policy, step=seed, weights_digest=digest), compute_probe(model)


def config_of(**vllm: Any) -> GenerationConfig:
    """Small servers that start quickly."""
    small = {"kv_cache_gib": 0.125, "max_model_tokens": 256, "max_requests_at_once": 32, "port": 18100}
    return choose_generation(engine="vllm", vllm=VllmConfig(**{**small, **vllm}))


def processes_of(home: Path) -> list[psutil.Process]:
    """Every process that carries a mark of `home`'s vLLM servers."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
        except psutil.Error:
            continue
        if mark.startswith("vllm-") and mark.endswith(f"@{home}") and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found
