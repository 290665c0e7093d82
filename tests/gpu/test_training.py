"""The update on a CUDA device in bfloat16: close to the float32 update on the CPU, and repeatable."""

import os
import random
from pathlib import Path

import pytest
import torch

from components.artifacts.codec import encode
from components.config import TrainingConfig
from components.identity import GroupKey
from components.machine.child_environment import filter_environment
from components.schema import TrainBatch, TrainGroup
from components.training.base import MODEL_FOLDER, UpdateJob
from components.training.checkpoint import load_model, read_manifest, write_initial_checkpoint
from components.training.trainer import DeepSpeedTrainer
from tests.sections import choose_loss

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

_DEEPSPEED = Path(__file__).resolve().parents[2] / "infra" / "deepspeed"


def write_initial(folder: Path) -> Path:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=64,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        intermediate_size=128,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder / "model")
    write_initial_checkpoint(folder / "model", folder / "initial", "p")
    return folder / "initial"


def _batch_file(folder: Path) -> Path:
    rng = random.Random(0)
    groups = tuple(
        TrainGroup(
            group=GroupKey(problem_id=str(number), episode=0, turn=0, agent="a"),
            prompt_tokens=tuple(rng.randrange(64) for _ in range(200)),
            completions_K_T=tuple(tuple(rng.randrange(64) for _ in range(9)) for _ in range(4)),
            sampler_logprobs_K_T=((-4.16,) * 9,) * 4,
            advantages_K=(1.0, -1.0, 0.5, -0.5),
        )
        for number in range(8)
    )
    path = folder / "batch"
    path.write_bytes(encode(TrainBatch(policy="p", step=0, groups=groups, num_groups_without_signal=0)))
    return path


def make_job(folder: Path, checkpoint: Path, training: TrainingConfig, output: str) -> UpdateJob:
    manifest = read_manifest(checkpoint)
    return UpdateJob(
        policy="p",
        step=manifest.step,
        seed=0,
        total_steps=4,
        checkpoint_folder=checkpoint,
        weights_digest=manifest.weights_digest,
        optimizer_digest=manifest.optimizer_digest,
        reference_folder=None,
        batch_file=_batch_file(folder),
        output_folder=folder / output,
        temperature=1.0,
        training=training,
        loss=choose_loss(mismatch_tolerance=None),
    )


def make_trainer(training: TrainingConfig) -> DeepSpeedTrainer:
    path = _DEEPSPEED / f"zero{training.zero_stage}.json"
    return DeepSpeedTrainer(
        training, deepspeed_config=path, run_label="gpu-tests", environment=filter_environment(os.environ)
    )


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_bfloat16_on_the_device_is_close_to_float32_and_repeats(tmp_path: Path, stage: int) -> None:
    checkpoint = write_initial(tmp_path)
    on_cpu = TrainingConfig(learning_rate=1e-3)
    on_gpu = TrainingConfig(learning_rate=1e-3, device="cuda", dtype="bfloat16", zero_stage=stage)
    trainer = make_trainer(on_cpu)
    exact = trainer.update(make_job(tmp_path, checkpoint, on_cpu, "cpu"))
    trainer.close()
    trainer = make_trainer(on_gpu)
    try:
        first = trainer.update(make_job(tmp_path, checkpoint, on_gpu, "gpu-1"))
        second = trainer.update(make_job(tmp_path, tmp_path / "gpu-1", on_gpu, "gpu-2"))
        trainer.close()
        cold = trainer.update(make_job(tmp_path, tmp_path / "gpu-1", on_gpu, "gpu-cold"))
    finally:
        trainer.close()
    assert cold == second
    assert first.metrics["loss"] == pytest.approx(exact.metrics["loss"], abs=0.02)
    assert first.metrics["entropy"] == pytest.approx(exact.metrics["entropy"], rel=0.02)
    model = load_model(tmp_path / "gpu-1" / MODEL_FOLDER)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
