"""The family of a user-defined `Environment`. Errors in its code become one line with file and line."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple, TypeVar

from components.environments.base import Answers, MultiAgentEnv, Step, Tools
from components.environments.environment import Environment
from components.environments.family import DrawnFamily
from components.environments.shared.answer_extraction import reasoning_instructions
from components.errors import ConfigurationError, MalformedAction
from components.escaping import shown_value
from components.frozen import Frozen
from components.identity import canonical_json, content_id
from components.schema import Observation
from components.suggestions import suggest
from components.turn_order import BRANCHING, TurnOrder
from components.user_code import source_location, user_code_error

T = TypeVar("T")
DEFAULT_WEIGHTS: Mapping[str, float] = {"team.solved": 1.0, "local.malformed": -0.1}


class _Place(NamedTuple):
    """The user's state, and whether the newest step ended or solved the episode."""

    value: Any
    is_done: bool = False
    is_solved: bool = False


class OwnEnv(MultiAgentEnv):
    """One problem of an `Environment` being played. The user's code only gets copies of the state."""

    _state: _Place

    def __init__(self, family: "OwnFamily", payload: Mapping[str, Any]) -> None:
        self._environment, self._asked = family.environment, family.asked
        self.roles, self.weights = family.roles, family.default_weights
        super().__init__(_Place(self._asked("start", self._environment.start, deepcopy(dict(payload)))))

    @property
    def state(self) -> Any:
        """A copy of the current state."""
        return deepcopy(self._state.value)

    @property
    def done(self) -> bool:
        return self._state.is_done

    @property
    def success(self) -> bool:
        return self._state.is_solved

    def next_agents(self) -> tuple[str, ...]:
        """The roles from `next_role`. Raises ConfigurationError, with its place, for an unknown role."""
        asked = self._asked("next_role", self._environment.next_role, self.state)
        agents = () if asked is None else (asked,) if isinstance(asked, str) else asked
        unknown = (
            [agent for agent in agents if agent not in self.roles] if isinstance(agents, tuple | list) else [asked]
        )
        if unknown:
            raise ConfigurationError(
                f"{source_location(type(self._environment).next_role)}: next_role() returned {shown_value(asked)}, and "
                f"{shown_value(unknown[0])} is no role; {suggest(str(unknown[0]), self.roles)}"
            )
        return tuple(agents)

    def observe(self, agent: str) -> Observation:
        text: Any = self._asked("observe", self._environment.observe, self.state, agent)
        if not isinstance(text, str):
            raise ConfigurationError(f"observe() returned {type(text).__name__}, not text, for {agent!r}")
        told = self._asked("instructions", self._environment.instructions, agent)
        if self.answers == "reasoned":
            told = reasoning_instructions(told, self._environment.answer_ending)
        return Observation(instructions=told, state=text)

    def final_answer(self, agent: str, text: str) -> str:
        found: Any = self._asked("final_answer", self._environment.final_answer, agent, text)
        if not isinstance(found, str):
            raise ConfigurationError(f"final_answer() returned {type(found).__name__}, not text, for {agent!r}")
        return found

    def step(self, agent: str, answer: str) -> Step:
        longest = self._environment.max_answer_characters
        if len(answer) > longest:
            raise MalformedAction(f"an answer of {len(answer)} characters; at most {longest} are read")
        step: Any = self._asked("step", self._environment.step, self.state, agent, answer)
        if not isinstance(step, Step):
            raise ConfigurationError(f"step() returned {type(step).__name__}; return a Step")
        named = (
            *(f"team.{name}" for name in {**step.team, **step.team_from_start}),
            *(f"local.{name}" for name in step.local),
        )
        for component in named:
            if component not in self.weights:
                raise ConfigurationError(
                    f"step() gives the component {component}, which has no weight; name one in `weights` of the environment"
                )
        solved = bool(step.solved)
        done = bool(solved if step.done is None else step.done)
        place = _Place(step.state, is_done=done, is_solved=solved and done)
        return replace(step, state=place, solved=solved, done=done, local=dict(step.local))

    def render(self, *, color: bool) -> str:
        picture: str = self._asked("render", self._environment.render, self.state)
        return picture


