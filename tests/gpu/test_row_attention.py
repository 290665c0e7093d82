"""FlexAttention over the tree of a row on a CUDA device, against the whole mask: values, gradients, and that they repeat."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.rows import make_ends
from components.training.row_attention import attend_rows, attention_mask, plan_rows

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
@pytest.mark.parametrize("columns", [2048, 3000])
def test_blocks_give_what_the_mask_gives_and_repeat(dtype: torch.dtype, tolerance: float, columns: int) -> None:
    device, heads, key_heads = torch.device("cuda"), 12, 2
    ends_S_T = make_ends(columns)
    trees = plan_rows(ends_S_T, device)
    assert trees is not None
    assert not trees.calls
    mask = attention_mask(torch.from_numpy(ends_S_T).to(device))
    length = ends_S_T.shape[1]
    torch.manual_seed(0)
    inputs = [torch.randn(1, num, length, 64, device=device, dtype=dtype) for num in (heads, key_heads, key_heads)]
    layer, results = SimpleNamespace(num_key_value_groups=heads // key_heads, training=False), []
    for how in ("mask", "blocks", "blocks"):
        query, key, value = (each.clone().requires_grad_() for each in inputs)
        if how == "mask":
            shared = (each.repeat_interleave(heads // key_heads, 1) for each in (key, value))
            out = scaled_dot_product_attention(query, *shared, attn_mask=mask).transpose(1, 2)
        else:
            out, _ = attend_rows(layer, query, key, value, None, row_trees=trees)
        out.float().square().sum().backward()
        results.append([out.detach(), query.grad, key.grad, value.grad])
    for exact, mine, again in zip(*results, strict=True):
        assert float((mine - exact).float().norm()) <= tolerance * float(exact.float().norm())
        assert torch.equal(mine, again)
