"""Tiny models, random groups and one warm trainer, shared by the training tests."""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from components.artifacts.codec import encode
from components.config import TrainingConfig
from components.identity import GroupKey
from components.machine.child_environment import filter_environment
from components.schema import TrainBatch, TrainGroup
from components.training.base import CheckpointManifest, UpdateJob, UpdateResult
from components.training.checkpoint import write_initial_checkpoint
from components.training.forward import completion_logprobs
from components.training.packing import pack_groups
from components.training.trainer import DeepSpeedTrainer
from tests.sections import choose_loss

VOCABULARY = 30
DEEPSPEED_FOLDER = Path(__file__).resolve().parents[3] / "infra" / "deepspeed"


def tiny_model(seed: int = 0, kind: str = "qwen3") -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
        "initializer_range": 0.2,
    }
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, **shape)).eval()
    return Qwen3ForCausalLM(Qwen3Config(num_key_value_heads=4, head_dim=8, tie_word_embeddings=True, **shape)).eval()


def random_groups(num_groups: int, *, seed: int = 0, group_size: int = 4, longest: int = 7) -> list[TrainGroup]:
    """Groups of two agents in turn."""
    rng = random.Random(seed)

    def tokens(least: int, most: int) -> tuple[int, ...]:
        return tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(least, most)))

    groups = []
    for number in range(num_groups):
        completions = tuple(tokens(1, longest) for _ in range(group_size))
        groups.append(
            TrainGroup(
                group=GroupKey(problem_id=f"p{number}", episode=0, turn=0, agent="ab"[number % 2]),
                prompt_tokens=tokens(3, 12),
                completions_K_T=completions,
                sampler_logprobs_K_T=tuple(tuple(rng.uniform(-4, -2) for _ in c) for c in completions),
                advantages_K=tuple(rng.gauss(0, 1) for _ in completions),
            )
        )
    return groups


def score_by_model(model: Any, groups: list[TrainGroup], *, noise: float = 0.0) -> list[TrainGroup]:
    """`groups` with the log-probs that `model` gives, as if it had sampled them, plus seeded noise."""
    rng = random.Random(5)
    values: dict[tuple[int, int], list[float]] = {}
    for micro_batch in pack_groups(groups, tokens_per_micro_batch=4096, share_prompts=True):
        with torch.no_grad():
            logprobs = completion_logprobs(model, micro_batch, temperature=1.0).tolist()
        for group, candidate, logprob in zip(
            micro_batch.groups_N.tolist(), micro_batch.candidates_N.tolist(), logprobs, strict=True
        ):
            values.setdefault((group, candidate), []).append(logprob)
    noisy = {key: tuple(logprob + noise * rng.gauss(0, 1) for logprob in values[key]) for key in sorted(values)}
    return [
        replace(
            group,
            sampler_logprobs_K_T=tuple(noisy[number, k] for k in range(len(group.completions_K_T))),
        )
        for number, group in enumerate(groups)
    ]


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    return tiny_model


@pytest.fixture(scope="session")
def make_groups() -> Callable[..., list[TrainGroup]]:
    return random_groups


@pytest.fixture(scope="session")
def score_groups() -> Callable[..., list[TrainGroup]]:
    return score_by_model


@pytest.fixture(scope="session")
def initial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CheckpointManifest]:
    """The checkpoint of step 0 of the tiny model."""
    folder = tmp_path_factory.mktemp("initial")
    tiny_model().save_pretrained(folder / "model")
    (folder / "model" / "tokenizer.json").write_text("{}")
    return folder / "checkpoint", write_initial_checkpoint(folder / "model", folder / "checkpoint", "p")


TRAINING = TrainingConfig(learning_rate=1e-2, tokens_per_micro_batch=256)


@pytest.fixture(scope="session")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `trainer` looks for losses of the user's own."""
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="session")
def trainer(own_folder: Path) -> Iterator[DeepSpeedTrainer]:
    """One warm worker for all tests that do not break it."""
    path = DEEPSPEED_FOLDER / "zero0.json"
    trainer = DeepSpeedTrainer(
        TRAINING,
        deepspeed_config=path,
        run_label="tests",
        environment=filter_environment(os.environ),
        own_code_folder=own_folder,
    )
    trainer.start()
    yield trainer
    trainer.close()


@pytest.fixture(scope="session")
def make_trainer() -> Callable[[TrainingConfig], DeepSpeedTrainer]:
    def make(training: TrainingConfig) -> DeepSpeedTrainer:
        path = DEEPSPEED_FOLDER / f"zero{training.zero_stage}.json"
        environment = filter_environment(os.environ)
        return DeepSpeedTrainer(training, deepspeed_config=path, run_label="tests", environment=environment)

    return make


class Jobs:
    """Makes jobs that start from the initial checkpoint or from an earlier result, each with its own output folder."""

    def __init__(self, folder: Path, initial: tuple[Path, CheckpointManifest]) -> None:
        self.folder = folder
        self.initial = initial
        self._number = 0

    def first(self, groups: list[TrainGroup], **changes: Any) -> UpdateJob:
        folder, manifest = self.initial
        return self._job(groups, folder, manifest, **changes)

    def after(self, job: UpdateJob, result: UpdateResult, groups: list[TrainGroup], **changes: Any) -> UpdateJob:
        return self._job(groups, job.output_folder, result.manifest, **changes)

    def _job(self, groups: list[TrainGroup], folder: Path, manifest: CheckpointManifest, **changes: Any) -> UpdateJob:
        self._number += 1
        agents = tuple(sorted({group.group.agent for group in groups}))
        batch = TrainBatch(
            policy="p", step=manifest.step, groups=tuple(groups), num_groups_without_signal=0, agents=agents
        )
        batch_file = self.folder / f"batch-{self._number}"
        batch_file.write_bytes(encode(batch))
        values: dict[str, Any] = {
            "policy": "p",
            "step": manifest.step,
            "seed": 0,
            "total_steps": 10,
            "checkpoint_folder": folder,
            "weights_digest": manifest.weights_digest,
            "optimizer_digest": manifest.optimizer_digest,
            "base_digest": manifest.base_digest,
            "reference_folder": None,
            "batch_file": batch_file,
            "output_folder": self.folder / f"output-{self._number}",
            "temperature": 1.0,
            "training": TRAINING,
            "loss": choose_loss(mismatch_tolerance=None),
        }
        return UpdateJob(**{**values, **changes})


@pytest.fixture
def jobs(tmp_path: Path, initial: tuple[Path, CheckpointManifest]) -> Jobs:
    return Jobs(tmp_path, initial)


@pytest.fixture(scope="session")
def make_jobs(initial: tuple[Path, CheckpointManifest]) -> Callable[[Path], Jobs]:
    return lambda folder: Jobs(folder, initial)


@pytest.fixture(scope="session")
def make_job() -> Callable[..., UpdateJob]:
    """Jobs whose files are never opened."""

    def make(**changes: Any) -> UpdateJob:
        values: dict[str, Any] = {
            "policy": "p",
            "step": 0,
            "seed": 0,
            "total_steps": 10,
            "checkpoint_folder": Path("unused"),
            "weights_digest": "",
            "optimizer_digest": "",
            "reference_folder": None,
            "batch_file": Path("unused"),
            "output_folder": Path("unused"),
            "temperature": 1.0,
            "training": TrainingConfig(),
            "loss": choose_loss(),
        }
        return UpdateJob(**{**values, **changes})

    return make