class OwnFamily(DrawnFamily[Frozen, OwnEnv]):
    """The `EnvironmentFamily` of an `Environment`."""

    env_type = OwnEnv
    remedy = "a fifth of all different problems is for tests, so let draw() make more different ones"

    def __init__(self, name: str, environment: Environment, answers: Answers = "compact") -> None:
        super().__init__(answers)
        self.name = name
        self.environment = environment
        self.options_type = environment.Options

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.environment.roles)

    @property
    def turn_order(self) -> TurnOrder:
        """The environment's own turn order."""
        if type(self.environment).next_role is not Environment.next_role:
            return BRANCHING
        return tuple(self.environment.turn_order) or self.roles

    @property
    def default_weights(self) -> Mapping[str, float]:
        return {**DEFAULT_WEIGHTS, **self.environment.weights}

    def alphabet(self, options: Frozen) -> str:
        return self.environment.alphabet

    def max_action_characters(self, options: Frozen) -> int:
        return self.environment.max_answer_characters

    def draw(self, options: Frozen, rng: Random) -> Mapping[str, Any]:
        return self._checked("draw", dict(self.asked("draw", self.environment.draw, options, rng)))

    def deciding(self, drawn: Mapping[str, Any]) -> Mapping[str, Any]:
        deciding: Any = self.asked("deciding", self.environment.deciding, deepcopy(drawn))
        return self._checked("deciding", {"deciding": deciding})

    def problem_id(self, payload: Mapping[str, Any]) -> str:
        return content_id("own", payload)

    def play(self, payload: Mapping[str, Any], tools: Tools) -> OwnEnv:
        return OwnEnv(self, payload)

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """Random characters of the alphabet."""
        return "".join(rng.choices(self.environment.alphabet, k=rng.randint(1, 8)))

    def asked(self, what: str, ask: Callable[..., T], *arguments: Any) -> T:
        """The result of user code. Raises ConfigurationError with the file and line where it failed."""
        try:
            return ask(*arguments)
        except (MalformedAction, ConfigurationError):
            raise
        except Exception as error:  # the border to user code, which may raise anything
            raise user_code_error(f"environment.name {self.name!r}, {what}()", error) from error

    def _checked(self, what: str, value: dict[str, Any]) -> dict[str, Any]:
        try:
            canonical_json(value)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"environment.name {self.name!r}: {what}() returned a value that is no JSON ({error}); use "
                "numbers, text, lists and dicts"
            ) from error
        return value


class OwnDemonstrator(OwnFamily):
    """The `Demonstrator` of an `Environment` that has an expert."""

    copies_proposals = False

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        return self.asked("expert", self.environment.expert, self.played(env, agent).state, agent)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The expert's answer; with probability `noise` one of its characters is replaced by a random one of its kind."""
        answer = self.expert_action(env, agent)
        if not answer or rng.random() >= noise:
            return answer
        place = rng.randrange(len(answer))
        like = [letter for letter in self.environment.alphabet if _kind(letter) == _kind(answer[place])]
        return answer[:place] + rng.choice(like or [answer[place]]) + answer[place + 1 :]

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """Random characters of the same kinds as those of the expert's answer."""
        answer = self.expert_action(env, agent)
        kinds = set(map(_kind, answer))
        letters = [letter for letter in self.environment.alphabet if _kind(letter) in kinds]
        return "".join(rng.choices(letters, k=len(answer))) if letters else ""

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Leave the episode at its start."""


def own_family(name: str, environment: Environment, answers: Answers = "compact") -> OwnFamily:
    """The family of an environment, which reads answers as `answers` says; a `Demonstrator` if it has an expert."""
    has_expert = type(environment).expert is not Environment.expert
    return (OwnDemonstrator if has_expert else OwnFamily)(name, environment, answers)


def _kind(letter: str) -> str:
    """The class of a character: digit, letter, or the character itself."""
    return "digit" if letter.isdigit() else "letter" if letter.isalpha() else letter
