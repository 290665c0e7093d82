"""Memory estimates: closed-form numbers, and a small step as measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.config import AdapterConfig, PolicyConfig, TrainingConfig
from components.errors import ConfigurationError
from components.models.memory import GIB, ModelNumbers, check_fits, engine_bytes, host_bytes, training_bytes
from components.models.model_sizes import model_sizes
from tests.sections import choose_generation

ROOT = Path(__file__).resolve().parents[3]
MODEL = ModelNumbers(
    num_parameters=1_500_000_000,
    num_trained=1_500_000_000,
    hidden_size=1536,
    intermediate_size=8960,
    num_layers=28,
    key_value_width=256,
    vocabulary_size=151_936,
    adapted=False,
)
ON_GPU = {"device": "cuda", "dtype": "bfloat16", "tokens_per_micro_batch": 1000}


def test_a_full_model_in_bfloat16_keeps_float32_beside_it() -> None:
    parts = training_bytes(MODEL, TrainingConfig(**ON_GPU))
    assert {name: value / 1.5e9 for name, value in parts.items() if name in ("weights", "gradients", "optimizer")} == {
        "weights": 2.0,
        "gradients": 6.0,
        "optimizer": 12.0,
    }
    assert parts["log-probabilities"] == 2**25 * (4 + 4 + 2) + 1000 * 1536 * 4 + 151_936 * 1536 * 2
    assert parts["activations"] == 28 * 1000 * 2 * (16 * 1536 + 4.5 * 8960)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"zero_stage": 2, "num_ranks": 4}, {"weights": 2.0, "gradients": 1.5, "optimizer": 3.0}),
        ({"zero_stage": 3, "num_ranks": 4}, {"weights": 0.5, "gradients": 1.5, "optimizer": 3.0}),
        ({"zero_stage": 3, "num_ranks": 4, "offload": "all"}, {"gradients": 1.5}),
        (
            {"device": "cpu", "dtype": "float32", "num_ranks": 2},
            {"weights": 4.0, "gradients": 4.0, "optimizer": 8.0},
        ),
    ],
)
def test_ranks_partition_what_their_stage_does(changes, expected) -> None:
    parts = training_bytes(MODEL, TrainingConfig(**{**ON_GPU, **changes}))
    states = ("weights", "gradients", "optimizer")
    assert {name: parts[name] / 1.5e9 for name in states if name in parts} == expected


def test_an_adapter_needs_no_reference_and_hardly_an_optimizer() -> None:
    values = {name: getattr(MODEL, name) for name in ModelNumbers.__slots__}
    adapted = ModelNumbers(**{**values, "num_trained": 1_000_000, "adapted": True})
    parts = training_bytes(adapted, TrainingConfig(**ON_GPU), with_reference=True)
    assert (parts["weights"], parts["optimizer"]) == (3_000_000_000, 12_000_000)
    assert "reference" not in parts
    assert parts["log-probabilities"] == 2**25 * (4 + 4 + 2) + 1000 * 1536 * 4, (
        "no logits of all tokens, nor of a layer"
    )
    assert training_bytes(MODEL, TrainingConfig(**ON_GPU), with_reference=True)["reference"] == 3_000_000_000


def test_an_engine_is_its_weights_and_cache_or_its_share_of_the_device() -> None:
    inside = choose_generation(dtype="bfloat16", max_batch_tokens=5000)
    assert engine_bytes(MODEL, inside, num_tokens=9000, reserved_bytes=0) == {
        "engine": 3_000_000_000 + 2 * 28 * 256 * 2 * 5000
    }
    served = choose_generation(engine="vllm", device="cuda")
    assert engine_bytes(MODEL, served, num_tokens=9000, reserved_bytes=64 * GIB) == {"engine": 64 * GIB}
    on_cpu = choose_generation(engine="vllm", dtype="bfloat16", vllm={"kv_cache_gib": 2.0})
    assert engine_bytes(MODEL, on_cpu, num_tokens=9000, reserved_bytes=0) == {"engine": 3_000_000_000 + 2 * GIB}


def test_a_refusal_is_one_line_that_names_the_largest_part_and_the_field_to_lower() -> None:
    parts = training_bytes(MODEL, TrainingConfig(**{**ON_GPU, "tokens_per_micro_batch": 16384}))
    check_fits(parts, sum(parts.values()), where="device cuda")
    with pytest.raises(ConfigurationError, match=r"activations, 55\.5 GiB: set training\.gradient_checkpointing") as no:
        check_fits(parts, 80 * GIB, where="device cuda")
    assert "\n" not in str(no.value)
    values = {name: getattr(MODEL, name) for name in ModelNumbers.__slots__}
    small = ModelNumbers(**{**values, "num_parameters": 0, "num_trained": 0, "num_layers": 1})
    with pytest.raises(
        ConfigurationError, match=r"log-probabilities, 0\.8 GiB: train a policies\.<name>\.adapter, or lower"
    ):
        check_fits({**training_bytes(small, TrainingConfig(**ON_GPU)), "process": 0}, GIB // 2, where="device cuda")


def test_a_base_is_counted_without_its_weights(tmp_path: Path) -> None:
    smollm = model_sizes([PolicyConfig(base="smollm2-135m", prompt_format="chat")])
    assert smollm is not None
    assert smollm.num_parameters == 134_515_008
    adapter = AdapterConfig(rank=4, targets=("q_proj", "k_proj"))
    (tmp_path / "config.json").write_text(
        '{"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 100,'
        ' "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true}'
    )
    two = model_sizes([PolicyConfig(base=str(tmp_path), adapter=adapter)] * 2)
    assert two is not None
    assert two.num_trained == 2 * 2 * 4 * ((64 + 64) + (64 + 32))
    attention = 64 * 64 + 64 + 2 * (64 * 32 + 32) + 64 * 64
    assert two.num_parameters == 100 * 64 + 2 * (attention + 3 * 64 * 128 + 2 * 64) + 64
    assert (two.key_value_width, two.adapted) == (32, True)
    assert model_sizes([PolicyConfig()]) is None
    assert model_sizes([PolicyConfig(base="nobody/no-such-model")]) is None


_STEP = """
import resource
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from components.identity import GroupKey
from components.schema import TrainGroup
from components.training.forward import logprobs_and_entropies
from components.training.architectures import replace_where_exact
from components.training.packing import pack_groups

