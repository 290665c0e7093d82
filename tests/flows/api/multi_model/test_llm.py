"""Models by their documented names: real answers, real updates, and errors with the documented words."""

import math
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from components.errors import UpdateFailed
from flows.api.multi_model.configs import LLMBackend, LLMConfig, UpdateStrategy
from flows.api.multi_model.errors import GpuMemoryInsufficient, memory_errors
from flows.api.multi_model.llm import (
    LLMResponse,
    SharedLLMManager,
    create_claude_manager,
    create_llama3_manager,
    create_openai_manager,
    create_qwen3_manager,
    create_qwen_coder_manager,
    create_qwen_math_manager,
    get_available_models,
    get_version_info,
)
from tests.components.generation.api.wire_server import KEY, MODEL, anthropic_error, openai_error, wire_server
from tests.components.generation.tiny_models import full_logprobs, random_model, save_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("model")
    save_model(random_model(seed=1), made)
    return str(made)


def test_confidence_is_that_of_the_model_itself(folder: str) -> None:
    with SharedLLMManager(LLMConfig(model_name=folder, device="cpu")) as manager:
        manager.register_node("planner", {"temperature": 0.0, "max_new_tokens": 5})
        answer = manager.generate_for_node("planner", "A B")
        tokenizer = manager._open()._engine.tokenizer  # type: ignore[attr-defined]
        tokens = tokenizer.encode(answer.text)
        ended = () if answer.metadata["finish_reason"] == "length" else (tokenizer.end_token,)
        logprobs = full_logprobs(random_model(seed=1), tokenizer.encode("A B"), (*tokens, *ended))
    assert answer.confidence == pytest.approx(math.exp(sum(logprobs) / len(logprobs)), rel=1e-4)
    assert answer.metadata["prompt_tokens"] == 3
    assert answer.metadata["completion_tokens"] == len(logprobs)


def test_settings_of_the_call_go_before_the_nodes_and_draws_differ(folder: str) -> None:
    with create_qwen3_manager(folder, device="cpu", temperature=1.0) as manager:
        manager.register_node("a", {"max_new_tokens": 6})
        drawn = {manager.generate_for_node("a", "A").text for _ in range(6)}
        assert len(drawn) > 1
        assert manager.generate_for_node("a", "A", max_new_tokens=1).metadata["completion_tokens"] == 1
        same = [manager.generate_for_node("a", "A", seed=7) for _ in range(2)]
        assert same[0].text == same[1].text
        stats = manager.get_global_stats()
        assert (stats["total_generations"], stats["registered_nodes_count"]) == (9, 1)
        assert stats["node_usage_stats"]["a"]["total_tokens"] > 9
        with pytest.raises(ValueError, match="'b'"):
            manager.generate_for_node("b", "A")
        with pytest.raises(ValueError, match="top_k"):
            manager.register_node("c", {"top_k": 5})


def test_gradients_change_the_answers_of_all_nodes_and_wrong_ones_nothing(folder: str) -> None:
    with SharedLLMManager(LLMConfig(model_name=folder, device="cpu", enable_lora=True)) as manager:
        manager.register_node("a", {"temperature": 0.0, "max_new_tokens": 4})
        before = manager.generate_for_node("a", "A B")
        gradients = {name: torch.ones_like(each) for name, each in manager.adapter_tensors().items()}
        done = [manager.update_shared_parameters(gradients, learning_rate=0.3) for _ in range(2)]
        assert [each["status"] for each in done] == ["updated"] * 2
        assert (done[1]["update_count"], done[1]["affected_nodes"]) == (2, ["a"])
        after = manager.generate_for_node("a", "A B")
        assert after.metadata["weights_digest"] != before.metadata["weights_digest"]
        assert after.confidence != before.confidence
        for bad in ({"policy_weights": torch.ones(1)}, {next(iter(gradients)): torch.ones(1)}):
            with pytest.raises(ValueError, match="gradients"):
                manager.update_shared_parameters(bad)
        with pytest.raises(ValueError, match="NaN"):
            manager.update_shared_parameters({name: each * float("nan") for name, each in gradients.items()})
        assert manager.generate_for_node("a", "A B").metadata == after.metadata


def test_a_frozen_model_and_one_without_adapter_are_not_updated(folder: str) -> None:
    frozen = LLMConfig(model_name=folder, device="cpu", enable_lora=True, update_strategy=UpdateStrategy.FROZEN)
    with SharedLLMManager(frozen) as manager:
        gradients = {name: torch.ones_like(each) for name, each in manager.adapter_tensors().items()}
        assert manager.update_shared_parameters(gradients)["status"] == "frozen"
        assert not any(name.endswith("B.weight") and each.any() for name, each in manager.adapter_tensors().items())
    with create_llama3_manager(folder, device="cpu") as manager, pytest.raises(ValueError, match="no adapter"):
        manager.update_shared_parameters(gradients)


