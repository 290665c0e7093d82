"""The team of a run, with its weights loaded into engines."""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from components.config import RunConfig
from components.environments.base import Split
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling, eval_rules, temperature_of
from components.rollout.play import play
from components.rollout.router import RoleRequest, Router
from components.rollout.rules import Rules, Start, playing_order
from components.runs.run import Run
from components.runs.session_records import effective_run
from components.schema import Episode, Observation
from components.session.scenario import scenario_of
from components.session.session import Session
from components.turn_order import TurnOrder, agents_of
from troupe.runs.documents import read_run
from troupe.runs.stores import opened_store, store_config

_STEP = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Policies with their own engines and sandboxes, freed by `close` or a `with` block. `name` is "RUN@STEP" or a model."""

    name: str
    session: Session
    router: Router

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        named = f"environment.name {self.config.environment.name}"
        return team_order(self.config, self.config, named=named, team=self.name)

    def rules(self, turn_order: TurnOrder, *, sampling: Sampling, suite: str, seed: int) -> Rules:
        """The sampling rules of an evaluation of `suite` with this seed."""
        max_turns = self.config.environment.max_turns
        return eval_rules(turn_order, max_turns=max_turns, sampling=sampling, suite=suite, seed=seed)

    def answer(self, agent: str, sees: Observation | str, *, sampling: Sampling = "greedy", seed: int = 0) -> str:
        """The answer of `agent` to what it sees; `seed` decides the draw if `sampling` is "sample"."""
        observation = Observation(instructions="", state=sees) if isinstance(sees, str) else sees
        prompt_tokens = self.router.encode(agent, observation)
        request = RoleRequest(role=agent, prompt_tokens=prompt_tokens, seeds_K=(seed,))
        ((completion,),) = self.router.generate([request], temperature=temperature_of(sampling))
        return self.router.decode(agent, completion.tokens, prompt_tokens)

    def play(self, index: int = 0, *, split: Split = "test", seed: int = 0, sampling: Sampling = "greedy") -> Episode:
        """Play problem `index` of a split of the run's environment as in an evaluation; the episode."""
        scenario = self.session.scenario
        problem = scenario.family.problem(scenario.options, split=split, index=index, seed=seed)
        (episode,) = play(
            [Start(problem=problem, episode=0)],
            self.rules(self._turn_order, sampling=sampling, suite=split, seed=seed),
            family=scenario.family,
            router=self.router,
            rubric=scenario.rubric,
            tools=self.session.toolbox.tools(),
        )
        return episode


def named_step(text: str, *, argument: str) -> tuple[str, int | None]:
    """The run and the step in `RUN` or `RUN@STEP`; the step is None for the newest. Raises ConfigurationError."""
    name, at, step = text.partition("@")
    if at and not _STEP.fullmatch(step):
        raise ConfigurationError(
            f"{argument} {text!r}: {step!r} is no step; write RUN@STEP, as {name or 'plan-path'}@100"
        )
    return name, int(step) if at else None


def stored_run(run_id: str, store_uri: str | None) -> Run:
    """A run as its results show it, bound to the store it is in. Raises ConfigurationError if there is none of this name."""
    store = opened_store(store_uri)
    return effective_run(store, read_run(store, run_id)).kept_in(store_config(store_uri))


def run_team(run: Run, step: int | None) -> Team:
    """The team of a run after `step` updates (None: the newest), its weights verified by digest. Raises ConfigurationError."""
    from components.runs.steps import checkpoints_before, first_unfinished_step
    from tasks.refresh_weights import refresh_weights

    session = Session(run)
    num_finished = first_unfinished_step(session.store, run)
    if step is not None and not 0 <= step <= num_finished:
        raise ConfigurationError(
            f"step {step} of run {run.run_id}: it has finished {num_finished} updates; use 0 to {num_finished}"
        )
    at = num_finished if step is None else step
    with ExitStack() as unless_loaded:
        unless_loaded.callback(session.close)
        versions = refresh_weights.fn(session, at, checkpoints_before(session.store, run, at))
        team = Team(name=f"{run.run_id}@{at}", session=session, router=session.router(versions))
        unless_loaded.pop_all()
    return team


def team_order(config: RunConfig, played: RunConfig, *, named: str, team: str) -> TurnOrder:
    """The turn order of `played`'s environment with the policies of `config`. Raises ConfigurationError if a role has none."""
    environment = scenario_of(played).family
    order = turn_order_of(environment, played.environment.turn_order)
    playing = playing_order(config.rollout.mode, order, roles=environment.roles)
    if missing := set(agents_of(playing, environment.roles)) - set(config.agents):
        raise ConfigurationError(
            f"{named}: its roles {sorted(missing)} are played by nobody in {team}, whose roles are "
            f"{sorted(config.agents)}; name an environment with these roles"
        )
    return playing


def checked_sampling(text: str) -> Sampling:
    """`--sampling`, checked."""
    match text:
        case "sample" | "greedy":
            return text
    raise ConfigurationError(f"--sampling {text!r}: use sample or greedy")
