"""Adapters mean what PEFT means by them: its weight changes, its exact mean, and its loading of ours."""

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from torch import nn

from components.population.adapters import Adapter
from components.population.federated import merge_adapters

SHARES = {"m0": 0.5, "m1": 0.3, "m2": 0.2}


class Tiny(nn.Module):
    """Two target layers of different sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.v_proj = nn.Linear(8, 6, bias=False), nn.Linear(8, 5, bias=False)


def test_weight_changes_and_merges_are_pefts() -> None:
    torch.manual_seed(0)
    config = LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = get_peft_model(Tiny(), config, adapter_name="m0")  # type: ignore[arg-type]
    for name in ("m1", "m2"):
        model.add_adapter(name, config)
    adapters = {
        name: Adapter(base="tiny", scale=4.0, weights=get_peft_model_state_dict(model, adapter_name=name))
        for name in SHARES
    }
    layers = {f"base_model.model.{target}": getattr(model.base_model.model, target) for target in ("q_proj", "v_proj")}
    assert adapters["m0"].targets == tuple(sorted(layers))
    for target, layer in layers.items():
        for name, adapter in adapters.items():
            assert torch.allclose(adapter.weight_change(target).float(), layer.get_delta_weight(name), atol=1e-6)

    model.add_weighted_adapter(list(SHARES), list(SHARES.values()), "exact", combination_type="cat")
    whole = merge_adapters(adapters, SHARES, rank=6)
    assert whole.residual < 1e-7
    merge = merge_adapters(adapters, SHARES)
    model.add_adapter("ours", config)
    set_peft_model_state_dict(model, dict(merge.adapter.weights), adapter_name="ours")
    missing = total = 0.0
    for target, layer in layers.items():
        exact = layer.get_delta_weight("exact")
        assert torch.allclose(whole.adapter.weight_change(target).float(), exact, atol=1e-5)
        missing += float((layer.get_delta_weight("ours") - exact).pow(2).sum())
        total += float(exact.pow(2).sum())
    assert abs((missing / total) ** 0.5 - merge.residual) < 1e-5
