"""The scheduler of models by its documented names: who is on which GPU and port, and who works on a prompt together."""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from components.errors import ConfigurationError, TroupeError
from components.port_leases import PortLease, lease_port
from components.suggestions import suggest
from flows.api.multi_model.arguments import (
    check_names,
    keywords,
    mapping,
    port,
    priority,
    question_settings,
    whole_number,
)
from flows.api.multi_model.checked_config import number, one_of, text, whole
from flows.api.multi_model.enums import ModelRole, TaskPriority
from flows.api.multi_model.llm import LLMResponse, SharedLLMManager

_AGEING_PER_SECOND = 0.01
"""What waiting adds to a task's priority, so that nothing waits for ever."""
_PARTS = ("analysis", "planning", "execution", "validation")


class InteractionType(Enum):
    """How several models work on one task."""

    COOPERATION = "cooperation"
    COMPETITION = "competition"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefinition:
    """A prompt, and how it is worked on.

    `collaboration_required`: models take its parts in turn, each seeing what was said. Else, where competition is allowed and
    most models are for it, several answer and the most confident wins; else the first free one answers.
    """

    prompt: str
    priority: TaskPriority = TaskPriority.MEDIUM
    num_models: int = 2
    collaboration_required: bool = False
    competition_allowed: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    """As those of a node: max_new_tokens, temperature, and so on."""

    def __post_init__(self) -> None:
        text("prompt", self.prompt)
        priority("priority", self.priority)
        whole(1)("num_models", self.num_models)
        question_settings(self.settings, "a task")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """A registered model: its place, its role, and what it can, 0 to 1 by name."""

    model_id: str
    gpu_id: int
    role: ModelRole
    port: int
    capabilities: Mapping[str, float]
    memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionResult:
    """What a task led to: who answered, in order, and the answer that counts."""

    interaction: InteractionType
    answers: Mapping[str, LLMResponse]
    winner: str
    seconds: float

    @property
    def text(self) -> str:
        """The answer that counts."""
        return self.answers[self.winner].text


@dataclass(slots=True, kw_only=True)
class _Model:
    profile: ModelProfile
    lease: PortLease
    manager: SharedLLMManager | None
    is_busy: bool = False
    num_tasks: int = 0
    num_failures: int = 0


@dataclass(slots=True, kw_only=True)
class _Waiting:
    number: int
    priority: float
    since_seconds: float
    num_models: int
    chosen: "asyncio.Future[list[str]]"


