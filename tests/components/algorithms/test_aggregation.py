"""The four means by hand and by brute force."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.losses import MinibatchSize, aggregate_losses
from tests.sections import choose_loss

MODES = ("token_mean", "sequence_mean", "sequence_sum", "fixed_length")


def of(losses: list[list[float]], mode: str, length: int = 10) -> float:
    lengths = torch.tensor([len(row) for row in losses])
    flat = torch.tensor([value for row in losses for value in row], dtype=torch.float64)
    size = MinibatchSize(num_completions=len(losses), num_tokens=len(flat))
    config = choose_loss(aggregation=mode, fixed_length=length)
    return aggregate_losses(flat, lengths.repeat_interleave(lengths), size, config).item()


@pytest.mark.parametrize(("mode", "value"), list(zip(MODES, (3.0, 3.5, 4.5, 0.45), strict=True)))
def test_two_answers_of_different_length(mode: str, value: float) -> None:
    assert of([[1.0, 3.0], [5.0]], mode) == pytest.approx(value)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=6))
def test_they_are_their_formulas(losses: list[list[float]]) -> None:
    num_tokens, num = sum(map(len, losses)), len(losses)
    wanted = {
        "token_mean": sum(map(sum, losses)) / num_tokens,
        "sequence_mean": sum(sum(row) / len(row) for row in losses) / num,
        "sequence_sum": sum(map(sum, losses)) / num,
        "fixed_length": sum(map(sum, losses)) / (num * 7),
    }
    assert {mode: of(losses, mode, 7) for mode in MODES} == pytest.approx(wanted, abs=1e-9)


def test_an_empty_micro_batch_has_no_part() -> None:
    size = MinibatchSize(num_completions=2, num_tokens=5)
    for mode in MODES:
        loss = aggregate_losses(torch.zeros(0), torch.zeros(0), size, choose_loss(aggregation=mode, fixed_length=3))
        assert loss.item() == 0.0
