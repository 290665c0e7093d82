"""The team of a run, with its weights loaded into engines."""

from contextlib import ExitStack
from dataclasses import dataclass

from components.config import RunConfig
from components.environments.base import Split
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling, eval_rules, temperature_of
from components.evaluation.subjects import parse_run
from components.machine.closeable import Closeable
from components.methods.open_subjects import run_checkpoints, team_order
from components.rollout.play import play
from components.rollout.router import Router
from components.rollout.rules import SamplingRules, Start
from components.runs.run import Run
from components.runs.session_records import effective_run
from components.runs.stored_runs import read_run
from components.schema import Episode, Observation
from components.session.session import Session
from components.turn_order import TurnOrder, agents_of
from troupe.runs.stores import open_named_store, store_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Team(Closeable):
    """Policies with their own engines and sandboxes, freed by `close` or a `with` block. `name` is "RUN@STEP" or a model."""

    name: str
    session: Session
    router: Router

    def close(self) -> None:
        """Free the engines and sandboxes. The team cannot be used afterwards."""
        self.session.close()

    @property
    def config(self) -> RunConfig:
        """The configuration of the run, or of the evaluation of a model."""
        return self.session.config

    @property
    def roles(self) -> tuple[str, ...]:
        """The agents that act, in the order of their first action in a turn."""
        return agents_of(self._turn_order, self.session.scenario.family.roles)

    @property
    def _turn_order(self) -> TurnOrder:
        """The turn order of the run's own environment."""
        return team_order(self.config, self.config, team=self.name)

    def rules(self, turn_order: TurnOrder, *, sampling: Sampling, split: str, seed: int) -> SamplingRules:
        """The sampling rules of an evaluation on this split with this seed."""
        max_turns = self.config.environment.max_turns
        return eval_rules(turn_order, max_turns=max_turns, sampling=sampling, split=split, seed=seed)

    def answer(self, agent: str, sees: Observation | str, *, sampling: Sampling = "greedy", seed: int = 0) -> str:
        """The answer of `agent` to what it sees; `seed` decides the draw if `sampling` is "sample"."""
        observation = Observation(instructions="", state=sees) if isinstance(sees, str) else sees
        return self.router.answer(agent, observation, temperature=temperature_of(sampling), seed=seed)

    def play(self, index: int = 0, *, split: Split = "test", seed: int = 0, sampling: Sampling = "greedy") -> Episode:
        """Play problem `index` of a split of the run's environment as in an evaluation; the episode."""
        scenario = self.session.scenario
        problem = scenario.family.problem(scenario.options, split=split, index=index, seed=seed)
        (episode,) = play(
            [Start(problem=problem, episode=0)],
            self.rules(self._turn_order, sampling=sampling, split=split, seed=seed),
            family=scenario.family,
            router=self.router,
            rubric=scenario.rubric,
            tools=self.session.toolbox.tools(),
        )
        return episode


def find_named_step(text: str, *, argument: str) -> tuple[str, int | None]:
    """The run and the step in `RUN` or `RUN@STEP`; the step is None for the newest. Raises ConfigurationError."""
    subject = parse_run(text, argument=argument)
    return subject.run_id, subject.step


def find_run(run_id: str, store_uri: str | None) -> Run:
    """A run as its results show it, bound to the store it is in. Raises ConfigurationError if there is none of this name."""
    store = open_named_store(store_uri, run_id)
    return effective_run(store, read_run(store, run_id)).bind_to_store(store_config(store_uri, run_id))


def run_team(run: Run, step: int | None) -> Team:
    """The team of a run after `step` updates (None: the newest), its weights verified by digest. Raises ConfigurationError."""
    from tasks.refresh_weights import refresh_weights

    at, checkpoints = run_checkpoints(run, step)
    session = Session(run)
    with ExitStack() as unless_loaded:
        unless_loaded.callback(session.close)
        versions = refresh_weights.fn(session, at, checkpoints)
        team = Team(name=f"{run.run_id}@{at}", session=session, router=session.router(versions))
        unless_loaded.pop_all()
    return team


def check_sampling(text: str) -> Sampling:
    """`--sampling`, checked."""
    match text:
        case "sample" | "greedy":
            return text
    raise ConfigurationError(f"--sampling {text!r}: use sample or greedy")
