"""Training in bfloat16 on the CPU: float32 weights behind it, and bit by bit the same result after a restart."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from components.config import AdapterConfig, TrainingConfig
from components.models.adapters import ADAPTER_FOLDER
from components.training.base import MODEL_FOLDER, TRAINING_FOLDER
from components.training.checkpoint import load_model, write_initial_adapter
from tests.sections import choose_loss

pytestmark = pytest.mark.usefixtures("forked")

TRAINING = TrainingConfig(dtype="bfloat16", learning_rate=1e-3, tokens_per_micro_batch=256, weight_decay=0.01)
LOSS = choose_loss(importance_cap=2.0, mismatch_tolerance=2.0)


def weights_by_kind(kind: str, initial, folder: Path):
    """The checkpoint of step 0 of a policy with full weights, or with an adapter."""
    if kind == "full":
        return initial
    adapter = AdapterConfig(rank=2, targets=("q_proj", "v_proj"))
    whole = initial[0] / MODEL_FOLDER
    manifest = write_initial_adapter(whole, folder, "p", adapter=adapter, seed=0, training=TRAINING)
    (folder / MODEL_FOLDER).symlink_to(whole)
    return folder, manifest


@pytest.mark.parametrize("kind", ["full", "adapter"])
def test_a_restarted_run_ends_in_the_same_bits(
    kind: str, make_trainer, jobs, make_groups, make_model, score_groups, initial, tmp_path: Path
) -> None:
    jobs.initial = weights_by_kind(kind, initial, tmp_path / "start")
    trainer = make_trainer(TRAINING)
    groups = score_groups(make_model(), make_groups(6))
    try:
        first = jobs.first(groups, training=TRAINING, loss=LOSS)
        result = trainer.update(first)
        if kind == "adapter":
            (first.output_folder / MODEL_FOLDER).symlink_to(initial[0] / MODEL_FOLDER)
        second = jobs.after(first, result, groups, training=TRAINING, loss=LOSS)
        warm = trainer.update(second)
        trainer.close()
        again = second.model_copy(update={"output_folder": second.output_folder.with_name("cold")})
        assert trainer.update(again) == warm
    finally:
        trainer.close()
    assert 0 < result.metrics["mismatch_max_abs"] < LOSS.mismatch_tolerance  # rounding, and nothing else
    assert warm.manifest.weights_digest != result.manifest.weights_digest != first.weights_digest
    stored = load_file(second.output_folder / TRAINING_FOLDER / "optimizer-00000-of-00001.safetensors")
    masters = [tensor for name, tensor in stored.items() if name.startswith("weight/")]
    assert masters
    assert {tensor.dtype for tensor in masters} == {torch.float32}
    assert any(not torch.equal(tensor, tensor.bfloat16().float()) for tensor in masters)
    served = (
        load_file(second.output_folder / ADAPTER_FOLDER / "adapter_model.safetensors")
        if kind == "adapter"
        else dict(load_model(second.output_folder / MODEL_FOLDER).named_parameters())
    )
    assert {tensor.dtype for tensor in served.values()} == {torch.bfloat16}
