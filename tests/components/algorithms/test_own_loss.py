"""A policy loss of one's own stands behind the same door as the built-in ones, and is checked on the way out."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from components.algorithms.loss_inputs import LossInputs
from components.algorithms.loss_registry import POLICY_LOSSES, policy_loss
from components.algorithms.loss_statistics import token_statistics
from components.algorithms.losses import token_losses
from components.config import loss
from components.config.variants import list_variants
from components.errors import ConfigurationError
from tests.sections import choose_loss

Own = Callable[[str], str]
REINFORCE = "def mine(inputs, config): return -config.clip_high * inputs.logprobs_N * inputs.advantages_N\n"


def inputs(num_tokens: int = 3) -> LossInputs:
    return LossInputs(
        logprobs_N=torch.tensor([-1.0, -2.0, -3.0][:num_tokens], requires_grad=True),
        old_logprobs_N=torch.tensor([-1.0, -2.5, -3.0][:num_tokens]),
        advantages_N=torch.tensor([1.0, 1.0, -2.0][:num_tokens]),
        completions_N=torch.tensor([0, 0, 1][:num_tokens]),
        lengths_N=torch.tensor([2, 2, 1][:num_tokens]),
    )


def test_an_own_loss_gets_tokens_and_fields_and_its_gradient_counts(own_module: Own) -> None:
    config = choose_loss(policy_loss=f"{own_module(REINFORCE)}:mine", clip_high=0.5)
    given = replace(
        inputs(), importance_weights_N=torch.tensor([1.0, 2.0, 1.0]), kept_N=torch.tensor([True, True, False])
    )
    losses_N = token_losses(given, config)
    losses_N.sum().backward()
    assert losses_N.tolist() == [0.5, 2.0, 0.0]
    assert given.logprobs_N.grad is not None
    assert given.logprobs_N.grad.tolist() == [-0.5, -1.0, 0.0]


def test_what_is_reported_of_an_own_loss_is_what_is_known_of_it(own_module: Own) -> None:
    sums = token_statistics(inputs(), choose_loss(policy_loss=f"{own_module(REINFORCE)}:mine"))
    assert "clip_frac" not in sums
    assert sums["ratio_mean"].item() == pytest.approx(2.0 + torch.tensor(0.5).exp().item())


def test_a_rank_without_tokens_asks_nobody_and_has_a_gradient(own_module: Own) -> None:
    given = inputs(0)
    losses_N = policy_loss(choose_loss(policy_loss=f"{own_module('def mine(i, c): 1 / 0')}:mine")).losses(
        given, choose_loss()
    )
    losses_N.sum().backward()
    assert (losses_N.tolist(), given.logprobs_N.grad is not None) == ([], True)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return i.logprobs_N.mean()", r":1: returned the shape \(\); return \(3,\), one loss per token"),
        ("return i.logprobs_N[:2]", r":1: returned the shape \(2,\); return \(3,\)"),
        ("return i.logprobs_N.tolist()", r":1: returned list; return a tensor of shape \(3,\)"),
        ("return i.logprobs_N > 0", r":1: returned torch\.bool; return floats"),
        ("return (-i.logprobs_N - 2).sqrt()", r":1: returned 1 of 3 losses that are not finite"),
        ("return i.logprobs_N.detach()", r":1: returned losses that do not depend on inputs\.logprobs_N"),
        (
            "\n    return i.logprobs_N @ i.nothing",
            r":2: AttributeError: 'LossInputs' object has no attribute 'nothing'",
        ),
        (
            "\n    import torch; return torch.stack([i.logprobs_N, i.logprobs_N[:1]])",
            r":2: RuntimeError: stack expects",
        ),
    ],
)
def test_a_wrong_loss_is_one_line_with_its_file_and_line(own_module: Own, body: str, told: str) -> None:
    module = own_module(f"def mine(i, c): {body}\n")
    config = choose_loss(policy_loss=f"{module}:mine")
    with pytest.raises(
        ConfigurationError, match=rf"^loss\.policy_loss '{module}:mine': .*{module}\.py{told}"
    ) as caught:
        token_losses(inputs(), config)
    assert "\n" not in str(caught.value)


def test_every_built_in_name_has_a_loss() -> None:
    assert set(POLICY_LOSSES) == set(list_variants(loss.Loss))
