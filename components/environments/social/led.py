"""A game of joint steps in which one agent leads: it answers first, and the others see its answer before they give theirs.

The game itself is the same: the leader's answer counts together with the others'. Each round of it takes two calls, so that
`environment.max_turns` must be twice as large.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from types import MappingProxyType
from typing import Any

from pydantic import Field, model_validator

from components.environments.base import JointStep, Split, Step
from components.environments.environment import Environment, has_joint_step
from components.environments.social.game import WEIGHTS, member_names
from components.environments.social.repeated import NUM_MEMBERS
from components.errors import ConfigurationError, MalformedAction
from components.frozen import Frozen, Settings


class LedOptions(Settings):
    """The options of led."""

    game: str = "coop_compete"
    """An environment in which agents act at once."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of that environment."""
    leader: str = "player_0"
    """The agent that answers first."""

    @model_validator(mode="after")
    def _leads_somebody(self) -> "LedOptions":
        roles = _game(self.game).roles_for(self.of_game)
        if self.leader not in roles:
            raise ValueError(f"leader {self.leader!r} is no agent of {self.game}; agents are {', '.join(roles)}")
        return self

    @property
    def of_game(self) -> Frozen:
        """The options of the game, with defaults. Raises ConfigurationError."""
        from components.environments.registry import family_options  # the registry knows this module

        return family_options(self.game, self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """Where the game stands, and what the leader has answered in this round; None before it has, "" if it was malformed."""

    game: str
    leader: str
    inner: Any
    told: str | None = None


class LedEnvironment(Environment):
    """led: another game with a leader."""

    roles = member_names(NUM_MEMBERS)
    Options = LedOptions
    weights = MappingProxyType(
        {**WEIGHTS, **{f"team.{name}": 0.0 for name in ("cooperation", "spl", "gain", "gini", "kept")}}
    )
    max_answer_characters = None
    over = "the game is over"
    answer_ending = "your choice alone in the last line."

    def roles_for(self, options: LedOptions) -> tuple[str, ...]:
        return _game(options.game).roles_for(options.of_game)

    def draw(self, options: LedOptions, rng: Random) -> Mapping[str, Any] | None:
        drawn = _game(options.game).draw(options.of_game, rng)
        return None if drawn is None else {"game": options.game, "leader": options.leader, "drawn": dict(drawn)}

    def problem(self, options: LedOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any] | None:
        read = _game(options.game).problem(options.of_game, split=split, index=index, seed=seed)
        return None if read is None else {"game": options.game, "leader": options.leader, "drawn": dict(read)}

    def deciding(self, problem: Mapping[str, Any]) -> Any:
        return _game(problem["game"]).deciding(problem["drawn"])

    def start(self, problem: Mapping[str, Any]) -> Led:
        game = problem["game"]
        return Led(game=game, leader=problem["leader"], inner=_game(game).start(problem["drawn"]))

    def next_role(self, state: Led) -> tuple[str, ...] | None:
        agents = self._acting(state)
        if not agents:
            return None
        if state.leader not in agents or len(agents) == 1:
            return agents
        return (state.leader,) if state.told is None else tuple(agent for agent in agents if agent != state.leader)

    def observe(self, state: Led, agent: str) -> str:
        seen = _game(state.game).observe(state.inner, agent)
        if agent == state.leader or state.told is None:
            return seen
        return f"{seen}\n{state.leader} chose {state.told or 'nothing'}"

    def instructions(self, state: Led, agent: str) -> str:
        told = _game(state.game).instructions(state.inner, agent)
        part = "You choose first, and the others see it." if agent == state.leader else f"{state.leader} chooses first."
        return f"{told} {part}".strip()

    def choices(self, state: Led, agent: str) -> Any:
        return _game(state.game).choices(state.inner, agent)

    def step(self, state: Led, agent: str, answer: str) -> Step:
        """The leader's answer, or the only follower's."""
        if agent == state.leader and state.told is None and len(self._acting(state)) > 1:
            return Step(state=replace(state, told=answer), done=False)
        if self.next_role(state) != (agent,):
            raise MalformedAction(f"it is not the turn of {agent} alone")
        joint = self.step_together(state, {agent: answer})
        return Step(
            state=joint.state,
            solved=joint.solved,
            done=joint.done,
            team=joint.team,
            local=joint.local.get(agent, {}),
            payoffs=joint.payoffs,
        )

    def step_together(self, state: Led, answers: Mapping[str, str | None]) -> JointStep:
        """The followers' answers, together with the leader's."""
        told = {} if state.told is None else {state.leader: state.told or None}
        joint = _game(state.game).step_together(state.inner, {**told, **answers})
        return replace(joint, state=replace(state, inner=joint.state, told=None))

    def after_malformed(self, state: Led, agent: str, error: MalformedAction) -> Step:
        """A malformed answer of the leader tells nothing; the game says what the only follower's does."""
        if agent == state.leader and state.told is None and len(self._acting(state)) > 1:
            return Step(state=replace(state, told=""))
        if self.next_role(state) != (agent,):
            return Step(state=state)
        joint = self.step_together(state, {agent: None})
        return Step(state=joint.state, solved=joint.solved, done=joint.done, team=joint.team, payoffs=joint.payoffs)

    def longest_answer(self, options: LedOptions) -> int:
        return _game(options.game).longest_answer(options.of_game)

    def characters(self, options: LedOptions) -> str:
        own = _game(options.game).characters(options.of_game)
        return own + "".join(sorted(set(f"{options.leader} chose nothing") - set(own)))

    def render(self, state: Led) -> str:
        told = f"\n{state.leader} chose {state.told or 'nothing'}" if state.told is not None else ""
        return _game(state.game).render(state.inner) + told

    def _acting(self, state: Led) -> tuple[str, ...]:
        acting = _game(state.game).next_role(state.inner)
        return () if acting is None else (acting,) if isinstance(acting, str) else tuple(acting)


@cache
def _game(name: str) -> Environment:
    """The environment that is led. Raises ConfigurationError for one whose agents never act at once."""
    from components.environments.registry import family  # the registry knows this module

    game = family(name).environment
    if not has_joint_step(type(game)) or type(game).next_role is Environment.next_role:
        raise ConfigurationError(
            f"environment.options.game {name!r}: nobody can lead it, because it does not say with next_role() and "
            "step_together() who acts at once; name a game such as coop_compete or team_battle"
        )
    return game
