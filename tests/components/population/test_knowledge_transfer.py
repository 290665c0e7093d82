"""Pulls to another policy: torch's divergence as oracle, gradients, illegal actions."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import kl_div

from components.errors import ConfigurationError
from components.population.knowledge_transfer import pull_term


def logprobs(seed: int) -> torch.Tensor:
    return torch.log_softmax(torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)).double(), -1)


@given(st.integers(0, 99), st.integers(0, 99), st.floats(0, 2))
def test_it_is_torchs_divergence_in_both_directions(own_seed: int, other_seed: int, rate: float) -> None:
    own, other = logprobs(own_seed), logprobs(other_seed)
    teammate = kl_div(own, other, log_target=True, reduction="batchmean")
    magnet = kl_div(other, own, log_target=True, reduction="batchmean")
    assert pull_term(own, other, rate).item() == pytest.approx(rate * teammate.item(), abs=1e-12)
    assert pull_term(own, other, rate, "from_own").item() == pytest.approx(rate * magnet.item(), abs=1e-12)


@pytest.mark.parametrize("direction", ["from_other", "from_own"])
def test_descent_on_it_ends_at_the_other_with_illegal_actions_left_alone(direction: Any) -> None:
    legal = torch.tensor([[True, True, False], [True, True, True]])
    other = torch.log_softmax(torch.tensor([[0.0, 1.0, 9.0], [2.0, 0.0, 1.0]]).masked_fill(~legal, -torch.inf), -1)
    logits = torch.zeros(2, 3, requires_grad=True)
    for _ in range(300):
        loss = pull_term(torch.log_softmax(logits.masked_fill(~legal, -torch.inf), -1), other, 1.0, direction)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert torch.isfinite(gradient).all()
        logits = (logits - gradient).detach().requires_grad_()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert logits[0, 2].item() == 0.0


def test_a_teammates_certainty_can_be_learned_and_a_magnets_cannot() -> None:
    even, sure = torch.log(torch.tensor([[0.5, 0.5]])), torch.tensor([[0.0, -torch.inf]])
    assert pull_term(even, sure, 1.0).item() == pytest.approx(0.6931472)
    with pytest.raises(ConfigurationError, match="an action has a chance in one policy"):
        pull_term(even, sure, 1.0, "from_own")
    for wrong in ((even, sure, -1.0), (even, sure[0], 1.0)):
        with pytest.raises(ConfigurationError, match="rate"):
            pull_term(*wrong)
