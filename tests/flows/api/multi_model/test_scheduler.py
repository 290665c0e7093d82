"""The scheduler: places on GPUs, ports by number, and addresses that answer."""

import asyncio
from typing import Any

import openai
import pytest

from flows.api.multi_model import create_competitive_scheduler, create_cooperative_scheduler, create_unified_scheduler
from tests.flows.api.multi_model.test_lora import find_ports


def test_models_go_where_fewest_are_and_no_two_share_a_port() -> None:
    scheduler = create_unified_scheduler(8001, 2)
    for name in ("a", "b", "c"):
        assert scheduler.register_model(name)
    for refused in (("a", 1), ("d", 2), ("d", -1)):
        assert not scheduler.register_model(*refused)
    places = {name: (each["gpu_id"], each["port"]) for name, each in scheduler.get_system_status()["models"].items()}
    assert places == {"a": (0, 8001), "b": (1, 8002), "c": (0, 8003)}
    scheduler.unregister_model("b")
    assert scheduler.register_model("d")
    placed = scheduler.get_system_status()["models"]["d"]
    assert (placed["gpu_id"], placed["port"], placed["is_loaded"]) == (1, 8002, False)
    asyncio.run(scheduler.shutdown())
    asyncio.run(scheduler.shutdown())
    assert scheduler.get_system_status() == {"models": {}}


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
        (lambda: create_unified_scheduler(8001, 1, base=5), "did you mean 'base_"),
        (lambda: create_unified_scheduler(8001, 1).get_model_url("q"), "model_id 'q': call register_model first"),
        (lambda: create_unified_scheduler(8001, 1).register_model("a", 0, capabilities={}), "capabilities: register"),
    ],
)
def test_what_is_slightly_wrong_is_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
