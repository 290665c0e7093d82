"""A run as the stages see it, and how a stage's inputs become its key."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, is_dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig, StoreConfig
from components.frozen import Frozen
from components.identity import StageKey, fingerprint
from components.runs.lineages import Lineage, lineage_for
from components.runs.pipeline import Stage

SHARED = "_shared"
"""Replaces the run_id in keys of results shared by runs of equal configuration. No run_id may start with "_"."""


class RunAddress(Frozen):
    """A run's name, and the deliberate restarts that decide which of its records count."""

    run_id: str
    lineages: tuple[Lineage, ...] = ()


class Run(RunAddress):
    """A run's name and configuration."""

    config: RunConfig

    def bind_to_store(self, store: StoreConfig) -> "Run":
        """The run as found in `store`, wherever it was started: a store's location affects no result."""
        moved = self.config.store.move_to(store)
        return self.model_copy(update={"config": self.config.model_copy(update={"store": moved})})


class StepBatches(Frozen):
    """One TrainBatch per policy, and the step's metrics."""

    batches: dict[str, ArtifactRef]
    metrics: dict[str, float]

    def of_policies(self, policies: Collection[str]) -> "StepBatches":
        """The same with the batches of `policies` alone."""
        return self.model_copy(
            update={"batches": {name: self.batches[name] for name in self.batches if name in policies}}
        )

    def with_metrics(self, metrics: Mapping[str, float]) -> "StepBatches":
        """The same with further metrics."""
        return self.model_copy(update={"metrics": {**self.metrics, **metrics}})


class MixedStep(Frozen):
    """What the agents of a population learn from in a step: one ScoredShard per shard, its rewards those that the training mode
    makes of all agents' returns; the PopulationState after the step; who learns in it; and metrics."""

    credited: list[ArtifactRef]
    state: ArtifactRef
    learning: list[str]
    metrics: dict[str, float]
    needed_steps: tuple[int, ...] = ()
    """Later steps need policies as they were before these: past selves, and whoever did not learn or plays by older weights."""


class CollectedStep(Frozen):
    """What a step of a game brought: the Experience to learn from, and metrics."""

    experience: ArtifactRef
    metrics: dict[str, float]
    advice: ArtifactRef | None = None
    """The batch that a language model learns from; None where it learns nothing."""


class PolicyUpdate(Frozen):
    """The result of one policy's update."""

    checkpoint: CheckpointRef
    metrics: dict[str, float]
    needed_steps: tuple[int, ...] = ()
    """Later updates need the policy as it was before these: the reference of the loss."""


def stage_key(stage: Stage, run: Run, arguments: Mapping[str, Any] = MappingProxyType({})) -> StageKey:
    """The key of a stage of `run`, called with `arguments`.

    `step` and `part` have fields of their own. All other arguments except the session and those that the stage ignores, and
    the configuration that the stage depends on, go into the fingerprint.
    """
    assert stage.version is not None, f"{stage.name} stores no result"
    step = int(arguments.get("step", 0))
    is_shared = stage.scope == "shared"
    aside = {"session", "step", "part", *stage.ignores}
    inputs = {name: _plain(value) for name, value in arguments.items() if name not in aside}
    return StageKey(
        run_id=SHARED if is_shared else run.run_id,
        step=step,
        stage=stage.name,
        version=stage.version,
        part=str(arguments.get("part", "all")),
        lineage=0 if is_shared else lineage_for(run.lineages, step, stage.name),
        depends_on=fingerprint({"config": stage.config_fields(run.config), "inputs": inputs}),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
