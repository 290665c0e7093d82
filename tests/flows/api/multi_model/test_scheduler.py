"""The scheduler: places and ports without clashes, who works on a task, and models that fail."""

import asyncio
import threading
from typing import Any

import pytest

from components.errors import EngineUnavailable
from components.machine.port_leases import lease_port
from flows.api.multi_model.enums import ModelRole
from flows.api.multi_model.llm import LLMResponse
from flows.api.multi_model.scheduler import (
    InteractionType,
    TaskDefinition,
    UnifiedScheduler,
    create_competitive_scheduler,
    create_cooperative_scheduler,
    create_unified_scheduler,
)


class Manager:
    """Answers at once, or when it is let; remembers what it was asked."""

    def __init__(self, confidence: float = 0.5, *, fails: bool = False) -> None:
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.confidence, self.fails = confidence, fails

    def register_node(self, name: str) -> None: ...

    def generate_for_node(self, name: str, prompt: str, **settings: Any) -> LLMResponse:
        assert self.gate.wait(20)
        self.asked.append(prompt)
        if self.fails:
            raise EngineUnavailable("no replica answers")
        return LLMResponse(text=f"{name} says {len(prompt)}", confidence=self.confidence)


def filled(*managers: Manager, role: ModelRole = ModelRole.COMPETITOR) -> UnifiedScheduler:
    scheduler = create_unified_scheduler(18101, len(managers))
    for gpu, manager in enumerate(managers):
        assert scheduler.register_model(f"m{gpu}", gpu, role, manager=manager)  # type: ignore[arg-type]
    return scheduler


def test_models_on_one_gpu_and_two_schedulers_share_no_port_and_memory_is_reserved_whole() -> None:
    one, other = (create_unified_scheduler(18101, 1, gpu_memory_mib=100) for _ in range(2))
    assert one.register_model("a", 0, memory_mib=60)
    assert not one.register_model("a", 0)
    assert not one.register_model("b", 1)
    assert not one.register_model("b", 0, memory_mib=50)
    assert one.register_model("b", 0, memory_mib=40)
    assert other.register_model("a", 0)
    ports = {each["port"] for of in (one, other) for each in of.get_system_status()["models"].values()}
    assert len(ports) == 3
    with pytest.raises(ValueError, match="model_id 'c'"):
        one.get_model_url("c")
    with pytest.raises(ValueError, match=r"model_id 'b': has no address: .*no server listens there yet"):
        one.get_model_url("b")
    asyncio.run(one.shutdown())
    asyncio.run(other.shutdown())
    again = create_cooperative_scheduler(18101, 3)
    assert {each["port"] for each in again.get_system_status()["models"].values()} == ports
    asyncio.run(again.shutdown())


def test_the_most_confident_of_competitors_wins_and_one_that_fails_is_left_out() -> None:
    managers = Manager(0.2), Manager(0.9), Manager(0.99, fails=True)
    scheduler = filled(*managers)
    result = asyncio.run(scheduler.execute_task(TaskDefinition(prompt="x", num_models=3)))
    assert (result.interaction, result.winner, set(result.answers)) == (InteractionType.COMPETITION, "m1", {"m0", "m1"})
    assert scheduler.get_system_status()["models"]["m2"]["num_failures"] == 1
    asyncio.run(scheduler.shutdown())
    alone = filled(Manager(fails=True))
    with pytest.raises(EngineUnavailable):
        asyncio.run(alone.execute_task(TaskDefinition(prompt="x")))
    assert alone.get_system_status()["tasks"] == {"running": 0, "done": 0, "failed": 1}
    asyncio.run(alone.shutdown())


def test_those_who_cooperate_see_what_was_said_and_the_last_one_counts() -> None:
    managers = Manager(), Manager()
    scheduler = filled(*managers, role=ModelRole.COLLABORATOR)
    result = asyncio.run(scheduler.execute_task(TaskDefinition(prompt="build it")))
    assert (result.interaction, result.winner) == (InteractionType.COOPERATION, "m1")
    assert managers[0].asked == ["build it\nanalysis: "]
    assert managers[1].asked == ["build it\nanalysis: m0 says 19\nplanning: "]
    asyncio.run(scheduler.shutdown())


def test_shutdown_waits_for_what_runs() -> None:
    manager = Manager()
    scheduler = filled(manager, role=ModelRole.GENERALIST)

    async def main() -> None:
        manager.gate.clear()
        task = asyncio.create_task(scheduler.execute_task(TaskDefinition(prompt="first")))
        await asyncio.sleep(0.05)
        assert scheduler.get_system_status()["tasks"]["running"] == 1
        ending = asyncio.create_task(scheduler.shutdown())
        await asyncio.sleep(0.02)
        assert not ending.done()
        manager.gate.set()
        await asyncio.gather(ending, task)
        with pytest.raises(ValueError, match="no model answers"):
            await scheduler.execute_task(TaskDefinition(prompt="late"))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: create_competitive_scheduler(-1, 1), "base_port -1"),
        (lambda: create_cooperative_scheduler(70000, 2), "base_port 70000"),
        (lambda: create_unified_scheduler(18201, 1, gpu_mem=5), "did you mean 'gpu_memory_mib'"),
        (lambda: create_unified_scheduler(18201, 1).get_model_url("q"), "no model is registered; call register_model"),
        (lambda: create_unified_scheduler(18201, 1).register_model("a", 0, "boss"), "role 'boss'"),
        (
            lambda: create_unified_scheduler(18201, 1).register_model("a", 0, capabilities={}),
            "capabilities: register_model",
        ),
        (lambda: create_unified_scheduler(18201, 1).register_model("a", 0, manager="x"), "manager 'x': give"),
        (lambda: create_cooperative_scheduler(65535, 2), "no port of 65535"),
    ],
)
def test_what_is_slightly_wrong_is_named_and_keeps_no_port(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
    lease_port(65535, num_tries=1).release()


def test_a_competitive_scheduler_has_a_model_for_each_gpu() -> None:
    scheduler = create_competitive_scheduler(18101, 2)
    models = scheduler.get_system_status()["models"]
    assert [(name, each["gpu_id"], each["role"]) for name, each in models.items()] == [
        ("competitive_model_0", 0, "competitor"),
        ("competitive_model_1", 1, "competitor"),
    ]
    asyncio.run(scheduler.shutdown())
