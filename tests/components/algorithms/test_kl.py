"""The three estimates against exact divergences of small distributions: their means, and the means of their gradients."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.kl import k3_kl, kl_estimates

REFERENCE = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)


def policy(logits: torch.Tensor) -> torch.Tensor:
    return logits.softmax(0)


def exact(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return (p * (p / q).log()).sum()


def gradient(value: Any) -> list[float]:
    logits = torch.tensor([0.9, 0.1, -0.4], dtype=torch.float64, requires_grad=True)
    value(logits).backward()
    return logits.grad.tolist()


def average(estimator: str, logits: torch.Tensor) -> torch.Tensor:
    """The mean over the policy's own samples, which a gradient does not see: samples are drawn, not differentiated."""
    p = policy(logits)
    return (p.detach() * kl_estimates(p.log(), REFERENCE.log(), estimator)).sum()


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_estimate_the_divergence_without_bias(estimator: str) -> None:
    logits = torch.tensor([0.9, 0.1, -0.4], dtype=torch.float64)
    assert average(estimator, logits).item() == pytest.approx(exact(policy(logits), REFERENCE).item(), rel=1e-12)


def test_k2_is_half_the_square() -> None:
    values = kl_estimates(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0]), "k2")
    assert values.tolist() == pytest.approx([0.125, 0.5])


@pytest.mark.parametrize("estimator", ["k1", "k2"])
def test_k1_and_k2_have_the_gradient_of_the_divergence_from_the_policy(estimator: str) -> None:
    wanted = gradient(lambda logits: exact(policy(logits), REFERENCE))
    assert gradient(lambda logits: average(estimator, logits)) == pytest.approx(wanted, abs=1e-12)
    assert max(map(abs, wanted)) > 0.1


def test_k3_has_the_gradient_of_the_divergence_to_the_policy() -> None:
    wanted = gradient(lambda logits: exact(REFERENCE, policy(logits)))
    assert gradient(lambda logits: average("k3", logits)) == pytest.approx(wanted, abs=1e-12)
    assert wanted != pytest.approx(gradient(lambda logits: exact(policy(logits), REFERENCE)), abs=0.01)


def test_the_log_ratio_alone_would_pull_nowhere() -> None:
    def plain(logits: torch.Tensor) -> torch.Tensor:
        p = policy(logits)
        return (p.detach() * (p.log() - REFERENCE.log())).sum()

    assert gradient(plain) == pytest.approx([0.0] * 3, abs=1e-12)


@settings(deadline=None)
@given(d=st.floats(-3, 3))
def test_the_values_are_their_formulas(d: float) -> None:
    logprobs, reference = torch.tensor(d - 4, dtype=torch.float64), torch.tensor(-4.0, dtype=torch.float64)
    k1, k2, k3 = (kl_estimates(logprobs, reference, name).item() for name in ("k1", "k2", "k3"))
    d = (logprobs - reference).item()
    assert (k1, k2) == (pytest.approx(d, abs=1e-12), pytest.approx(d * d / 2, abs=1e-12))
    assert k3 == pytest.approx(math.exp(-d) - 1 + d, abs=1e-12)
    assert k3 >= 0
    assert k3_kl(torch.tensor(-d, dtype=torch.float64)).item() == pytest.approx(k3, abs=1e-12)
