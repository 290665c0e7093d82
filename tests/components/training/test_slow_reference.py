"""A reference that follows an adapter slowly: it pulls to the adapter as it was, and leaves the one that learns as it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.config import TrainingConfig
from components.models.adapters import ADAPTER_FOLDER, load_adapter
from components.training.base import MODEL_FOLDER, UpdateResult
from components.training.checkpoint import load_model
from components.training.packing import pack_groups
from components.training.reference_logprobs import Recorded, loss_inputs
from components.training.trainer import DeepSpeedTrainer
from tests.components.training.test_specialisation import Team
from tests.sections import choose_loss

TRAINING = TrainingConfig(learning_rate=1e-2, tokens_per_micro_batch=256, num_minibatches=1)


@pytest.mark.slow
def test_an_adapter_is_pulled_to_what_it_was(
    tmp_path: Path, make_model: Callable[..., Any], trainer: DeepSpeedTrainer, make_groups: Callable[..., list[Any]]
) -> None:
    team = Team(tmp_path, "L2", 1, make_model)
    (policy,) = team.policies
    for number in (1, 2):
        team.updated(trainer, team.job(policy, make_groups(4, seed=number), tmp_path / f"after-{number}", TRAINING))
    groups, number = make_groups(4, seed=3), iter(range(9))

    def update(kl: float, reference: Path | None, step: int) -> UpdateResult:
        job = team.job(policy, groups, tmp_path / f"other-{next(number)}", TRAINING)
        loss = choose_loss(kl_coefficient=kl, kl_estimator="k1" if step == 1 else "k3", mismatch_tolerance=None)
        return trainer.update(
            job.model_copy(update={"loss": loss, "reference_folder": reference, "reference_step": step})
        )

    one, two = tmp_path / "after-1", tmp_path / "after-2"
    free, itself, past, start = update(0, None, 0), update(0.5, two, 2), update(0.5, one, 1), update(0.5, None, 0)
    assert itself.metrics["reference_kl"] == 0.0
    assert itself.manifest == free.manifest, "an update pulled to where it begins is a free one"
    assert len({each.manifest.weights_digest for each in (free, past, start)}) == 3
    trainer.close()
    assert update(0.5, one, 1) == past, "a worker that held another reference ended elsewhere"

    def logprobs(folder: Path) -> torch.Tensor:
        model = load_model(folder / MODEL_FOLDER)
        load_adapter(model, policy, folder / ADAPTER_FOLDER)
        job = team.job(policy, groups, tmp_path / f"read-{folder.name}", TRAINING)
        packs = pack_groups(groups, tokens_per_micro_batch=256, share_prompts=True)
        return torch.cat([loss_inputs(model, each, job, Recorded()).logprobs_N for each in packs]).detach()

    assert past.metrics["reference_kl"] == pytest.approx((logprobs(two) - logprobs(one)).mean().item(), abs=1e-6)
