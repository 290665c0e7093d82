"""The engine equals a plain forward on small random models of many architectures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from transformers import AutoModelForCausalLM

from components.artifacts.digests import model_digest
from components.config import GenerationConfig
from components.errors import ConfigurationError
from components.generation.base import GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.schema import PolicyVersion
from components.torch_process import building_a_model
from components.training.character_tokenizer import character_tokenizer
from components.training.model_folder import write_model_folder

NUM_TOKENS = 40
ALPHABET = "".join(map(chr, range(48, 48 + NUM_TOKENS - 2)))
ENDS = {"eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None}
SHAPE = {
    "vocab_size": NUM_TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    **ENDS,
}
GROUPED = {**SHAPE, "num_key_value_heads": 2}
GPT2 = {"vocab_size": NUM_TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, **ENDS}
EXPERTS = {**GROUPED, "num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
LATENT = {
    **SHAPE, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 12, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 2, "moe_intermediate_size": 16,
}  # fmt: skip
COMPUTED: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaConfig(**GROUPED),
    "llama, biases": lambda: hf.LlamaConfig(**GROUPED, attention_bias=True, tie_word_embeddings=True),
    "qwen2": lambda: hf.Qwen2Config(**GROUPED),
    "qwen3": lambda: hf.Qwen3Config(**GROUPED, head_dim=16),
    "mistral, no window": lambda: hf.MistralConfig(**GROUPED, sliding_window=None),
    "gemma": lambda: hf.GemmaConfig(**GROUPED, head_dim=8),
    "gpt2": lambda: hf.GPT2Config(**GPT2),
    "gpt-neox": lambda: hf.GPTNeoXConfig(**SHAPE),
    "opt": lambda: hf.OPTConfig(
        vocab_size=NUM_TOKENS, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256, word_embed_proj_dim=32, **ENDS,
    ),
    "phi": lambda: hf.PhiConfig(**SHAPE),
    "phi3": lambda: hf.Phi3Config(**GROUPED),
    "cohere": lambda: hf.CohereConfig(**GROUPED),
    "olmo2": lambda: hf.Olmo2Config(**GROUPED),
    "granite": lambda: hf.GraniteConfig(**GROUPED, attention_multiplier=0.3, logits_scaling=2.0),
    "smollm3": lambda: hf.SmolLM3Config(**GROUPED),
    "glm4": lambda: hf.Glm4Config(**GROUPED, head_dim=8),
    "seed-oss": lambda: hf.SeedOssConfig(**GROUPED, head_dim=8),
    "mixtral": lambda: hf.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2),
    "qwen2-moe": lambda: hf.Qwen2MoeConfig(**EXPERTS),
    "deepseek-v3": lambda: hf.DeepseekV3Config(**LATENT),
}  # fmt: skip
REFUSED: dict[str, Callable[[], Any]] = {
    "Mistral": lambda: hf.MistralConfig(**GROUPED, sliding_window=8),
    "Gemma2": lambda: hf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=8),
    "Gemma3": lambda: hf.Gemma3TextConfig(**GROUPED, head_dim=8, sliding_window=8),
    "GptOss": lambda: hf.GptOssConfig(
        **GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8
    ),
    "StableLm": lambda: hf.StableLmConfig(**GROUPED),
    "Nemotron": lambda: hf.NemotronConfig(**GROUPED),
    "Bloom": lambda: hf.BloomConfig(vocab_size=NUM_TOKENS, hidden_size=32, n_layer=2, n_head=4, **ENDS),
    "Mamba": lambda: hf.MambaConfig(
        vocab_size=NUM_TOKENS, hidden_size=32, num_hidden_layers=2, state_size=8, **ENDS
    ),
    "Lfm2": lambda: hf.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"]),
    "Qwen2": lambda: hf.Qwen2Config(**GROUPED, use_sliding_window=True, sliding_window=8, max_window_layers=1),
}  # fmt: skip


def random_engine(config: Any, folder: Path) -> tuple[TransformersGenerator, PolicyVersion, Any]:
    with building_a_model(3):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    write_model_folder(model, character_tokenizer(ALPHABET), folder)
    version = PolicyVersion(policy="p", step=0, weights_digest=model_digest(model))
    engine = TransformersGenerator(GenerationConfig())
    engine.load(folder, version)
    return engine, version, model


@pytest.mark.parametrize("name", COMPUTED)
def test_sampled_and_scored_tokens_have_the_log_probabilities_of_a_plain_forward(name: str, tmp_path: Path) -> None:
    engine, version, model = random_engine(COMPUTED[name](), tmp_path)
    prompts = [(3, 4, 5), tuple(range(6, 26)), (7,)]
    requests = [
        GenerationRequest(prompt_tokens=prompt, seeds_K=(1, 2, 3), max_new_tokens=12, temperature=1.0)
        for prompt in prompts
    ]
    for prompt, group in zip(prompts, engine.generate(requests, version), strict=True):
        for candidate in group:
            (scored,) = engine.score([prompt], [candidate.tokens])
            expected = plain_logprobs(model, prompt, candidate.tokens)
            assert list(candidate.logprobs) == pytest.approx(expected, abs=1e-5)
            assert list(scored) == pytest.approx(expected, abs=1e-5)


def plain_logprobs(model: Any, prompt: tuple[int, ...], completion: tuple[int, ...]) -> list[float]:
    with torch.no_grad():
        logits_T_V = model(torch.tensor([prompt + completion])).logits[0].float()
    logprobs_T_V = logits_T_V.log_softmax(-1)
    return [float(logprobs_T_V[len(prompt) - 1 + place, token]) for place, token in enumerate(completion)]


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_is_not_computed_exactly_is_refused_by_name_when_it_is_loaded(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=name):
        random_engine(REFUSED[name](), tmp_path)