def test_nodes_ask_at_once_from_many_threads(folder: str) -> None:
    with create_qwen_math_manager(folder, device="cpu") as manager:
        answers: list[LLMResponse] = []
        for index in range(6):
            manager.register_node(str(index), {"max_new_tokens": 2})
        threads = [
            threading.Thread(target=lambda at=index: answers.append(manager.generate_for_node(str(at), "A")))  # type: ignore[misc]
            for index in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(each.metadata["node_id"] for each in answers) == list("012345")


@pytest.mark.parametrize("factory", [create_qwen3_manager, create_qwen_coder_manager])
def test_a_model_that_is_not_here_says_so_and_what_to_do(
    factory: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    manager = factory("Qwen/Qwen2.5-14B-Instruct")  # type: ignore[operator]
    manager.register_node("a")
    with pytest.raises(RuntimeError, match=r"Model loading failed.*hf download"):
        manager.generate_for_node("a", "hello")
    damaged = create_qwen3_manager(str(tmp_path))
    damaged.register_node("a")
    with pytest.raises(RuntimeError, match=r"Model loading failed.*lacks"):
        damaged.generate_for_node("a", "hello")


def test_an_api_answers_is_never_updated_and_its_errors_are_its_sdks() -> None:
    import anthropic
    import openai

    with wire_server() as wire:
        for create, sdk, provider, refusal in (
            (create_openai_manager, openai, "openai", openai_error(404, "no such model")),
            (create_claude_manager, anthropic, "anthropic", anthropic_error(404, "not_found_error", "no such model")),
        ):
            with create(MODEL, api_key=KEY, api_base=wire.base_url(provider)) as manager:
                manager.register_node("a", {"max_new_tokens": 5, "instructions": "Be short."})
                answer = manager.generate_for_node("a", "hello")
                assert (answer.confidence, answer.metadata["prompt_tokens"]) == (None, 10)
                assert answer.metadata["completion_tokens"] == 3
                assert manager.update_shared_parameters({})["status"] == "unsupported"
                wire.script.append(refusal)
                with pytest.raises(sdk.APIError, match=r"API error: .*answered 404"):
                    manager.generate_for_node("a", "hello")


def test_an_api_without_a_key_is_refused_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        create_openai_manager()
    with pytest.raises(ValueError, match=r"api_base: backend vllm is a running server"):
        SharedLLMManager(LLMConfig(backend=LLMBackend.VLLM))


def test_a_running_vllm_server_answers_and_gets_no_key_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    import openai

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with wire_server() as wire:
        told = {"backend": LLMBackend.VLLM, "model_name": MODEL, "api_base": wire.base_url("openai")}
        with SharedLLMManager(LLMConfig(**told, api_key=KEY)) as manager:
            manager.register_node("a", {"max_new_tokens": 5})
            assert manager.generate_for_node("a", "hello").metadata["completion_tokens"] == 3
        with SharedLLMManager(LLMConfig(**told)) as manager:
            manager.register_node("a")
            with pytest.raises(openai.APIError, match="Incorrect API key provided: none"):
                manager.generate_for_node("a", "hello")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: create_qwen3_manager("tiny", tempature=1.0), "did you mean 'temperature'"),
        (
            lambda: create_openai_manager("m", "k", apikey="secret"),
            "^(?!.*secret)apikey: LLMConfig has no such field; did you mean 'api_key'",
        ),
        (lambda: create_openai_manager("m", "k", api_base="localhost:1"), "api_base 'localhost:1': must be an http"),
        (lambda: SharedLLMManager("tiny"), "config 'tiny'"),
        (lambda: SharedLLMManager().generate_for_node("x", "A"), "node_id 'x': is not registered; call register_node"),
        (lambda: SharedLLMManager().generate_for_node("x", "A", max_tokens=5), "did you mean 'max_new_tokens'"),
        (lambda: SharedLLMManager().register_node("a", {"temperature": "hot"}), "temperature: .*got 'hot'"),
        (lambda: SharedLLMManager().register_node("a", {"prompt": "A"}), "prompt: unknown key; "),
        (lambda: SharedLLMManager().update_shared_parameters([1]), "gradients"),
    ],
)
def test_what_is_slightly_wrong_is_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_out_of_memory_has_the_documented_words() -> None:
    with pytest.raises(RuntimeError, match="GPU memory insufficient") as found, memory_errors():
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert isinstance(found.value, GpuMemoryInsufficient)
    assert "memory" in str(found.value).lower()
    with pytest.raises(RuntimeError, match="GPU memory insufficient"), memory_errors():
        raise UpdateFailed("the worker of a ended:\ntorch.OutOfMemoryError: CUDA out of memory")
    with pytest.raises(RuntimeError, match=r"^another$"), memory_errors():
        raise RuntimeError("another")


def test_what_is_available_and_installed() -> None:
    assert {"qwen3", "openai", "anthropic", "llama3", "local"} <= get_available_models().keys()
    info = get_version_info()
    assert info["torch"] == torch.__version__.split("+")[0] or info["torch"] == torch.__version__
    assert all(isinstance(each, str) for each in info.values())
