"""The scheduler: places and ports without clashes, who works on a task, urgency and waiting, and models that fail."""

import asyncio
import threading
from typing import Any

import pytest

from components.errors import EngineUnavailable
from flows.api.multi_model.enums import ModelRole, TaskPriority
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
    urls = {one.get_model_url("a"), one.get_model_url("b"), other.get_model_url("a")}
    assert len(urls) == 3
    with pytest.raises(ValueError, match="model_id"):
        one.get_model_url("c")
    asyncio.run(one.shutdown())
    asyncio.run(other.shutdown())
    again = create_cooperative_scheduler(18101, 3)
    assert {again.get_model_url(f"cooperative_model_{gpu}") for gpu in range(3)} >= urls - {""}
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
    assert alone.get_system_status()["tasks"] == {"running": 0, "waiting": 0, "done": 0, "failed": 1}
    asyncio.run(alone.shutdown())


def test_those_who_cooperate_see_what_was_said_and_the_last_one_counts() -> None:
    managers = Manager(), Manager()
    scheduler = filled(*managers, role=ModelRole.COLLABORATOR)
    result = asyncio.run(scheduler.execute_task(TaskDefinition(prompt="build it")))
    assert (result.interaction, result.winner) == (InteractionType.COOPERATION, "m1")
    assert managers[0].asked == ["build it\nanalysis: "]
    assert managers[1].asked == ["build it\nanalysis: m0 says 19\nplanning: "]
    asyncio.run(scheduler.shutdown())


def test_the_urgent_go_first_and_shutdown_loses_nothing() -> None:
    manager = Manager()
    scheduler = filled(manager, role=ModelRole.GENERALIST)

    async def main() -> None:
        manager.gate.clear()
        tasks = [asyncio.create_task(scheduler.execute_task(TaskDefinition(prompt="first")))]
        await asyncio.sleep(0.05)
        for prompt, priority in (
            ("low", TaskPriority.LOW),
            ("high", TaskPriority.HIGH),
            ("top", TaskPriority.CRITICAL),
        ):
            tasks.append(asyncio.create_task(scheduler.execute_task(TaskDefinition(prompt=prompt, priority=priority))))
            await asyncio.sleep(0)
        assert scheduler.get_system_status()["tasks"]["waiting"] == 3
        ending = asyncio.create_task(scheduler.shutdown())
        await asyncio.sleep(0.02)
        manager.gate.set()
        await asyncio.gather(ending, *tasks)
        with pytest.raises(ValueError, match="no model answers"):
            await scheduler.execute_task(TaskDefinition(prompt="late"))

    asyncio.run(main())
    assert manager.asked == ["first", "top", "high", "low"]


def test_a_task_that_is_cancelled_leaves_its_place_in_line() -> None:
    manager = Manager()
    scheduler = filled(manager, role=ModelRole.GENERALIST)

    async def main() -> None:
        manager.gate.clear()
        first = asyncio.create_task(scheduler.execute_task(TaskDefinition(prompt="first")))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(scheduler.execute_task(TaskDefinition(prompt="second")))
        await asyncio.sleep(0)
        second.cancel()
        manager.gate.set()
        await first
        assert (await scheduler.execute_task(TaskDefinition(prompt="third"))).winner == "m0"

    asyncio.run(main())
    assert manager.asked == ["first", "third"]
    asyncio.run(scheduler.shutdown())


def test_a_competitive_scheduler_has_a_model_for_each_gpu() -> None:
    scheduler = create_competitive_scheduler(18101, 2)
    models = scheduler.get_system_status()["models"]
    assert [(name, each["gpu_id"], each["role"]) for name, each in models.items()] == [
        ("competitive_model_0", 0, "competitor"),
        ("competitive_model_1", 1, "competitor"),
    ]
    asyncio.run(scheduler.shutdown())
