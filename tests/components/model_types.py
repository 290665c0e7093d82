"""Small models of many architectures, and whether the in-process engine and the trainer compute them or refuse them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from transformers import AutoModelForCausalLM

from components.machine.torch_state import building_a_model

NUM_TOKENS = 40
LONGEST_ROW = 64
"""Tokens of prompt and completion that the trainer must allow here."""
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
OLDER = {"vocab_size": NUM_TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, **ENDS}
EXPERTS = {**GROUPED, "num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
MIXED = {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}
LATENT = {
    **SHAPE, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 12, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 2, "moe_intermediate_size": 16,
}  # fmt: skip
LINEAR = {
    **EXPERTS, "head_dim": 16, "num_experts_per_tok": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
STATES = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "attn_layer_indices": [1]}


@dataclass(frozen=True, slots=True)
class ModelType:
    """A configuration, and who computes it exactly. `trainer_apart` is the trainer without shared prompts."""

    config: Callable[[], Any]
    engine: bool
    trainer: bool
    trainer_apart: bool

    def model(self) -> Any:
        """Random weights, large enough that tokens differ in probability."""
        with building_a_model(3):
            model = AutoModelForCausalLM.from_config(self.config(), dtype=torch.float32)
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    torch.nn.init.normal_(parameter, std=0.1)
        return model.eval()


def computed(config: Callable[[], Any]) -> ModelType:
    """By both."""
    return ModelType(config, engine=True, trainer=True, trainer_apart=True)


def only_trained(config: Callable[[], Any]) -> ModelType:
    """The engine would have to replace its attention, and cannot."""
    return ModelType(config, engine=False, trainer=True, trainer_apart=True)


def with_state(config: Callable[[], Any]) -> ModelType:
    """State runs on through a row, so that a row may hold one completion only."""
    return ModelType(config, engine=False, trainer=False, trainer_apart=True)


def refused(config: Callable[[], Any]) -> ModelType:
    """By both."""
    return ModelType(config, engine=False, trainer=False, trainer_apart=False)


MODEL_TYPES = {
    "llama": computed(lambda: hf.LlamaConfig(**GROUPED)),
    "llama, biases": computed(lambda: hf.LlamaConfig(**GROUPED, attention_bias=True, tie_word_embeddings=True)),
    "qwen2": computed(lambda: hf.Qwen2Config(**GROUPED)),
    "qwen3": computed(lambda: hf.Qwen3Config(**GROUPED, head_dim=16)),
    "mistral, no window": computed(lambda: hf.MistralConfig(**GROUPED, sliding_window=None)),
    "gemma": computed(lambda: hf.GemmaConfig(**GROUPED, head_dim=8)),
    "gpt2": computed(lambda: hf.GPT2Config(**GPT2)),
    "gpt-neox": computed(lambda: hf.GPTNeoXConfig(**SHAPE)),
    "opt": computed(
        lambda: hf.OPTConfig(**OLDER, ffn_dim=48, max_position_embeddings=256, word_embed_proj_dim=32)
    ),
    "phi": computed(lambda: hf.PhiConfig(**SHAPE)),
    "phi3": computed(lambda: hf.Phi3Config(**GROUPED)),
    "cohere": computed(lambda: hf.CohereConfig(**GROUPED)),
    "olmo2": computed(lambda: hf.Olmo2Config(**GROUPED)),
    "granite": computed(lambda: hf.GraniteConfig(**GROUPED, attention_multiplier=0.3, logits_scaling=2.0)),
    "smollm3": computed(lambda: hf.SmolLM3Config(**GROUPED)),
    "glm4": computed(lambda: hf.Glm4Config(**GROUPED, head_dim=8)),
    "seed-oss": computed(lambda: hf.SeedOssConfig(**GROUPED, head_dim=8)),
    "mixtral": computed(lambda: hf.MixtralConfig(**MIXED)),
    "qwen2-moe": computed(lambda: hf.Qwen2MoeConfig(**EXPERTS)),
    "deepseek-v3": computed(lambda: hf.DeepseekV3Config(**LATENT)),
    "doge": computed(lambda: hf.DogeConfig(**GROUPED)),
    "doge, choosing what longer rows see": ModelType(
        lambda: hf.DogeConfig(**GROUPED, keep_window_size=LONGEST_ROW // 2), engine=True, trainer=False, trainer_apart=False
    ),
    "mistral, window as long as any row": only_trained(
        lambda: hf.MistralConfig(**GROUPED, sliding_window=LONGEST_ROW)
    ),
    "diffllama": only_trained(lambda: hf.DiffLlamaConfig(**GROUPED)),
    "stablelm": only_trained(lambda: hf.StableLmConfig(**GROUPED)),
    "nemotron": only_trained(lambda: hf.NemotronConfig(**GROUPED)),
    "falcon": only_trained(lambda: hf.FalconConfig(**OLDER, alibi=False)),
    "lfm2": with_state(lambda: hf.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"])),
    "qwen3-next": with_state(lambda: hf.Qwen3NextConfig(**LINEAR)),
    "bamba": with_state(lambda: hf.BambaConfig(**GROUPED, **STATES)),
    "minimax": with_state(
        lambda: hf.MiniMaxConfig(**MIXED, head_dim=8, layer_types=["linear_attention", "full_attention"])
    ),
    "mistral": refused(lambda: hf.MistralConfig(**GROUPED, sliding_window=LONGEST_ROW - 1)),
    "qwen2, windows": refused(
        lambda: hf.Qwen2Config(**GROUPED, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    ),
    "phi3, windows": refused(lambda: hf.Phi3Config(**GROUPED, sliding_window=8)),
    "starcoder2": refused(lambda: hf.Starcoder2Config(**GROUPED, sliding_window=8)),
    "cohere2": refused(lambda: hf.Cohere2Config(**GROUPED, sliding_window=8)),
    "olmo3": refused(lambda: hf.Olmo3Config(**GROUPED, sliding_window=8)),
    "gemma2": refused(lambda: hf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=8)),
    "gemma3": refused(lambda: hf.Gemma3TextConfig(**GROUPED, head_dim=8, sliding_window=8)),
    "llama4": refused(
        lambda: hf.Llama4TextConfig(
            **{**GROUPED, "num_local_experts": 2}, head_dim=8, attention_chunk_size=8, intermediate_size_mlp=48,
            interleave_moe_layer_step=1, no_rope_layer_interval=2,
        )
    ),
    "gpt-oss": refused(lambda: hf.GptOssConfig(**MIXED, head_dim=8, sliding_window=8)),
    "bloom": refused(
        lambda: hf.BloomConfig(vocab_size=NUM_TOKENS, hidden_size=32, n_layer=2, n_head=4, **ENDS)
    ),
    "falcon, alibi": refused(lambda: hf.FalconConfig(**OLDER, alibi=True)),
    "mpt": refused(
        lambda: hf.MptConfig(vocab_size=NUM_TOKENS, d_model=32, n_layers=2, n_heads=4, max_seq_len=256, **ENDS)
    ),
    "mamba": refused(
        lambda: hf.MambaConfig(
            vocab_size=NUM_TOKENS, hidden_size=32, num_hidden_layers=2, state_size=8, **ENDS
        )
    ),
    "recurrent-gemma": refused(
        lambda: hf.RecurrentGemmaConfig(
            **{**OLDER, "num_hidden_layers": 3}, intermediate_size=48, lru_width=32, attention_window_size=8
        )
    ),
}  # fmt: skip
"""Each known by both, so that a model that one of them refuses is no surprise in the other."""
