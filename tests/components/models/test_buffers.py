import torch

from components.models.buffers import cast, compute_buffers, restore_buffers
from tests.components.generation.tiny_models import random_model


def test_rotary_frequencies_survive_a_cast() -> None:
    model = random_model()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    buffers = compute_buffers(model)
    assert any("inv_freq" in name for name in buffers)
    model.bfloat16()
    assert not any(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    restore_buffers(model, buffers)
    for name, buffer in model.named_buffers():
        assert buffer.dtype == torch.float32
        assert torch.equal(buffer, before[name])
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_a_cast_is_of_the_weights_alone() -> None:
    model = random_model()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert cast(model, torch.bfloat16) is model
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