shape = dict(vocab_size=16000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8)
model = Qwen3ForCausalLM(Qwen3Config(num_key_value_heads=4, head_dim=64, tie_word_embeddings=True, **shape)).eval()
replace_where_exact(model)
answers = tuple((number, *range(64)) for number in range(14))
zeros = tuple((0.0,) * 65 for _ in answers)
key = GroupKey(problem_id="p", episode=0, turn=0, agent="a")
rows = dict(group=key, completions_K_T=answers, sampler_logprobs_K_T=zeros, advantages_K=(1.0,) * 14)
groups = [TrainGroup(prompt_tokens=(first,) * 64, **rows) for first in (1, 2)]

def step(groups, size):
    for batch in pack_groups(groups, tokens_per_micro_batch=size, share_prompts=True):
        logprobs_N, _ = logprobs_and_entropies(model, batch, temperature=1.0, entropy_gradient=False)
        logprobs_N.sum().backward()

for parameter in model.parameters():
    parameter.grad = torch.zeros_like(parameter)
resident = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
step(groups, 2048)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # ru_maxrss may be that of the parent
print("FOUND", int(peak.split()[1]) * 1024 - resident)
"""


def test_a_step_takes_about_the_estimated_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STEP],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (found,) = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("FOUND")]
    small = ModelNumbers(
        num_parameters=0, num_trained=0, hidden_size=512, intermediate_size=1024, num_layers=4, key_value_width=256,
        vocabulary_size=16000, adapted=False,
    )  # fmt: skip
    estimated = sum(training_bytes(small, TrainingConfig(tokens_per_micro_batch=2048)).values())
    assert 0.6 < found / estimated < 1.4


def test_this_host_has_memory() -> None:
    assert 2**28 < host_bytes() < 2**50
