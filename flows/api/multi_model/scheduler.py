"""The scheduler of models by its documented names: who is where, and who works on a prompt together."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from components.errors import ConfigurationError, TroupeError
from components.machine.port_leases import PortLease, lease_port
from components.text.suggestions import suggest
from flows.api.multi_model.enums import ModelRole
from flows.api.multi_model.fields import Count, Port, Text, Whole, check_arguments, check_fields
from flows.api.multi_model.llm import LLMResponse, SharedLLMManager, answer_settings

_PARTS = ("analysis", "planning", "execution", "validation")


class InteractionType(Enum):
    """How several models work on one task."""

    COOPERATION = "cooperation"
    COMPETITION = "competition"
    NEUTRAL = "neutral"


@check_fields
class TaskDefinition:
    """A prompt, and how it is worked on.

    `collaboration_required`: models take its parts in turn, each seeing what was said. Else, where competition is allowed and
    most models are for it, several answer and the most confident wins; else one answers.
    """

    prompt: Text
    num_models: Count = 2
    collaboration_required: bool = False
    competition_allowed: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    """As those of a node: max_new_tokens, temperature, and so on."""


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
    gpu_id: int
    role: ModelRole
    memory_mib: int
    lease: PortLease
    manager: SharedLLMManager | None
    num_tasks: int = 0
    num_failures: int = 0


class UnifiedScheduler:
    """Gives models their places, and tasks to those that have worked least.

    Its ports are reserved, and no server listens at them yet: models answer in this process, by `execute_task`.

    **Example**

        scheduler = create_unified_scheduler(base_port=8001, num_gpus=1)
        scheduler.register_model("a", 0, manager=SharedLLMManager(LLMConfig(model_name="tiny")))
        (await scheduler.execute_task(TaskDefinition(prompt="2 + 2 ="))).text
    """

    @check_arguments
    def __init__(self, base_port: Port = 8001, num_gpus: Count = 8, *, gpu_memory_mib: Count | None = None) -> None:
        """`gpu_memory_mib` of each GPU bounds what its models may reserve; None: no bound. Raises ConfigurationError."""
        self.base_port, self.num_gpus, self.gpu_memory_mib = base_port, num_gpus, gpu_memory_mib
        self._models: dict[str, _Model] = {}
        self._counts = dict.fromkeys(("running", "done", "failed"), 0)

    @check_arguments
    def register_model(
        self,
        model_id: Text,
        gpu_id: int,
        role: ModelRole = ModelRole.GENERALIST,
        *,
        manager: Any = None,
        memory_mib: Whole = 0,
    ) -> bool:
        """Reserve a port and memory for a model; False, with nothing reserved, for a known name, a GPU that is not there, or
        too little memory left on it. A model without a `manager` gets no tasks.

        `role`: whether it competes or collaborates with others on a task. Raises ConfigurationError.
        """
        if manager is not None and not hasattr(manager, "generate_for_node"):
            raise ConfigurationError(f"manager {manager!r}: give a SharedLLMManager")
        taken = sum(each.memory_mib for each in self._models.values() if each.gpu_id == gpu_id)
        full = self.gpu_memory_mib is not None and taken + memory_mib > self.gpu_memory_mib
        if model_id in self._models or not 0 <= gpu_id < self.num_gpus or full:
            return False
        if manager is not None:
            manager.register_node(model_id)
        self._models[model_id] = _Model(
            gpu_id=gpu_id,
            role=role,
            memory_mib=memory_mib,
            lease=lease_port(self.base_port),
            manager=manager,
        )
        return True

    def unregister_model(self, model_id: str) -> None:
        """Give a model's port and memory back. Raises ConfigurationError for an unknown one."""
        self._known(model_id)
        self._models.pop(model_id).lease.release()

    def get_model_url(self, model_id: str) -> str:
        """Raises ConfigurationError: a model's port is reserved, and no server listens at it yet."""
        port = self._known(model_id).lease.port
        raise ConfigurationError(
            f"model_id {model_id!r}: has no address: port {port} is reserved for it, and no server listens there yet; it "
            "answers in this process, by execute_task"
        )

    async def execute_task(self, task: TaskDefinition) -> InteractionResult:
        """Let models work on a task. One that fails is left out if others are there.

        Raises the last one's error if none is, and ConfigurationError without models that answer.
        """
        if not isinstance(task, TaskDefinition):
            raise ConfigurationError(f"task {task!r}: give a TaskDefinition, as TaskDefinition(prompt=...)")
        answer_settings(task.settings, "a task")
        able = [name for name, each in self._models.items() if each.manager is not None]
        able.sort(key=lambda name: self._models[name].num_tasks)
        if not able:
            raise ConfigurationError("execute_task: no model answers; register one with a manager")
        interaction, began = self._interaction(task, able), time.monotonic()
        chosen = able[: 1 if interaction is InteractionType.NEUTRAL else min(task.num_models, len(_PARTS))]
        self._counts["running"] += 1
        outcome = "failed"
        try:
            answers = await self._answers(task, interaction, chosen)
            outcome = "done"
        finally:
            self._counts["running"] -= 1
            self._counts[outcome] += 1
        cooperated = interaction is InteractionType.COOPERATION
        winner = [*answers][-1] if cooperated else max(answers, key=lambda name: answers[name].confidence or 0.0)
        seconds = time.monotonic() - began
        return InteractionResult(interaction=interaction, answers=answers, winner=winner, seconds=seconds)

    def get_system_status(self) -> dict[str, Any]:
        """Models with their places and tasks, and how many tasks run, are done and have failed."""
        shown = ("gpu_id", "memory_mib", "num_tasks", "num_failures")
        return {
            "models": {
                name: {each: getattr(model, each) for each in shown}
                | {"port": model.lease.port, "role": model.role.value}
                for name, model in self._models.items()
            },
            "tasks": dict(self._counts),
        }

    async def shutdown(self) -> None:
        """Wait for the tasks that run, and give all ports back; managers stay their owners'. Harmless twice."""
        while self._counts["running"]:
            await asyncio.sleep(0.01)
        for name in list(self._models):
            self.unregister_model(name)

    def _interaction(self, task: TaskDefinition, able: Sequence[str]) -> InteractionType:
        """Cooperation where it is required or more models are for it; competition where it is allowed and most are for it."""
        if task.collaboration_required:
            return InteractionType.COOPERATION
        if not task.competition_allowed or len(able) < 2:
            return InteractionType.NEUTRAL
        roles = [self._models[name].role for name in able]
        competing, cooperating = roles.count(ModelRole.COMPETITOR), roles.count(ModelRole.COLLABORATOR)
        if cooperating > competing:
            return InteractionType.COOPERATION
        return InteractionType.COMPETITION if competing > len(able) / 2 else InteractionType.NEUTRAL

    async def _answers(
        self, task: TaskDefinition, interaction: InteractionType, chosen: Sequence[str]
    ) -> dict[str, LLMResponse]:
        answers: dict[str, LLMResponse] = {}
        errors: list[TroupeError] = []
        is_cooperation, said = interaction is InteractionType.COOPERATION, task.prompt

        async def ask(name: str, prompt: str) -> None:
            model = self._models[name]
            assert model.manager is not None, f"{name} was chosen without a manager"
            model.num_tasks += 1
            try:
                answers[name] = await asyncio.to_thread(model.manager.generate_for_node, name, prompt, **task.settings)
            except TroupeError as error:
                model.num_failures += 1
                errors.append(error)

        if is_cooperation:
            for part, name in zip(_PARTS, chosen, strict=False):
                await ask(name, f"{said}\n{part}: ")
                said += f"\n{part}: {answers[name].text}" if name in answers else ""
        else:
            await asyncio.gather(*(ask(name, said) for name in chosen))
        if not answers:
            raise errors[-1]
        return answers

    def _known(self, model_id: str) -> _Model:
        if model_id not in self._models:
            otherwise = None if self._models else "no model is registered; call register_model first"
            raise ConfigurationError(
                f"model_id {model_id!r}: {suggest(str(model_id), self._models, otherwise=otherwise)}"
            )
        return self._models[model_id]


