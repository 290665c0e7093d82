"""Stages as values, and the pipeline that a flow makes of them: order, versions, restarts and keys follow from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Literal

from pydantic import BaseModel

from components.config import RunConfig
from components.errors import ConfigurationError
from components.stage_roles import Retention, Role, Roles, Writes

_SERVERS: Mapping[str, Any] = {"generation": {"vllm"}}
"""Server settings in sections that decide results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A part of the configuration that a stage reads only under a condition."""

    path: str
    applies: Callable[[RunConfig], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a stage declares of itself.

    `reads` names the sections or fields of the configuration that decide its result, `needs` the stages of the same step
    whose results it reads, by their names or by what they write. Results of scope "shared" are keyed by configuration and
    arguments alone, so that runs share them.
    `ignores` names arguments that say where an input is found, not what it is. `writes`, `ends_step`, `optional` and
    `expires_with`: see Role. A stage without a version is an effect: it stores nothing and is repeated on every resume.
    """

    name: str
    version: int | None
    reads: tuple[str | When, ...] = ()
    needs: tuple[str, ...] = ()
    scope: Literal["run", "shared"] = "run"
    ignores: tuple[str, ...] = ()
    writes: Writes | None = None
    ends_step: bool = False
    optional: bool = False
    expires_with: Retention | None = None
    retries: int
    delay_seconds: float
    """Before the first retry; doubled each time."""
    timeout_seconds: float

    @property
    def role(self) -> Role:
        """What the stage is to the ledger."""
        return Role(
            name=self.name,
            writes=self.writes,
            ends_step=self.ends_step,
            optional=self.optional,
            expires_with=self.expires_with,
        )

    def config_fields(self, config: RunConfig) -> dict[str, Any]:
        """The part of `config` that decides the stage's result, as JSON, without what stands at its default.

        So a new field with a neutral default changes no key.

        **Example** reading "rollout" and `When("rewards.team_credit", ...)`: `{"rollout": {"num_problems": 8}}`, and
        `{"rollout": {...}, "rewards.team_credit": "turn_end"}` where that differs from its default.
        """
        fields: dict[str, Any] = {}
        whole = config.model_dump(mode="json", exclude=dict(_SERVERS), exclude_defaults=True)
        for each in self.reads:
            if isinstance(each, When) and not each.applies(config):
                continue
            path = each if isinstance(each, str) else each.path
            *sections, name = path.split(".")
            if not sections:
                value = whole.get(name, {})
                fields |= {} if value == {} else {name: value}
                continue
            values: BaseModel = reduce(getattr, sections, config)
            if not _stands_at_default(values, name):
                fields[path] = getattr(values, name)
        return fields


def _stands_at_default(values: BaseModel, name: str) -> bool:
    known = type(values).model_fields.get(name)  # None for a property
    return known is not None and getattr(values, name) == known.default


@dataclass(frozen=True)
class Pipeline:
    """The stages of a flow, in the order in which a step runs them."""

    stages: tuple[Stage, ...]
    _by_name: dict[str, Stage] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for stage in self.stages:
            assert stage.name not in self._by_name, f"two stages are called {stage.name}"
            missing = set(stage.needs) - set(self._by_name) - {each.writes for each in self._by_name.values()}
            assert not missing, f"{stage.name} needs {sorted(missing)}, which no earlier stage makes"
            self._by_name[stage.name] = stage

    def __getitem__(self, name: str) -> Stage:
        if name not in self._by_name:
            raise ConfigurationError(f"stage {name!r} is not known; stages are {', '.join(self._by_name)}")
        return self._by_name[name]

    @cached_property
    def versions(self) -> dict[str, int]:
        """Stage -> version, for every stage with a result."""
        return {stage.name: stage.version for stage in self.stages if stage.version is not None}

    @cached_property
    def roles(self) -> Roles:
        """The roles of all stages with a result."""
        return Roles(stages=tuple(stage.role for stage in self.stages if stage.version is not None))

    @property
    def first(self) -> Stage:
        """The stage that makes the policies before training."""
        return next(stage for stage in self.stages if stage.writes == "initial checkpoints")

    @cached_property
    def restartable(self) -> tuple[str, ...]:
        """The stages at which a step can be restarted: those with a result of the run's own."""
        return tuple(stage.name for stage in self.stages if stage.version is not None and stage.scope == "run")

    def inputs(self, name: str) -> tuple[str, ...]:
        """The stages of the same step whose results a stage reads."""
        needs = self[name].needs
        return tuple(each.name for each in self.stages if each.name in needs or each.writes in needs)

    def repeats(self, first: str) -> tuple[str, ...]:
        """The stages that a restart at stage `first` computes again in its step. Raises ConfigurationError."""
        names = [stage.name for stage in self.stages]
        return tuple(names[names.index(self[first].name) :])

    def first_reader(self, section: str) -> str:
        """The first stage to restart at after a change of a section of the configuration."""
        return next(name for name in self.restartable if section in self[name].reads)
