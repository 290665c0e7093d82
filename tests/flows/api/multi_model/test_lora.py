"""Adapters by their documented names: who answers, what happens to bad weights, and versions."""

import asyncio
import math
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from safetensors.torch import save_file

from components.errors import ArtifactCorrupt
from components.methods.population.served_models import LivePolicy
from components.models.adapters import write_adapter
from flows.api.multi_model.configs import LLMBackend, LLMConfig, LoRAConfig
from flows.api.multi_model.llm import SharedLLMManager
from flows.api.multi_model.lora import create_distributed_lora_scheduler, create_lora_manager
from tests.components.generation.tiny_models import random_model, save_model

ASKED: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 2}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("base")
    save_model(random_model(seed=1), made)
    return str(made)


def find_ports(num: int) -> int:
    """The first of so many ports in a row that are free."""
    for first in range(18001, 19000, num):
        with ExitStack() as opened, suppress(OSError):
            for port in range(first, first + num):
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise AssertionError("no ports are free")


def config(number: int, **values: Any) -> LoRAConfig:
    return LoRAConfig(lora_id=number, rank=2, alpha=8.0, **values)


def weights(policy: LivePolicy, folder: Path, seed: int, *, fill: float | None = None) -> Path:
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
        assert manager.get_status()[2] == {"is_loaded": True, "version": 1, "port": 8001}
        for call, said in (
            (lambda: manager.process_request("A", lora_id=7), "lora_id 7: use one of 1, 2"),
            (lambda: manager.process_request("A", max_tokens=5), "did you mean 'max_new_tokens'"),
            (lambda: manager.process_request("A", priority="high"), "priority: unknown key; "),
            (lambda: manager.update_lora(2, tmp_path / "none"), "there is no such folder"),
        ):
            with pytest.raises(ValueError, match=said):
                call()


def test_what_cannot_be_loaded_or_has_no_effect_says_so(base: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Model loading failed"):
        create_lora_manager({1: config(1)}, base_model=str(tmp_path / "none"), device="cpu").load()
    for configs, said in (
        ({}, "configs: none"),
        ({1: config(2)}, r"configs\[1\].lora_id 2"),
        ({1: config(1, gpu_id=1)}, "gpu_id 1: all adapters are on one base"),
    ):
        with pytest.raises(ValueError, match=said):
            create_lora_manager(configs)
    wrong = {1: config(1), 2: config(2, target_modules=["q"])}
    with create_lora_manager(wrong, base_model=base, device="cpu") as manager:
        for _ in range(2):
            with pytest.raises(ValueError, match=r"lora-2.*'q'.* it has .*q_proj"):
                manager.load()


def test_weights_of_a_training_are_taken_and_bad_ones_are_not(base: str, tmp_path: Path) -> None:
    first = find_ports(2)
    scheduler = create_distributed_lora_scheduler(first, 2, base_model=base, rank=2, alpha=8.0)
    policy = scheduler.policy(1)
    assert scheduler.update_lora(1, policy.tensors()) == 1
    assert scheduler.update_lora(1, weights(policy, tmp_path / "two", 2)) == 2
    before, cut = policy.version, weights(policy, tmp_path / "cut", 2)
    save_file({"x": torch.zeros(1)}, cut / "adapter_model.safetensors")
    for bad in (weights(policy, tmp_path / "nan", 2, fill=float("nan")), cut):
        with pytest.raises(ArtifactCorrupt):
            scheduler.update_lora(1, bad)
    assert policy.version == before
    found = [(each["version"], each["port"]) for each in scheduler.get_status().values()]
    assert found == [(2, first), (0, first + 1)]
    scheduler.close()


def test_addresses_answer_as_the_manager_does_before_and_after_an_update(base: str, tmp_path: Path) -> None:
    """An OpenAI client, and a SharedLLMManager for a running server, against the ports of a scheduler."""
    first = find_ports(2)
    scheduler = create_distributed_lora_scheduler(first, 2, base_model=base, rank=2, alpha=8.0)
    asyncio.run(scheduler.start())
    assert [scheduler.url(each) for each in (1, 2)] == [f"http://127.0.0.1:{port}/v1" for port in (first, first + 1)]
    ask = {"messages": [{"role": "user", "content": "A"}], "temperature": 0, "max_tokens": 2, "logprobs": True}

    def ask_at_address(number: int) -> tuple[str | None, float]:
        with openai.OpenAI(base_url=scheduler.url(number), api_key="none", max_retries=0) as client:
            assert {each.id for each in client.models.list()} == {"lora-1", "lora-2"}
            (choice,) = client.chat.completions.create(model=f"lora-{number}", **ask).choices  # type: ignore[call-overload]
        logprobs = [each.logprob for each in choice.logprobs.content]
        return choice.message.content, math.exp(sum(logprobs) / len(logprobs))

    found = [ask_at_address(2)]
    scheduler.update_lora(2, weights(scheduler.policy(2), tmp_path / "new", 3))
    here = scheduler.process_request("A", lora_id=2, **ASKED)
    found.append(ask_at_address(2))
    assert found[1] == (here.text or " ", pytest.approx(here.confidence))
    assert found[0] != found[1], "the new weights answer"
    server = LLMConfig(backend=LLMBackend.VLLM, model_name="lora-2", api_base=scheduler.url(2))
    with SharedLLMManager(server) as manager:
        manager.register_node("a", ASKED)
        assert manager.generate_for_node("a", "A").text.strip() == here.text.strip()
    other = create_lora_manager({1: config(1, port=first)}, base_model=base)
    with other, pytest.raises(ValueError, match=f"port {first}: .*name another port"):
        other.url(1)
    asyncio.run(scheduler.stop())
    asyncio.run(scheduler.stop())
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", first))
