"""Which adapters may be mixed, and what a weighted mean keeps."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.population.adapters import (
    Adapter,
    adapter_from_factors,
    average_weighted,
    check_mixable,
    check_shares,
    equal_tensors,
)
from tests.components.population.lora import adapter

GOOD = adapter(0)
Q = "layers.0.q_proj.lora_B.weight"


def change(key: str, tensor: torch.Tensor) -> Adapter:
    return replace(GOOD, weights={**GOOD.weights, key: tensor})


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (adapter(1, base="other"), "base: base of 'a', other of 'b'"),
        (adapter(1, scale=1.0), "scale .alpha / rank.: 2.0 of 'a', 1.0 of 'b'"),
        (adapter(1, rank=3), r"rank: \[2\] of 'a', \[3\] of 'b'"),
        (change(Q, torch.zeros(9, 2)), rf"shape of {Q}: \[6, 2\] of 'a', \[9, 2\] of 'b'"),
        (adapter_from_factors("base", 2.0, {"k_proj": (torch.zeros(2, 8), torch.zeros(6, 2))}), "targets: .*k_proj"),
        (change(Q, GOOD.weights[Q].bfloat16()), f"type of {Q}: torch.float32 of 'a', torch.bfloat16 of 'b'"),
        (change(Q, torch.full((6, 2), float("nan"))), f"{Q} of 'b': holds NaN or infinity"),
    ],
)
def test_a_mix_of_unlike_adapters_is_refused_with_field_values_and_remedy(other: Adapter, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as refused:
        check_mixable({"a": GOOD, "b": other})
    assert isinstance(refused.value, ValueError)
    assert ";" in str(refused.value), "what to do about it"
    check_mixable({"a": GOOD, "b": adapter(1)})


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ({"q.weight": torch.zeros(2, 2)}, "tensor 'q.weight'"),
        ({"q.lora_A.weight": torch.zeros(2, 8)}, "target 'q': give both"),
        ({"q.lora_A.weight": torch.zeros(2, 8), "q.lora_B.weight": torch.zeros(6, 3)}, r"A \[2, 8\] and B \[6, 3\]"),
    ],
)
def test_what_is_no_adapter_is_refused(weights: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        Adapter(base="base", scale=1.0, weights=weights)


def test_the_weight_change_is_scaled_b_a() -> None:
    small = adapter_from_factors("base", 2.0, {"q": (torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [0.0]]))})
    assert small.weight_change("q").tolist() == [[6.0, 12.0], [0.0, 0.0]]


@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=6),
    st.sampled_from([torch.bfloat16, torch.float32, torch.float64]),
    st.integers(0, 99),
)
def test_the_mean_of_equal_tensors_is_that_tensor_to_the_bit(raw: list[float], dtype: torch.dtype, seed: int) -> None:
    tensor = torch.randn(7, 3, generator=torch.Generator().manual_seed(seed)).to(dtype)
    found = average_weighted([tensor] * len(raw), [each / sum(raw) for each in raw])
    assert found.dtype == dtype
    assert equal_tensors([tensor, found])


def test_shares_are_one_for_each_member_and_add_to_one() -> None:
    assert list(check_shares({"b": 0, "a": 0}, {"b": 0.25, "a": 0.75})) == ["a", "b"]
    for shares in ({"a": 1.0}, {"a": 0.5, "b": 0.4}, {"a": 1.5, "b": -0.5}, {"a": float("nan"), "b": 1.0}):
        with pytest.raises(ConfigurationError, match="share"):
            check_shares({"a": 0, "b": 0}, shares)
    with pytest.raises(ConfigurationError, match="none to mix"):
        check_mixable({})
