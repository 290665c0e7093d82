"""What stages are to the ledger of a run: what they write, which one ends a step, which may be missing, what expires."""

from collections.abc import Iterator
from typing import Literal

from components.frozen import Frozen

Writes = Literal[
    "initial checkpoints",
    "rollouts",
    "rewards",
    "returns",
    "batches",
    "experience",
    "checkpoints",
    "mixed checkpoints",
    "plays",
    "evaluations",
    "interactions",
]
"""Mixed checkpoints are what a step's new checkpoints become together; evaluations report plays."""
Retention = Literal["rollouts", "checkpoints"]


class Role(Frozen):
    """What one stage is to the ledger."""

    name: str
    """Of the stage."""
    writes: Writes | None = None
    """What others look for among its results."""
    ends_step: bool = False
    """Its result is the step's report: the record of a finished step is of its lineage."""
    optional: bool = False
    """A step is finished without it."""
    expires_with: Retention | None = None
    """The field of `retention` that says how long its results stay; None: as long as the run."""


class Roles(Frozen):
    """The roles of a run's stages, in the order of its pipeline."""

    stages: tuple[Role, ...] = ()

    def __getitem__(self, stage: str) -> Role:
        """The role of a stage; of one that is not among these, the one that it had before roles were recorded."""
        known = (*self.stages, *_BEFORE_ROLES)
        return next((each for each in known if each.name == stage), Role(name=stage))

    def writing(self, what: Writes) -> Iterator[str]:
        """The stages that write this, in the order of the pipeline."""
        return (each.name for each in self.stages or _BEFORE_ROLES if each.writes == what)

    def expiring_with(self, retention: Retention) -> Iterator[str]:
        """The stages whose results stay as long as this, in the order of the pipeline."""
        return (each.name for each in self.stages or _BEFORE_ROLES if each.expires_with == retention)


_BEFORE_ROLES = (
    Role(name="warm_start", writes="initial checkpoints"),
    Role(name="collect_rollouts", writes="rollouts", expires_with="rollouts"),
    Role(name="collect_experience", writes="experience"),
    Role(name="compute_rewards", writes="rewards", expires_with="rollouts"),
    Role(name="mix_returns", writes="returns"),
    Role(name="compute_advantages", writes="batches", expires_with="rollouts"),
    Role(name="update_policy", writes="checkpoints", expires_with="checkpoints"),
    Role(name="coordinate_weights", writes="mixed checkpoints", expires_with="checkpoints"),
    Role(name="publish_checkpoint", ends_step=True),
    Role(name="play_suite", writes="plays", optional=True),
    Role(name="evaluate_policy", writes="evaluations", optional=True),
    Role(name="picture_episode", optional=True),
    Role(name="play_against_starts", optional=True),
    Role(name="draw_interactions", writes="interactions", optional=True),
)
"""The stages of runs whose sessions recorded no roles. Nothing that these stored tells them: it names stages alone. New stages
are not for this table."""
