"""An `Environment` of one's own as the family that the pipeline plays: splits, snapshots, malformed answers, rewards."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from random import Random
from typing import Any, TypeVar

from components.artifacts.refs import Frozen
from components.environments.base import NO_TOOLS, MultiAgentEnv, Snapshot, Split, ToolCall, Tools, refuse_overlong
from components.environments.environment import Environment, Step, branches, has_expert, observation
from components.environments.shared.splits import split_of
from components.errors import ConfigurationError, MalformedAction
from components.identity import canonical_json, content_id, seed_for
from components.nearest import remedy_for
from components.own_code import failed, place_of
from components.plain_text import shown_value
from components.rewards.base import Rubric
from components.schema import ActionOutcome, Observation, Problem
from components.turn_order import BRANCHING, TurnOrder

T = TypeVar("T")
DEFAULT_WEIGHTS: Mapping[str, float] = {"team.solved": 1.0, "local.malformed": -0.1}
_MAX_DRAWS = 1000


class OwnFamily:
    """The `EnvironmentFamily` of an `Environment`. What its code raises becomes one line with its file and line."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.name = name
        self._environment = environment
        self._rubric = Rubric(team_weight=1.0, weights=self.default_weights)

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self._environment.roles)

    @property
    def turn_order(self) -> TurnOrder:
        """Who acts in a turn, unless a configuration says otherwise."""
        if branches(self._environment):
            return BRANCHING
        return tuple(self._environment.turn_order) or self.roles

    @property
    def options_type(self) -> type[Frozen]:
        return self._environment.Options

    @property
    def default_weights(self) -> Mapping[str, float]:
        return {**DEFAULT_WEIGHTS, **self._environment.weights}

    @property
    def copies_proposals(self) -> bool:
        return False

    def uses_sandbox(self, options: Frozen) -> bool:
        return False

    def retriever(self, options: Frozen) -> None:
        return None

    def alphabet(self, options: Frozen) -> str:
        return self._environment.alphabet

    def max_action_characters(self, options: Frozen) -> int:
        return self._environment.max_answer_characters

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of `split`: the first draw of its seed whose deciding part belongs to the split.

        Raises ConfigurationError where no draw does, because nearly all problems are decided by the same.
        """
        for attempt in range(_MAX_DRAWS):
            rng = Random(seed_for(seed, self.name, split, index, attempt))
            payload = self._checked(dict(self._asked("draw", self._environment.draw, options, rng)), "draw")
            deciding = {"deciding": self._asked("deciding", self._environment.deciding, deepcopy(payload))}
            if split_of(self._checked(deciding, "deciding")) == split:
                return Problem(problem_id=content_id("own", payload), environment=self.name, payload=payload)
        raise ConfigurationError(
            f"environment.name {self.name!r}: none of {_MAX_DRAWS} draws is a problem of the {split} split; a fifth of all "
            "different problems is for tests, so let draw() make more different ones"
        )

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> "OwnEnv":
        assert problem.environment == self.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        return OwnEnv(self._environment, self._rubric, problem.payload, self._asked)

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The expert's answer. Raises ConfigurationError where there is no expert."""
        if not has_expert(self._environment):
            raise ConfigurationError(
                f"environment.name {self.name!r} has no expert(state, agent): a model that is made from nothing learns the "
                "grammar from it; write one, or begin with a pretrained model (policies.<name>.base)"
            )
        return self._asked("expert", self._environment.expert, _own(env).state, agent)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The expert's answer; with probability `noise` one of its characters is drawn anew from those of its kind."""
        answer = self.expert_action(env, agent)
        if not answer or rng.random() >= noise:
            return answer
        place = rng.randrange(len(answer))
        like = [letter for letter in self._environment.alphabet if _kind(letter) == _kind(answer[place])]
        return answer[:place] + rng.choice(like or [answer[place]]) + answer[place + 1 :]

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """Random characters of the alphabet, of the kinds that the expert's answer has; without one, any."""
        if not has_expert(self._environment):
            return "".join(rng.choices(self._environment.alphabet, k=rng.randint(1, 8)))
        answer = self.expert_action(env, agent)
        kinds = set(map(_kind, answer))
        letters = [letter for letter in self._environment.alphabet if _kind(letter) in kinds]
        return "".join(rng.choices(letters, k=len(answer))) if letters else ""

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Leaves the episode at its start."""

    def _asked(self, what: str, ask: Callable[..., T], *arguments: Any) -> T:
        """What own code answers. Raises ConfigurationError with the file and line where it failed."""
        try:
            return ask(*arguments)
        except (MalformedAction, ConfigurationError):
            raise
        except Exception as error:  # the border to own code: whatever it raises is told in one line
            raise failed(f"environment.name {self.name!r}, {what}()", error) from error

    def _checked(self, payload: dict[str, Any], what: str) -> dict[str, Any]:
        try:
            canonical_json(payload)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"environment.name {self.name!r}: {what}() returned what is no JSON ({error}); use "
                "numbers, text, lists and dicts"
            ) from error
        return payload


class OwnEnv:
    """One problem of an `Environment` being played."""

    def __init__(
        self,
        environment: Environment,
        rubric: Rubric,
        payload: Mapping[str, Any],
        asked: Callable[..., Any],
    ) -> None:
        self._environment, self._rubric, self._asked = environment, rubric, asked
        self._state = asked("start", environment.start, deepcopy(dict(payload)))
        self._is_done = self._is_solved = False
        self._newest: ActionOutcome | None = None
        self._newest_by_role: Mapping[str, ActionOutcome] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self._environment.roles)

    @property
    def state(self) -> Any:
        """A copy of the real state."""
        return deepcopy(self._state)

    @property
    def done(self) -> bool:
        return self._is_done

    @property
    def success(self) -> bool:
        return self._is_solved

    def next_agents(self) -> tuple[str, ...]:
        """What `next_role` says. Raises ConfigurationError, with its place, where that names no role."""
        asked = self._asked("next_role", self._environment.next_role, self.state)
        agents = () if asked is None else (asked,) if isinstance(asked, str) else asked
        unknown = (
            [agent for agent in agents if agent not in self.roles] if isinstance(agents, tuple | list) else [asked]
        )
        if unknown:
            raise ConfigurationError(
                f"{place_of(type(self._environment).next_role)}: next_role() returned {shown_value(asked)}, and "
                f"{shown_value(unknown[0])} is no role; {remedy_for(str(unknown[0]), self.roles)}"
            )
        return tuple(agents)

    def observe(self, agent: str) -> Observation:
        found: Observation = self._asked("observe", observation, self._environment, self.state, agent)
        if not isinstance(found.state, str):
            raise ConfigurationError(f"observe() returned {type(found.state).__name__}, not text, for {agent!r}")
        return found

    def calls(self, agent: str, action: str) -> tuple[ToolCall, ...]:
        return ()

    def apply(self, agent: str, action: str) -> ActionOutcome:
        assert agent in self.roles, f"agent {agent!r} is none of {self.roles}"
        try:
            outcome = self._stepped(agent, action)
        except MalformedAction as error:
            outcome = _malformed(str(error))
        self._newest, self._newest_by_role = outcome, {**self._newest_by_role, agent: outcome}
        return outcome

    def _stepped(self, agent: str, action: str) -> ActionOutcome:
        if self._is_done:
            raise MalformedAction("the episode is over")
        refuse_overlong(action)
        if len(action) > self._environment.max_answer_characters:
            raise MalformedAction(
                f"an answer of {len(action)} characters; at most {self._environment.max_answer_characters} are read"
            )
        step = self._asked("step", self._environment.step, self.state, agent, action)
        outcome = self._outcome(step)
        self._state, self._is_done = step.state, outcome.done
        self._is_solved = outcome.solves and outcome.done
        return outcome

    def _outcome(self, step: Any) -> ActionOutcome:
        if not isinstance(step, Step):
            raise ConfigurationError(f"step() returned {type(step).__name__}; return a Step")
        outcome = ActionOutcome(
            team={"solved": float(step.solved), **step.team},
            local=dict(step.local),
            solves=bool(step.solved),
            done=bool(step.solved if step.done is None else step.done),
        )
        for component in (*(f"team.{name}" for name in outcome.team), *(f"local.{name}" for name in outcome.local)):
            if component not in self._rubric.weights:
                raise ConfigurationError(
                    f"step() gives the component {component}, which has no weight; name one in `weights` of the environment"
                )
        return outcome

    def snapshot(self) -> Snapshot:
        """The state itself: nothing changes it, because own code only ever gets copies."""
        return self._state, self._is_done, self._is_solved, self._newest, self._newest_by_role

    def restore(self, snapshot: Snapshot) -> None:
        self._state, self._is_done, self._is_solved, self._newest, self._newest_by_role = snapshot

    @property
    def team_reward(self) -> float:
        return 0.0 if self._newest is None else self._rubric.team(self._newest)

    def local_reward(self, agent: str) -> float:
        newest = self._newest_by_role.get(agent)
        return 0.0 if newest is None else self._rubric.local(newest)

    def render(self, *, color: bool) -> str:
        picture: str = self._asked("render", self._environment.render, self.state)
        return picture


def _malformed(why: str) -> ActionOutcome:
    return ActionOutcome(
        team={"solved": 0.0}, local={"malformed": 1.0}, solves=False, done=False, error=why or "malformed"
    )


def _own(env: MultiAgentEnv) -> OwnEnv:
    assert isinstance(env, OwnEnv), f"{env!r} was not built by this family"
    return env


def _kind(letter: str) -> str:
    """Digits, letters, and each other character by itself."""
    return "digit" if letter.isdigit() else "letter" if letter.isalpha() else letter
