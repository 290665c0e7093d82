"""What does not depend on how an update is spread out: its result from another number of ranks, with adapters under ZeRO, with
activations computed again, and with state in the host's memory."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from components.config import AdapterConfig, TrainingConfig
from components.errors import ArtifactCorrupt
from components.machine.child_environment import filter_environment
from components.models.adapters import ADAPTER_FOLDER, load_adapter
from components.models.digests import model_digest
from components.training.base import MODEL_FOLDER, TRAINING_FOLDER, UpdateJob, UpdateResult
from components.training.checkpoint import compute_probe, load_model, read_manifest, write_initial_adapter
from components.training.trainer import DeepSpeedTrainer
from tests.sections import choose_loss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]
DEEPSPEED_FOLDER = Path(__file__).resolve().parents[3] / "infra" / "deepspeed"
ADAPTER = AdapterConfig(rank=4, alpha=8.0, targets=("q_proj", "v_proj", "up_proj"))
COMMON: dict[str, Any] = {"learning_rate": 1e-3, "tokens_per_micro_batch": 128, "weight_decay": 0.01}
ALONE = TrainingConfig(**COMMON)
SECOND = TrainingConfig(**COMMON, zero_stage=2, num_ranks=2)
LEAN = TrainingConfig(**COMMON, zero_stage=3, num_ranks=2, gradient_checkpointing=True, offload="all")
ONE_STEP = {"num_minibatches": 1}
NOISE = 1e-6
"""Of float32 sums in another order, where one update moves a weight by 1e-3."""


@pytest.fixture(scope="module")
def trainers() -> Iterator[Callable[[TrainingConfig], DeepSpeedTrainer]]:
    """One warm trainer a configuration. Under ZeRO 3 no parameter is too small to be taken apart."""
    made: dict[str, DeepSpeedTrainer] = {}

    def trainer(training: TrainingConfig) -> DeepSpeedTrainer:
        name = training.model_dump_json()
        if name not in made:
            deepspeed = json.loads((DEEPSPEED_FOLDER / f"zero{training.zero_stage}.json").read_text())
            if training.zero_stage == 3:
                deepspeed["zero_optimization"]["stage3_param_persistence_threshold"] = 0
            environment = filter_environment(os.environ)
            made[name] = DeepSpeedTrainer(
                training, deepspeed_config=deepspeed, run_label="tests", environment=environment
            )
        return made[name]

    yield trainer
    for each in made.values():
        each.close()


class Chain:
    """Updates one after another, each from the checkpoint of the one before, under any configuration."""

    def __init__(self, jobs: Any, trainers: Callable[[TrainingConfig], DeepSpeedTrainer], make_groups: Any) -> None:
        self.jobs, self.trainers, self.make_groups = jobs, trainers, make_groups
        self.steps: list[tuple[UpdateJob, UpdateResult]] = []

    def updated(self, training: TrainingConfig, **changes: Any) -> "Chain":
        """The chain with one update more; 5 groups, so that some minibatch has fewer than two ranks need."""
        groups = self.make_groups(5, seed=len(self.steps))
        if self.steps:
            job = self.jobs.after(*self.steps[-1], groups, training=training, **changes)
        else:
            job = self.jobs.first(groups, training=training, **changes)
        if (job.checkpoint_folder / ADAPTER_FOLDER).exists():
            base = (job.checkpoint_folder / MODEL_FOLDER).resolve()
        result = self.trainers(training).update(job)
        if (job.checkpoint_folder / ADAPTER_FOLDER).exists():
            (job.output_folder / MODEL_FOLDER).symlink_to(base)
        longer = Chain(self.jobs, self.trainers, self.make_groups)
        longer.steps = [*self.steps, (job, result)]
        return longer

    @property
    def folder(self) -> Path:
        return self.steps[-1][0].output_folder

    @property
    def result(self) -> UpdateResult:
        return self.steps[-1][1]

    def weights(self) -> torch.Tensor:
        """What was trained, flat."""
        if (self.folder / ADAPTER_FOLDER).exists():
            tensors = load_file(self.folder / ADAPTER_FOLDER / "adapter_model.safetensors")
            return torch.cat([tensors[name].reshape(-1) for name in sorted(tensors)])
        return torch.cat([p.detach().reshape(-1) for p in load_model(self.folder / MODEL_FOLDER).parameters()])


@pytest.fixture
def chain(make_jobs: Any, trainers: Any, make_groups: Any, tmp_path: Path) -> Chain:
    return Chain(make_jobs(tmp_path), trainers, make_groups)


@pytest.fixture
def adapter_chain(make_jobs: Any, trainers: Any, make_groups: Any, tmp_path: Path, initial: Any) -> Chain:
    """Of an adapter on the tiny model."""
    base = initial[0] / MODEL_FOLDER
    manifest = write_initial_adapter(base, tmp_path / "first", "p", adapter=ADAPTER, seed=0)
    (tmp_path / "first" / MODEL_FOLDER).symlink_to(base)
    jobs = make_jobs(tmp_path)
    jobs.initial = (tmp_path / "first", manifest)
    return Chain(jobs, trainers, make_groups)


@pytest.mark.parametrize(
    "way",
    [
        *(pytest.param(way, marks=pytest.mark.long) for way in ((ALONE, SECOND, ALONE), (LEAN, ALONE, LEAN))),
        (ALONE, LEAN, SECOND),
        (SECOND, LEAN, ALONE),
    ],
    ids=lambda way: "-".join(f"zero{step.zero_stage}x{step.num_ranks}" for step in way),
)
@pytest.mark.parametrize("kind", [pytest.param("model", marks=pytest.mark.long), "adapter"])
def test_a_checkpoint_goes_on_with_another_number_of_ranks(
    chain: Chain, adapter_chain: Chain, way: tuple[TrainingConfig, ...], kind: str
) -> None:
    plain = chain if kind == "model" else adapter_chain
    changed = plain
    for training in way:
        plain, changed = plain.updated(ALONE), changed.updated(training)
        assert (changed.weights() - plain.weights()).abs().max() < NOISE
        assert changed.result.metrics == pytest.approx(plain.result.metrics, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("level", [pytest.param("token", marks=pytest.mark.long), "sequence"])
def test_one_step_corrects_over_ranks_as_it_does_alone(chain: Chain, level: str) -> None:
    loss = choose_loss(mismatch_tolerance=None, importance_cap=1.05, importance_veto=0.2, importance_level=level)
    alone, spread = chain, chain
    for _ in range(2):
        alone = alone.updated(ALONE.model_copy(update=ONE_STEP), loss=loss)
        spread = spread.updated(SECOND.model_copy(update=ONE_STEP), loss=loss)
        for name in ("importance_capped_frac", "importance_veto_frac"):
            assert 0.0 < alone.result.metrics[name] < 1.0
        # Of an update whose norm is .1. Where a gradient is nearly 0 its rounding decides Adam's first step: no single weight.
        assert (spread.weights() - alone.weights()).norm() < 1e-4
        assert spread.result.metrics == pytest.approx(alone.result.metrics, rel=1e-4, abs=1e-6)


def test_the_pull_towards_the_start_counts_once_over_ranks(chain: Chain) -> None:
    free, alone = chain.updated(ALONE), chain.updated(ALONE, proximal=10.0)
    spread = chain.updated(SECOND, proximal=10.0)
    assert (alone.weights() - free.weights()).norm() > 1e-3
    assert (spread.weights() - alone.weights()).norm() < 1e-4
    assert spread.result.metrics["loss"] == pytest.approx(alone.result.metrics["loss"], rel=1e-4)


def test_as_many_ranks_repeat_bit_by_bit(chain: Chain) -> None:
    first = chain.updated(LEAN)
    assert (first.weights() - chain.updated(ALONE).weights()).abs().max() < NOISE
    second = first.updated(LEAN)
    chain.trainers(LEAN).close()
    repeated = chain.jobs.after(*first.steps[-1], chain.make_groups(5, seed=1), training=LEAN)
    assert chain.trainers(LEAN).update(repeated) == second.result


@pytest.mark.parametrize(
    "training", [pytest.param(SECOND, marks=pytest.mark.long, id="zero2"), pytest.param(LEAN, id="zero3")]
)
def test_an_adapter_under_zero_is_that_of_one_rank_and_its_base_stays(
    adapter_chain: Chain, training: TrainingConfig
) -> None:
    alone, spread = adapter_chain, adapter_chain
    for _ in range(2):
        alone, spread = alone.updated(ALONE), spread.updated(training)
    assert (spread.weights() - alone.weights()).abs().max() < NOISE
    manifest = read_manifest(spread.folder)
    model = load_model(spread.folder / MODEL_FOLDER)
    assert model_digest(model) == manifest.base_digest == read_manifest(alone.folder).base_digest
    # The probe is the answer of the live, partitioned model: of this base, still, and this adapter.
    load_adapter(model, "p", spread.folder / ADAPTER_FOLDER)
    assert manifest.probe.trainer_logprobs == pytest.approx(compute_probe(model).trainer_logprobs, abs=1e-5)


def test_each_rank_writes_its_share_and_all_are_wanted(chain: Chain) -> None:
    first = chain.updated(SECOND)
    folder = first.folder / TRAINING_FOLDER
    parts = sorted(folder.iterdir())
    assert [part.name for part in parts] == [
        "optimizer-00000-of-00002.safetensors",
        "optimizer-00001-of-00002.safetensors",
    ]
    sizes = [part.stat().st_size for part in parts]
    assert max(sizes) < 1.2 * min(sizes)
    first.updated(SECOND)  # which the workers hold now: they read the first from disk when it is wanted again
    parts[1].write_bytes(parts[1].read_bytes()[:-3000])
    with pytest.raises(ArtifactCorrupt, match="training cannot be read"):
        first.updated(SECOND)
    parts[1].unlink()
    with pytest.raises(ArtifactCorrupt, match="expected one file per rank"):
        first.updated(ALONE)
