"""Steps on given gradients: torch's own Adam as oracle, refusals that change nothing, and which tensors are stepped."""

from typing import Any

import pytest
import torch

from components.errors import ConfigurationError
from components.training.adapter_steps import MAX_GRAD_NORM, AdapterSteps, select_tensors

NAMES = [f"base_model.model.model.layers.{layer}.q_proj.lora_{part}.weight" for layer in range(3) for part in "AB"]


def tensors(seed: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return {name: torch.randn(2, 3, generator=draw) for name in NAMES}


def test_steps_are_those_of_one_adam_with_clipping_that_remembers() -> None:
    steps = AdapterSteps(tensors(0))
    parameters = [torch.nn.Parameter(each) for each in tensors(0).values()]
    adam = torch.optim.Adam(parameters, lr=0.1, betas=(0.9, 0.95))
    for seed in (1, 2, 3):
        for parameter, gradient in zip(parameters, tensors(seed).values(), strict=True):
            parameter.grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        adam.step()
        taken = steps.step(tensors(seed), 0.1)
        assert taken.gradient_norm == pytest.approx(float(norm), rel=1e-5)
    for found, parameter in zip(steps.tensors().values(), parameters, strict=True):
        torch.testing.assert_close(found, parameter.detach())


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"policy_weights": torch.zeros(1)}, "no such tensor"),
        ({NAMES[0]: torch.zeros(3, 2)}, r"use \[2, 3\]"),
        ({NAMES[0]: torch.full((2, 3), float("nan"))}, "NaN"),
        ({}, "none"),
    ],
)
def test_what_is_no_gradient_is_refused_and_changes_nothing(bad: dict[str, Any], said: str) -> None:
    steps = AdapterSteps(tensors(0))
    with pytest.raises(ConfigurationError, match=said):
        steps.step({NAMES[1]: torch.ones(2, 3), **bad} if bad else bad, 0.1)
    with pytest.raises(ConfigurationError, match="learning_rate"):
        steps.step(tensors(1), 0.0)
    assert all(torch.equal(each, tensors(0)[name]) for name, each in steps.tensors().items())
    assert steps.num_updates == 0


def test_a_selection_names_the_tensors_that_move() -> None:
    gradients = {name: torch.full((2, 3), 1.0 if "layers.2" in name else 1e-3) for name in NAMES}
    for selection, moved in (("frozen", []), ("adaptive", NAMES), ("selective", NAMES[4:]), ("incremental", NAMES[4:])):
        steps = AdapterSteps(tensors(0))
        taken = steps.step(gradients, 0.1, selection=selection)  # type: ignore[arg-type]
        assert list(taken.stepped) == moved
        assert [name for name, each in steps.tensors().items() if not torch.equal(each, tensors(0)[name])] == moved
    assert select_tensors("incremental", gradients, 1, all_names=NAMES) == tuple(NAMES[2:])
