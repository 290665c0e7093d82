import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.models.digests import join_digests, model_digest, model_tensors, tensors_digest


def test_order_of_insertion_and_memory_layout_do_not_matter() -> None:
    a, b = torch.arange(6.0).reshape(2, 3), torch.ones(2)
    assert tensors_digest({"a": a, "b": b}) == tensors_digest({"b": b, "a": a.t().contiguous().t()})


def test_name_type_shape_and_bytes_matter() -> None:
    a = torch.arange(6.0)
    variants = [{"a": a}, {"b": a}, {"a": a.double()}, {"a": a.reshape(2, 3)}, {"a": a + 1}, {"a": a[:5]}, {}]
    assert len({tensors_digest(v) for v in variants}) == len(variants)


def test_bfloat16_and_empty_tensors_have_digests() -> None:
    assert tensors_digest({"a": torch.ones(3, dtype=torch.bfloat16)}) != tensors_digest({"a": torch.empty(0)})


@settings(deadline=None)
@given(parts=st.lists(st.text(max_size=4), max_size=4))
def test_joined_digests_depend_on_order_and_bounds(parts: list[str]) -> None:
    assert join_digests(parts) == join_digests(list(parts))
    if parts[::-1] != parts:
        assert join_digests(parts) != join_digests(parts[::-1])
    assert join_digests([*parts, ""]) != join_digests(parts)


def linear(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))


def test_equal_models_have_equal_digests() -> None:
    assert model_digest(linear(0)) == model_digest(linear(0)) != model_digest(linear(1))


def test_a_tied_tensor_counts_once_and_persistent_buffers_count() -> None:
    model = linear(0)
    tied = linear(0)
    tied.register_module("again", tied[0])
    assert set(model_tensors(tied)) == set(model_tensors(model))
    assert "1.running_mean" in model_tensors(model)
