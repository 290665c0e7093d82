"""FedProx: an update is held near the weights with which it began."""

from typing import Any

import pytest
import torch

from components.algorithms.proximal import proximal_term
from components.config import TrainingConfig, parse_config
from components.training.base import MODEL_FOLDER, UpdateJob
from components.training.checkpoint import load_model
from flows.presets import preset_values
from tests.sections import choose_loss

LOSS = choose_loss(mismatch_tolerance=100.0)
TRAINING = TrainingConfig(learning_rate=1e-2, tokens_per_micro_batch=64, num_minibatches=4, max_grad_norm=1e9)


def test_the_term_is_fedproxs_with_its_gradient() -> None:
    weights = {"b": torch.tensor([1.0, 2.0], requires_grad=True)}
    loss = proximal_term(weights, {"b": torch.zeros(2)}, mu=0.1)
    loss.backward()
    assert loss.item() == pytest.approx(0.25)
    assert weights["b"].grad is not None
    assert weights["b"].grad.tolist() == pytest.approx([0.1, 0.2])


@pytest.mark.usefixtures("forked")
def test_the_stronger_the_pull_the_nearer_the_weights_stay(make_trainer: Any, jobs: Any, make_groups: Any) -> None:
    groups, trainer = make_groups(8), make_trainer(TRAINING)

    def measure_move(proximal: float) -> tuple[str, float]:
        job: UpdateJob = jobs.first(groups, training=TRAINING, loss=LOSS, proximal=proximal)
        result = trainer.update(job)
        assert result.metrics["num_updates"] == 4
        before, after = (
            dict(load_model(folder / MODEL_FOLDER).named_parameters())
            for folder in (job.checkpoint_folder, job.output_folder)
        )
        distance = sum((after[name] - before[name]).square().sum().item() for name in before) ** 0.5
        return result.manifest.weights_digest, distance

    try:
        (plain, far), (again, _), (_, near), (_, nearer) = (
            measure_move(0.0),
            measure_move(0.0),
            measure_move(1.0),
            measure_move(100.0),
        )
    finally:
        trainer.close()
    assert plain == again
    assert far > near > nearer > 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"training": {"num_minibatches": 1}}, "has no effect in an update of one optimizer step"),
        ({"method": {"weight_updates": {"every": 2}}}, "set every to 1"),
        ({"method": {"weight_updates": {"type": "synchronized"}}}, "proximal: unknown key; type federated has it"),
    ],
)
def test_a_pull_without_effect_is_refused(changes: dict[str, Any], told: str) -> None:
    def merge(values: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return values | {
            key: merge(values.get(key) or {}, value) if isinstance(value, dict) else value
            for key, value in other.items()
        }

    values = dict(preset_values()["population-tiny"])
    fits = merge(values, {"method": {"weight_updates": {"type": "federated", "every": 1, "proximal": 0.1}}})
    fits = merge(fits, {"training": {"num_minibatches": 2}})
    assert parse_config(fits).model_dump()["method"]["weight_updates"]["proximal"] == 0.1
    with pytest.raises(ValueError, match=told):
        parse_config(merge(fits, changes))