class UnifiedScheduler:
    """Places models on GPUs and ports, and gives them tasks; the most urgent first, and whoever waits becomes more urgent.

    **Example**

        scheduler = create_unified_scheduler(base_port=8001, num_gpus=1)
        scheduler.register_model("a", 0, manager=SharedLLMManager(LLMConfig(model_name="tiny")))
        (await scheduler.execute_task(TaskDefinition(prompt="2 + 2 ="))).text
    """

    def __init__(
        self,
        base_port: int = 8001,
        num_gpus: int = 8,
        *,
        gpu_memory_mib: int | None = None,
        max_concurrent_tasks: int = 20,
    ) -> None:
        """`gpu_memory_mib` of each GPU bounds what its models may reserve; None: no bound. Raises ConfigurationError."""
        self.base_port = port("base_port", base_port)
        self.num_gpus: int = whole(1)("num_gpus", num_gpus)
        self.gpu_memory_mib = None if gpu_memory_mib is None else int(whole(1)("gpu_memory_mib", gpu_memory_mib))
        self.max_concurrent_tasks: int = whole(1)("max_concurrent_tasks", max_concurrent_tasks)
        self._models: dict[str, _Model] = {}
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count()
        self._num_running = 0
        self._num_done = 0
        self._num_failed = 0
        self._is_closed = False

    def register_model(
        self,
        model_id: str,
        gpu_id: int,
        role: ModelRole = ModelRole.GENERALIST,
        capabilities: Mapping[str, float] | None = None,
        *,
        manager: SharedLLMManager | None = None,
        memory_mib: int = 0,
    ) -> bool:
        """Reserve a port and memory for a model; False, with nothing reserved, for a known name, a GPU that is not there, or
        too little memory left on it. A model without a `manager` gets no tasks. Raises ConfigurationError for what is none of
        these."""
        text("model_id", model_id)
        whole_number("gpu_id", gpu_id)
        whole(0)("memory_mib", memory_mib)
        purpose = ModelRole(one_of(ModelRole)("role", role))
        given = mapping("capabilities", capabilities or {})
        abilities = {
            text("capability", key): number(0, 1)(f"capabilities[{key!r}]", each) for key, each in given.items()
        }
        if manager is not None and not hasattr(manager, "generate_for_node"):
            raise ConfigurationError(f"manager {manager!r}: give a SharedLLMManager")
        taken = sum(each.profile.memory_mib for each in self._models.values() if each.profile.gpu_id == gpu_id)
        full = self.gpu_memory_mib is not None and taken + memory_mib > self.gpu_memory_mib
        if model_id in self._models or not 0 <= gpu_id < self.num_gpus or full:
            return False
        if manager is not None:
            manager.register_node(model_id)
        lease = lease_port(self.base_port)
        profile = ModelProfile(
            model_id=model_id,
            gpu_id=gpu_id,
            role=purpose,
            port=lease.port,
            capabilities=abilities,
            memory_mib=memory_mib,
        )
        self._models[model_id] = _Model(profile=profile, lease=lease, manager=manager)
        return True

    def unregister_model(self, model_id: str) -> None:
        """Give a model's port and memory back. Raises ConfigurationError for an unknown one."""
        self._known(model_id)
        self._models.pop(model_id).lease.release()

    def get_model_url(self, model_id: str) -> str:
        """The address that is reserved for a model."""
        return f"http://127.0.0.1:{self._known(model_id).profile.port}/v1"

    async def execute_task(self, task: TaskDefinition) -> InteractionResult:
        """Let models work on a task, as soon as enough are free.

        A model that fails is left out if others are there. Raises the last one's error if none is, and ConfigurationError
        without models that answer, and after `shutdown`.
        """
        if not isinstance(task, TaskDefinition):
            raise ConfigurationError(f"task {task!r}: give a TaskDefinition, as TaskDefinition(prompt=...)")
        able = [name for name, each in self._models.items() if each.manager is not None]
        if self._is_closed or not able:
            raise ConfigurationError(
                "execute_task: no model answers; register one with a manager, and do not shut down before"
            )
        interaction = self._interaction(task, able)
        wanted = 1 if interaction is InteractionType.NEUTRAL else max(1, min(task.num_models, len(able), len(_PARTS)))
        began = time.monotonic()
        chosen = await self._free_models(wanted, task.priority)
        try:
            answers = await self._answered(task, interaction, chosen)
            self._num_done += 1
        except BaseException:
            self._num_failed += 1
            raise
        finally:
            self._release(chosen)
        return InteractionResult(
            interaction=interaction,
            answers=answers,
            winner=_winner(interaction, answers),
            seconds=time.monotonic() - began,
        )

    def get_system_status(self) -> dict[str, Any]:
        """Models with their places and tasks, and how many tasks run, wait, are done and have failed."""
        return {
            "models": {
                name: {
                    "gpu_id": each.profile.gpu_id,
                    "port": each.profile.port,
                    "role": each.profile.role.value,
                    "memory_mib": each.profile.memory_mib,
                    "num_tasks": each.num_tasks,
                    "num_failures": each.num_failures,
                }
                for name, each in self._models.items()
            },
            "tasks": {
                "running": self._num_running,
                "waiting": len(self._waiting),
                "done": self._num_done,
                "failed": self._num_failed,
            },
        }

    async def shutdown(self) -> None:
        """Take no more tasks, wait for those that run, and give all ports back; managers stay their owners'. Harmless twice."""
        self._is_closed = True
        while self._num_running or self._waiting:
            await asyncio.sleep(0.01)
        for name in list(self._models):
            self.unregister_model(name)

    def _interaction(self, task: TaskDefinition, able: Sequence[str]) -> InteractionType:
        """Cooperation where it is required or more models are for it; competition where it is allowed and most are for it."""
        if task.collaboration_required:
            return InteractionType.COOPERATION
        if not task.competition_allowed or len(able) < 2:
            return InteractionType.NEUTRAL
        roles = [self._models[name].profile.role for name in able]
        competing = sum(each is ModelRole.COMPETITOR for each in roles)
        cooperating = sum(each is ModelRole.COLLABORATOR for each in roles)
        if cooperating > competing:
            return InteractionType.COOPERATION
        return InteractionType.COMPETITION if competing > len(able) / 2 else InteractionType.NEUTRAL

    async def _answered(
        self, task: TaskDefinition, interaction: InteractionType, chosen: Sequence[str]
    ) -> dict[str, LLMResponse]:
        if interaction is not InteractionType.COOPERATION:
            found = await asyncio.gather(
                *(self._ask(name, task.prompt, task) for name in chosen), return_exceptions=True
            )
            answers = {name: each for name, each in zip(chosen, found, strict=True) if isinstance(each, LLMResponse)}
            errors = [each for each in found if isinstance(each, BaseException)]
            if not answers or any(not isinstance(each, TroupeError) for each in errors):
                raise errors[-1]
            return answers
        answers, said, last = {}, task.prompt, None
        for part, name in zip(_PARTS, chosen, strict=False):
            try:
                answers[name] = await self._ask(name, f"{said}\n{part}: ", task)
            except TroupeError as error:
                last = error
                continue
            said = f"{said}\n{part}: {answers[name].text}"
        if not answers:
            assert last is not None, "somebody was asked"
            raise last
        return answers

    async def _ask(self, name: str, prompt: str, task: TaskDefinition) -> LLMResponse:
        model = self._models[name]
        assert model.manager is not None, f"{name} was chosen without a manager"
        model.num_tasks += 1
        try:
            return await asyncio.to_thread(model.manager.generate_for_node, name, prompt, **task.settings)
        except TroupeError:
            model.num_failures += 1
            raise

    async def _free_models(self, num_models: int, priority: TaskPriority) -> list[str]:
        """Wait in line for free models, and take them: all that are wanted, or none."""
        place = _Waiting(
            number=next(self._numbers),
            priority=priority.value,
            since_seconds=time.monotonic(),
            num_models=num_models,
            chosen=asyncio.get_running_loop().create_future(),
        )
        self._waiting.append(place)
        self._call_next()
        try:
            return await place.chosen
        except BaseException:
            if place in self._waiting:
                self._waiting.remove(place)
            elif place.chosen.done() and not place.chosen.cancelled():
                self._release(place.chosen.result())
            self._call_next()
            raise

    def _call_next(self) -> None:
        """Give the most urgent in line its models, if there are enough; nobody behind it overtakes."""
        self._waiting = [each for each in self._waiting if not each.chosen.done()]
        while self._waiting and self._num_running < self.max_concurrent_tasks:
            now = time.monotonic()
            first = min(
                self._waiting,
                key=lambda each: (-(each.priority + _AGEING_PER_SECOND * (now - each.since_seconds)), each.number),
            )
            free = [name for name, each in self._models.items() if not each.is_busy and each.manager is not None]
            if len(free) < first.num_models:
                return
            chosen = sorted(free, key=lambda name: self._models[name].num_tasks)[: first.num_models]
            for name in chosen:
                self._models[name].is_busy = True
            self._num_running += 1
            self._waiting.remove(first)
            first.chosen.set_result(chosen)

    def _release(self, chosen: Sequence[str]) -> None:
        for name in chosen:
            if name in self._models:
                self._models[name].is_busy = False
        self._num_running -= 1
        self._call_next()

    def _known(self, model_id: str) -> _Model:
        if model_id not in self._models:
            otherwise = None if self._models else "no model is registered; call register_model first"
            raise ConfigurationError(
                f"model_id {model_id!r}: {suggest(str(model_id), self._models, otherwise=otherwise)}"
            )
        return self._models[model_id]


