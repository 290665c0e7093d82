"""Adapters by their documented names: who answers, what happens to bad weights, ports and versions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from components.errors import ArtifactCorrupt, LogprobMismatch
from components.methods.population.served_models import ServedPolicy
from components.models.adapters import write_adapter
from flows.api.multi_model.configs import LoRAConfig
from flows.api.multi_model.lora import create_distributed_lora_scheduler, create_lora_manager
from tests.components.generation.tiny_models import random_model, saved

ASKED: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 2}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("base")
    saved(random_model(seed=1), made)
    return str(made)


def config(number: int, **values: Any) -> LoRAConfig:
    return LoRAConfig(lora_id=number, rank=2, alpha=8.0, **values)


def weights(policy: ServedPolicy, folder: Path, seed: int, *, fill: float | None = None) -> Path:
    draw = torch.Generator().manual_seed(seed)
    tensors = {name: 0.5 * torch.randn(each.shape, generator=draw) for name, each in policy.tensors().items()}
    assert policy.adapter is not None
    if fill is not None:
        tensors = {name: torch.full_like(each, fill) for name, each in tensors.items()}
    write_adapter(tensors, policy.adapter, folder)
    return folder


def test_adapters_answer_in_turn_or_by_id_and_take_other_weights(base: str, tmp_path: Path) -> None:
    configs = {each: config(each) for each in (1, 2)}
    with create_lora_manager(configs, base_model=base, device="cpu") as manager:
        assert [manager.process_request("A", **ASKED).metadata["lora_id"] for _ in range(3)] == [1, 2, 1]
        before = manager.process_request("A", lora_id=2, **ASKED)
        assert manager.update_lora(2, weights(manager.policy(2), tmp_path / "new", 3)) == 1
        after = manager.process_request("A", lora_id=2, **ASKED)
        assert (before.metadata["version"], after.metadata["version"]) == (0, 1)
        assert before.confidence != after.confidence
        assert manager.get_status()[2] == {"is_loaded": True, "version": 1, "num_requests": 3}
        for call, said in (
            (lambda: manager.process_request("A", lora_id=7), "lora_id 7: use one of 1, 2"),
            (lambda: manager.process_request("A", max_tokens=5), "did you mean 'max_new_tokens'"),
            (lambda: manager.process_request("A", priority="high"), "priority: process_request takes no such setting"),
            (lambda: manager.update_lora(2, tmp_path / "none"), "there is no such folder"),
        ):
            with pytest.raises(ValueError, match=said):
                call()


def test_what_cannot_be_loaded_or_has_no_effect_says_so(base: str, tmp_path: Path) -> None:
    for configs, model in (
        ({2: config(2, weights_path=str(tmp_path))}, base),
        ({1: config(1)}, str(tmp_path / "none")),
    ):
        with pytest.raises(RuntimeError, match="Model loading failed"):
            create_lora_manager(configs, base_model=model, device="cpu").load()
    for configs, said in (
        ({}, "configs: none"),
        ({1: config(2)}, r"configs\[1\].lora_id 2"),
        ({1: config(1, gpu_id=1)}, r"configs\[1\].gpu_id 1: all adapters are on one base"),
        ({1: config(1, port=9000)}, r"configs\[1\].port 9000: a manager has no ports"),
    ):
        with pytest.raises(ValueError, match=said):
            create_lora_manager(configs)
    wrong = {1: config(1), 2: config(2, target_modules=["q"])}
    with create_lora_manager(wrong, base_model=base, device="cpu") as manager:
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^configs\[2\].target_modules \['q'\]: .* it has .*q_proj"):
                manager.load()


def test_updates_are_published_bad_ones_are_not_and_a_restart_serves_the_newest_whole_one(
    base: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"base_model": base, "root": tmp_path / "ckpts", "rank": 2, "alpha": 8.0}
    scheduler = create_distributed_lora_scheduler(18001, 2, **settings)
    asyncio.run(scheduler.start())
    try:
        policy = scheduler.policy(1)
        assert scheduler.submit_rl_update(1, 0.5, policy.tensors()) == 1
        assert scheduler.submit_rl_update(1, 0.8, weights(policy, tmp_path / "two", 2)) == 2
        before = policy.version
        with pytest.raises(LogprobMismatch):
            scheduler.submit_rl_update(1, 0.9, weights(policy, tmp_path / "nan", 2, fill=float("nan")))
        cut = weights(policy, tmp_path / "cut", 2)
        save_file({"x": torch.zeros(1)}, cut / "adapter_model.safetensors")
        with pytest.raises(ArtifactCorrupt):
            scheduler.submit_rl_update(1, 0.9, cut)
        status = scheduler.get_system_status()
        assert policy.version == before
        assert status["hotswap_status"][1] == {"versions": [1, 2]}
        other = create_distributed_lora_scheduler(18001, 2, **settings)
        asyncio.run(other.start())
        ports = [each.get_system_status()["scheduler_stats"]["ports"] for each in (scheduler, other)]
        assert len({*ports[0].values(), *ports[1].values()}) == 4, "two schedulers on one range share no port"
        assert other.policy(1).version.step == 2
        asyncio.run(other.stop())
    finally:
        asyncio.run(scheduler.stop())
    (tmp_path / "ckpts" / "lora1" / "v000002" / "adapter_config.json").write_text("{}")
    again = create_distributed_lora_scheduler(18001, 2, **settings)
    asyncio.run(again.start())
    assert again.policy(1).version.step == 1
    with pytest.raises(ValueError, match=f"port {ports[0][1]} is reserved for it, and no server listens there yet"):
        again.url(1)
    asyncio.run(again.stop())
    asyncio.run(again.stop())
