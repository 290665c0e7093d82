"""The scheduler: places by memory, ports by number, and addresses that answer."""

import asyncio
from typing import Any

import openai
import pytest

from flows.api.multi_model import create_competitive_scheduler, create_cooperative_scheduler, create_unified_scheduler
from tests.flows.api.multi_model.test_lora import find_ports


def test_models_go_where_most_memory_is_left_and_no_two_share_a_port() -> None:
    scheduler = create_unified_scheduler(8001, 2, gpu_memory_mib=100)
    assert scheduler.register_model("a", memory_mib=60)
    assert scheduler.register_model("b", memory_mib=50)
    assert scheduler.register_model("c", memory_mib=50), "beside b, which takes less than a"
    for refused in (("a", 1, 0), ("d", 2, 0), ("d", -1, 0), ("d", 0, 50), ("d", None, 50)):
        assert not scheduler.register_model(refused[0], refused[1], memory_mib=refused[2])
    status = scheduler.get_system_status()
    places = {name: (each["gpu_id"], each["port"]) for name, each in status["models"].items()}
    assert places == {"a": (0, 8001), "b": (1, 8002), "c": (1, 8003)}
    assert status["memory_mib"] == {0: 60, 1: 100}
    scheduler.unregister_model("b")
    assert scheduler.register_model("d", 1, memory_mib=50)
    assert scheduler.get_system_status()["models"]["d"]["port"] == 8002
    asyncio.run(scheduler.shutdown())
    asyncio.run(scheduler.shutdown())
    assert scheduler.get_system_status() == {"models": {}, "memory_mib": {0: 0, 1: 0}}


def test_a_cooperative_or_competitive_scheduler_has_a_place_for_a_model_on_each_gpu() -> None:
    for create, name in ((create_cooperative_scheduler, "cooperative"), (create_competitive_scheduler, "competitive")):
        models = create(9000, 2).get_system_status()["models"]
        assert {each: (place["gpu_id"], place["port"]) for each, place in models.items()} == {
            f"{name}_model_0": (0, 9000),
            f"{name}_model_1": (1, 9001),
        }


def test_the_address_of_a_model_answers_until_the_model_is_unregistered() -> None:
    with create_unified_scheduler(find_ports(2), 2, base_model="tiny") as scheduler:
        for name in ("a", "b"):
            assert scheduler.register_model(name)
        with openai.OpenAI(base_url=scheduler.get_model_url("b"), api_key="none", max_retries=0) as client:
            assert [each.id for each in client.models.list()] == ["b"]
            ask = {"model": "b", "messages": [{"role": "user", "content": "2 + 2 ="}], "max_tokens": 3, "seed": 1}
            first, again = (client.chat.completions.create(**ask) for _ in range(2))  # type: ignore[call-overload]
            assert first.choices[0].message.content == again.choices[0].message.content
            assert first.usage.completion_tokens <= 3
            scheduler.unregister_model("b")
            with pytest.raises(openai.APIConnectionError):
                client.models.list()
        loaded = {name: each["is_loaded"] for name, each in scheduler.get_system_status()["models"].items()}
        assert loaded == {"a": False}
        with pytest.raises(RuntimeError, match="Model loading failed"):
            scheduler.register_model("c", base_model="/nowhere") and scheduler.get_model_url("c")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: create_competitive_scheduler(-1, 1), "base_port -1"),
        (lambda: create_cooperative_scheduler(65535, 2), "base_port 65535: no port from it on is left"),
        (lambda: create_unified_scheduler(8001, 1, gpu_mem=5), "did you mean 'gpu_memory_mib'"),
        (lambda: create_unified_scheduler(8001, 1).get_model_url("q"), "no model is registered; call register_model"),
        (lambda: create_unified_scheduler(8001, 1).register_model("a", 0, capabilities={}), "capabilities: register"),
    ],
)
def test_what_is_slightly_wrong_is_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