def create_unified_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler without models; `settings` is `gpu_memory_mib`."""
    return UnifiedScheduler(base_port, num_gpus, **settings)


def create_cooperative_scheduler(
    base_port: int = 8001, num_gpus: int = 8, *, manager: SharedLLMManager | None = None, **settings: Any
) -> UnifiedScheduler:
    """A scheduler with a collaborating model on each GPU, `cooperative_model_0` and on, all of one `manager` if it is given."""
    return _fill(
        UnifiedScheduler(base_port, num_gpus, **settings), "cooperative_model", ModelRole.COLLABORATOR, manager
    )


def create_competitive_scheduler(
    base_port: int = 8001, num_gpus: int = 8, *, manager: SharedLLMManager | None = None, **settings: Any
) -> UnifiedScheduler:
    """A scheduler with a competing model on each GPU, `competitive_model_0` and on, all of one `manager` if it is given."""
    return _fill(UnifiedScheduler(base_port, num_gpus, **settings), "competitive_model", ModelRole.COMPETITOR, manager)


def _fill(scheduler: UnifiedScheduler, name: str, role: ModelRole, manager: Any) -> UnifiedScheduler:
    with ExitStack() as failed:
        for gpu in range(scheduler.num_gpus):
            scheduler.register_model(f"{name}_{gpu}", gpu, role, manager=manager)
            failed.callback(scheduler.unregister_model, f"{name}_{gpu}")
        failed.pop_all()
    return scheduler