def create_unified_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler without models; `settings` are gpu_memory_mib and max_concurrent_tasks."""
    check_names(settings, keywords(UnifiedScheduler), "create_unified_scheduler")
    return UnifiedScheduler(base_port, num_gpus, **settings)


def create_cooperative_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler with a collaborating model on each GPU, `cooperative_model_0` and on, all of one `manager` if it is given."""
    capabilities = {"reasoning": 0.7, "cooperation": 0.8, "efficiency": 0.6}
    return _filled(base_port, num_gpus, "cooperative_model", ModelRole.COLLABORATOR, capabilities, settings)


def create_competitive_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler with a competing model on each GPU, `competitive_model_0` and on, all of one `manager` if it is given."""
    capabilities = {"reasoning": 0.8, "competition": 0.9, "efficiency": 0.7}
    return _filled(base_port, num_gpus, "competitive_model", ModelRole.COMPETITOR, capabilities, settings)


def _filled(
    base_port: int,
    num_gpus: int,
    name: str,
    role: ModelRole,
    capabilities: Mapping[str, float],
    settings: Mapping[str, Any],
) -> UnifiedScheduler:
    check_names(settings, [*keywords(UnifiedScheduler), "manager"], f"a scheduler of {name}s")
    given = dict(settings)
    manager = given.pop("manager", None)
    scheduler = UnifiedScheduler(base_port, num_gpus, **given)
    with ExitStack() as failed:
        for gpu in range(num_gpus):
            scheduler.register_model(f"{name}_{gpu}", gpu, role, capabilities, manager=manager)
            failed.callback(scheduler.unregister_model, f"{name}_{gpu}")
        failed.pop_all()
    return scheduler


def _winner(interaction: InteractionType, answers: Mapping[str, LLMResponse]) -> str:
    """Who counts: the most confident of competitors, who spoke last of those who cooperated."""
    if interaction is InteractionType.COOPERATION:
        return list(answers)[-1]
    return max(answers, key=lambda name: answers[name].confidence or 0.0)
