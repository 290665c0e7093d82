"""What a method is to the rest of the house: its checks, first checkpoints and evaluation, beside what its configuration says.

Its stages and the function of one step stand in `flows/steps.py`; `components/config/method.py` has the union that names it.
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.environments.base import Tools
from components.evaluation.held_out import (
    EvalPlan,
    EvalSetting,
    ReportHeader,
    Sampling,
    list_answer_metrics,
    play_block,
)
from components.evaluation.suite_play import SuitePlay
from components.evaluation.suites import Suite
from components.methods.open_subjects import Player
from components.rollout.play import ProblemProgress
from components.rollout.router import RoleBinding
from components.runs.run import Run
from components.schema import PolicyVersion
from components.session.scenario import Scenario
from components.session.session import Session
from components.turn_order import agents_of

Versions = Mapping[str, PolicyVersion]
Weights = Mapping[str, Player]
"""Where weights are that the session's own run may not have."""
Seating = dict[str, str] | None
"""Who plays each agent; None: the policies of the configuration."""


class Evaluation:
    """The evaluation of policies that answer in text: a suite of problems, played without the tree."""

    def list_effective(self, config: RunConfig) -> tuple[str, ...] | None:
        """What changes the problems of a run that plays its own alone; None where it plays any suite."""
        return None

    def dump_effective(self, config: RunConfig) -> dict[str, Any]:
        """The run's configuration as plain values, to be played with other problems."""
        return config.model_dump(mode="json")

    def plan(
        self, scenario: Scenario, suite: Suite, *, sampling: Sampling, seed: int, num_samples: int = 1
    ) -> EvalPlan:
        """How a suite is played; `seed` decides the draws of answers."""
        return scenario.eval_plan(suite, sampling=sampling, seed=seed, num_samples=num_samples)

    def name_players(
        self, session: Session, plan: EvalPlan, versions: Versions, weights: Weights, seating: Seating = None
    ) -> dict[str, Any]:
        """What decides the answers of each role that acts: weights, and how it is asked. Names of policies decide nothing."""
        seats = session.scenario.seats if seating is None else session.scenario.fill_seats(seating)
        acting = [role for role in agents_of(plan.turn_order, session.scenario.family.roles) if role in seats]
        return {
            role: _describe_request(seats[role]) | {"weights": versions[seats[role].policy].weights_digest}
            for role in acting
        }

    def play(
        self,
        session: Session,
        plan: EvalPlan,
        versions: Versions,
        weights: Weights,
        *,
        seating: Seating,
        tools: Tools,
        progress: ProblemProgress,
    ) -> SuitePlay:
        """The play of a block by players whose models are loaded. `progress(done, total)` counts problems."""
        scenario = session.scenario
        router = session.router(dict(versions), seating)
        setting = EvalSetting(family=scenario.family, router=router, rubric=scenario.rubric, tools=tools)
        return play_block(plan, plan.problems, setting, progress=progress)

    def head(self, scenario: Scenario, plan: EvalPlan, *, agent: str, step: int) -> ReportHeader:
        """Of whom and of what a report is."""
        return ReportHeader(
            agent=agent,
            suite=f"{scenario.config.environment.name}/{plan.split}",
            suite_digest=scenario.suite_digest(plan),
            step=step,
            sampling=plan.sampling,
            seed=plan.seed,
            temperatures=scenario.own_temperatures(plan.sampling),
        )

    def list_metrics(self, play: SuitePlay) -> dict[str, float]:
        """What a report says beside success and reward."""
        return list_answer_metrics(play)


def _describe_request(seat: RoleBinding) -> dict[str, Any]:
    return {each.name: getattr(seat, each.name) for each in fields(seat) if each.name != "policy"}


class Method:
    """A method that trains the policies of its configuration and nothing else."""

    evaluation = Evaluation()
    """What its checkpoints are measured by."""

    def check(self, scenario: Scenario) -> None:
        """Raise ConfigurationError or ServiceMissing for what keeps a run from starting, before anything is computed."""

    def read_document(self, store: ArtifactStore, run: Run, *, step: int | None) -> dict[str, Any] | None:
        """What `troupe view` shows of a run, as plain JSON; None where that is the episodes of a step."""
        return None

    def add_first_checkpoints(
        self, session: Session, checkpoints: Mapping[str, CheckpointRef]
    ) -> dict[str, CheckpointRef]:
        """The checkpoints before the first step of what the method trains beside the policies, whose own are given."""
        return {}


def method_for(config: RunConfig) -> Method:
    """The method of a configuration: `METHOD` of the package that bears its name."""
    found: Method = import_module(f"components.methods.{config.method.type}.method").METHOD
    return found
