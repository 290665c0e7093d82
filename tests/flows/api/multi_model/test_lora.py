"""Adapters by their documented names: who answers, what happens to bad weights and dead replicas, ports and versions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from components.errors import ArtifactCorrupt, EngineUnavailable, LogprobMismatch
from components.models.adapters import write_adapter
from components.session.served_models import ServedPolicy
from flows.api.multi_model.configs import LoRAConfig
from flows.api.multi_model.enums import LoRAUpdateStrategy, TaskPriority
from flows.api.multi_model.lora import LoRAManager, create_distributed_lora_scheduler, create_lora_manager
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


def test_a_dead_adapter_is_set_aside_its_request_is_answered_and_an_update_brings_it_back(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = {each: config(each) for each in (1, 2)}
    with create_lora_manager(configs, LoRAUpdateStrategy.ROUND_ROBIN, base_model=base, device="cpu") as manager:
        assert [manager.process_request("A", **ASKED).metadata["lora_id"] for _ in range(3)] == [1, 2, 1]

        def dead(question: object) -> None:
            raise EngineUnavailable("no replica of lora 2 answers")

        monkeypatch.setattr(manager.policy(2), "answer", dead)
        answers = [manager.process_request("A", **ASKED).metadata["lora_id"] for _ in range(4)]
        assert answers == [1, 1, 1, 1], "nothing is lost"
        status = manager.get_status()[2]
        assert (status["status"], status["num_failures"]) == ("error", 1)
        assert "no replica" in status["error"]
        with pytest.raises(EngineUnavailable):
            manager.process_request("A", lora_id=2, **ASKED)
        monkeypatch.undo()
        assert manager.update_lora(2, weights(manager.policy(2), tmp_path / "new", 3)) == 1
        assert {manager.process_request("A", **ASKED).metadata["lora_id"] for _ in range(2)} == {1, 2}
        with pytest.raises(ValueError, match="lora_id 7"):
            manager.process_request("A", lora_id=7, **ASKED)


def test_rewards_decide_and_urgent_requests_go_to_the_best(base: str) -> None:
    configs = {each: config(each) for each in (1, 2)}
    with LoRAManager(configs, LoRAUpdateStrategy.RL_OPTIMIZED, base_model=base, device="cpu") as manager:
        for _ in range(20):
            manager.record_reward(1, 0.1)
            manager.record_reward(2, 0.9)
        assert manager.process_request("A", **ASKED).metadata["lora_id"] == 2
        manager.strategy = LoRAUpdateStrategy.ADAPTIVE
        urgent = manager.process_request("A", priority=TaskPriority.CRITICAL, **ASKED)
        assert urgent.metadata["lora_id"] == 1, "the one that was idle longest, at equal success"


def test_an_adapter_that_cannot_be_loaded_is_set_aside_and_a_missing_base_says_what_to_do(
    base: str, tmp_path: Path
) -> None:
    configs = {1: config(1), 2: config(2, weights_path=str(tmp_path))}
    with create_lora_manager(configs, base_model=base, device="cpu") as manager:
        assert manager.process_request("A", **ASKED).metadata["lora_id"] == 1
        assert "describes no adapter" in manager.get_status()[2]["error"]
    with pytest.raises(RuntimeError, match="Model loading failed"):
        create_lora_manager({2: config(2, weights_path=str(tmp_path))}, base_model=base, device="cpu").load()
    with pytest.raises(RuntimeError, match="Model loading failed"):
        create_lora_manager({1: config(1)}, base_model=str(tmp_path / "none")).load()
    for configs, said in (
        ({}, "configs: none"),
        ({"1": config(2)}, r"configs\[1\].lora_id 2"),
        ({1: config(1, gpu_id=1)}, r"configs\[1\].gpu_id 1: all adapters are on one base"),
        ({1: config(1, port=9000)}, r"configs\[1\].port 9000: a manager has no ports"),
    ):
        with pytest.raises(ValueError, match=said):
            create_lora_manager(configs)  # type: ignore[arg-type]
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
        assert status["hotswap_status"][1] == {"versions": [1, 2], "rollbacks": 2}
        assert status["training_stats"]["updates"] == {1: 2, 2: 0}
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
