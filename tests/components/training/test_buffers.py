import torch

from components.training.buffers import computed_buffers, restore_buffers


def test_rotary_frequencies_survive_a_cast(make_model) -> None:
    model = make_model()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    buffers = computed_buffers(model)
    assert any("inv_freq" in name for name in buffers)
    model.bfloat16()
    assert not any(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    restore_buffers(model, buffers)
    for name, buffer in model.named_buffers():
        assert buffer.dtype == torch.float32
        assert torch.equal(buffer, before[name])
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
