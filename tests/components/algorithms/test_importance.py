"""Weights between sampler and trainer: closed forms, a numpy oracle, and what bounds them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.importance import Correction, correction, correction_metrics
from tests.sections import choose_loss

RATIOS = [4.0, 0.5, 1.0]


def of(ratios: list[float], lengths: list[int], **fields):
    sampler = torch.full((len(ratios),), -2.0)
    trainer = (sampler + torch.tensor(ratios).log()).requires_grad_()
    return correction(trainer, sampler, lengths, choose_loss(**{"importance_cap": 2.0, **fields}))


def metrics_of(*found: Correction) -> dict[str, float]:
    return correction_metrics({name: float(sum(each.sums[name] for each in found)) for name in found[0].sums})


def test_a_weight_a_token_is_capped_from_above_and_carries_no_gradient() -> None:
    found = of(RATIOS, [2, 1])
    assert found.weights_N.tolist() == pytest.approx([2.0, 0.5, 1.0])
    assert not found.weights_N.requires_grad
    assert found.kept_N.all()
    assert metrics_of(found)["importance_capped_frac"] == pytest.approx(1 / 3)
    assert metrics_of(found)["importance_ess"] == pytest.approx(3.5**2 / (3 * (4 + 0.25 + 1)))
    assert "importance_veto_frac" not in metrics_of(found)


def test_a_weight_an_answer_is_the_product_of_its_tokens() -> None:
    found = of([4.0, 0.25, 3.0, 0.5], [2, 2], importance_level="sequence", importance_cap=1.2)
    assert found.weights_N.tolist() == pytest.approx([1.0, 1.0, 1.2, 1.2])
    assert metrics_of(found)["importance_capped_frac"] == 0.5
    assert metrics_of(found)["importance_ess"] == pytest.approx(2.2**2 / (2 * (1 + 1.44)))


def test_one_impossible_token_vetoes_its_answer() -> None:
    found = of(RATIOS, [2, 1], importance_veto=0.6)
    assert found.weights_N.tolist() == pytest.approx([0.0, 0.0, 1.0])
    assert found.kept_N.tolist() == [False, False, True]
    assert metrics_of(found)["importance_veto_frac"] == 0.5
    assert metrics_of(found)["importance_ess"] == pytest.approx(1 / 3)


def test_the_product_over_a_long_answer_does_not_overflow() -> None:
    found = of([3.0] * 2000, [2000], importance_level="sequence", importance_cap=5.0)
    assert found.weights_N.tolist() == pytest.approx([5.0] * 2000)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=5), min_size=1, max_size=5),
    st.sampled_from(["token", "sequence"]),
    st.floats(0.5, 4.0),
    st.none() | st.floats(0.05, 0.9),
)
def test_it_is_the_formula_answer_by_answer(answers: list[list[float]], level: str, cap: float, veto) -> None:
    flat = torch.tensor([d for answer in answers for d in answer], dtype=torch.float64)
    config = choose_loss(importance_cap=cap, importance_level=level, importance_veto=veto)
    found = correction(flat, torch.zeros_like(flat), [len(answer) for answer in answers], config)
    weights = []
    for answer in answers:
        kept = veto is None or min(answer) >= math.log(veto)
        ratios = np.exp(answer) if level == "token" else np.full(len(answer), np.exp(np.sum(answer)))
        weights += list(np.minimum(ratios, cap) * kept)
    assert found.weights_N.tolist() == pytest.approx(weights, rel=1e-5)
    assert 0.0 <= metrics_of(found)["importance_ess"] <= 1.0 + 1e-12


def test_the_effective_sample_size_is_between_one_and_all() -> None:
    def size(weights: list[float]) -> float:
        sums = {"weights": sum(weights), "squares": sum(w * w for w in weights), "number": len(weights), "capped": 0.0}
        return correction_metrics(sums)["importance_ess"]

    assert size([3.0] * 4) == pytest.approx(1.0)
    assert size([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert size([0.0] * 4) == 0.0


def test_weights_make_the_samplers_mean_the_trainers() -> None:
    trainer = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    sampler = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
    values = torch.tensor([1.0, -2.0, 5.0], dtype=torch.float64)
    weights = correction(trainer.log(), sampler.log(), [1, 1, 1], choose_loss(importance_cap=100.0)).weights_N
    assert (sampler * weights * values).sum().item() == pytest.approx((trainer * values).sum().item(), rel=1e-6)
