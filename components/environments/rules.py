"""An `Environment` as it is called: with states of its own, and with what it returns checked."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

from components.environments.base import MAX_ANSWER_CHARACTERS, AnswerFormat, JointStep, Step, ToolCall, Tools
from components.environments.environment import Environment, ToolEnvironment, has_joint_step, has_single_step
from components.environments.program import AgentProgram, ProgramEnvironment
from components.environments.returned_values import (
    find_calls_fault,
    find_choices_fault,
    find_joint_step_fault,
    find_program_fault,
    find_step_fault,
    find_text_fault,
)
from components.environments.shared.answer_extraction import reasoning_instructions
from components.environments.shared.text import quote_start
from components.errors import ConfigurationError, MalformedAction, TroupeError
from components.schema import Observation, Problem, ProgramEnd
from components.text.escaping import show_value
from components.text.suggestions import suggest
from components.text.think_tags import without_thinking
from components.user_code import source_location, user_code_error

T = TypeVar("T")
_NUM_NAMED = 8
"""So many choices are named to whoever missed them."""
DEFAULT_WEIGHTS: Mapping[str, float] = {"team.solved": 1.0, "local.malformed": -0.1}
_OWN_WEIGHTS: Mapping[str, float] = {**DEFAULT_WEIGHTS, "local.payoff": 1.0}
"""Of a user's environment, which may pay its agents without naming a weight."""


class TurnRules:
    """The rules of an environment under its `name`, for answers that are read as `answer_format` says.

    `roles` are those of the options that it is played under, by default the environment's own.
    A user's code only gets copies of a state, and an error in it becomes one line with file and line. `is_custom`: whether the
    environment is a user's.
    """

    def __init__(
        self,
        name: str,
        environment: Environment,
        answer_format: AnswerFormat = "strict",
        *,
        is_custom: bool,
        roles: tuple[str, ...] | None = None,
    ) -> None:
        self.name, self.environment, self.answer_format, self.is_custom = name, environment, answer_format, is_custom
        self.roles = tuple(environment.roles) if roles is None else roles

    @property
    def weights(self) -> Mapping[str, float]:
        """The reward weights of all components."""
        own = self.environment.weights
        if self.is_custom:
            return {**_OWN_WEIGHTS, **own}
        return own if DEFAULT_WEIGHTS.keys() <= own.keys() else {**DEFAULT_WEIGHTS, **own}

    def acts_together(self, agents: Sequence[str]) -> bool:
        """Whether these agents of a phase act by one joint step."""
        kind = type(self.environment)
        return has_joint_step(kind) and (len(agents) > 1 or not has_single_step(kind))

    def start(self, payload: Mapping[str, Any]) -> Any:
        """The initial state of a problem."""
        return self.call("start", self.environment.start, self.copy_state(payload))

    def next_agents(self, state: Any) -> tuple[str, ...]:
        """The roles from `next_role`. Raises ConfigurationError, with its place, for an unknown role."""
        chosen = self.call("next_role", self.environment.next_role, self.copy_state(state))
        agents = () if chosen is None else (chosen,) if isinstance(chosen, str) else chosen
        unknown = (
            [agent for agent in agents if agent not in self.roles] if isinstance(agents, tuple | list) else [chosen]
        )
        if unknown:
            raise ConfigurationError(
                f"{source_location(type(self.environment).next_role)}: next_role() returned {show_value(chosen)}, and "
                f"{show_value(unknown[0])} is no role; {suggest(str(unknown[0]), self.roles)}"
            )
        return tuple(agents)

    def observe(self, state: Any, agent: str) -> Observation:
        """What `agent` sees of `state`, and its instructions."""
        text = self.text("observe", self.environment.observe, state, agent)
        told = self.instructions(state, agent)
        if self.answer_format == "free":
            told = reasoning_instructions(told, self.text("ending", self.environment.ending, state, agent))
        return Observation(instructions=told, state=text)

    def instructions(self, state: Any, agent: str) -> str:
        """The environment's own instructions for `agent`; empty if it has none."""
        return self.text("instructions", self.environment.instructions, state, agent)

    def choices(self, state: Any, agent: str) -> tuple[str, ...] | None:
        """All well-formed answers of `agent`; None for free text. Raises ConfigurationError for what is no list of them."""
        told = self.call("choices", self.environment.choices, self.copy_state(state), agent)
        if told is None:
            return None
        self.refuse("choices", find_choices_fault(told, agent))
        return tuple(told)

    def read(self, state: Any, agent: str, text: str) -> str:
        """The answer in a text without its thinking; of a text that reasons first, its end. Where there are `choices` it is one
        of them, as written there. Raises MalformedAction."""
        if len(text) > MAX_ANSWER_CHARACTERS:
            raise MalformedAction(f"an answer of {len(text)} characters; at most {MAX_ANSWER_CHARACTERS} are read")
        text = without_thinking(text)
        answer = self.final_answer(state, agent, text) if self.answer_format == "free" else text
        if type(self.environment).choices is Environment.choices:
            return answer
        choices = self.choices(state, agent)
        return answer if choices is None else _one_of(choices, answer)

    def final_answer(self, state: Any, agent: str, text: str) -> str:
        """The answer in a text that may reason first. Raises MalformedAction."""
        return self.text("final_answer", self.environment.final_answer, state, agent, text)

    def tool_calls(self, state: Any, agent: str, answer: str) -> tuple[ToolCall, ...]:
        """The calls of `answer` that are known beforehand. Raises MalformedAction."""
        if not isinstance(self.environment, ToolEnvironment):
            return ()
        self.check(answer)
        calls = self.call("tool_calls", self.environment.tool_calls, self.copy_state(state), agent, answer)
        listed = self.call("tool_calls", lambda: list(calls))
        self.refuse("tool_calls", find_calls_fault(listed))
        return tuple(listed)

    def step(self, state: Any, agent: str, answer: str, tools: Tools) -> Step:
        """The result of `answer`. Raises MalformedAction, or ExecutionFailed if a tool failed."""
        self.check(answer)
        environment = self.environment
        if isinstance(environment, ToolEnvironment):
            step = self.call("step", environment.step, self.copy_state(state), agent, answer, tools)
        else:
            step = self.call("step", environment.step, self.copy_state(state), agent, answer)
        return self._check_step("step", step)

    def program(self, problem: Problem) -> AgentProgram | None:
        """The program that plays a problem; None if agents answer it without one."""
        if not isinstance(self.environment, ProgramEnvironment):
            return None
        program = self.call("program", self.environment.program, self.copy_state(problem.payload))
        self.refuse("program", find_program_fault(program, self.roles))
        return program

    def finish(self, state: Any, end: ProgramEnd, tools: Tools) -> Step | None:
        """What the end of a program decides; None if the last answer did. Raises ExecutionFailed if a tool failed."""
        assert isinstance(self.environment, ProgramEnvironment), f"{self.name} is played by no program"
        extra = (tools,) if isinstance(self.environment, ToolEnvironment) else ()
        step = self.call("finish", self.environment.finish, self.copy_state(state), end, *extra)
        return None if step is None else self._check_step("finish", step)

    def step_together(self, state: Any, answers: Mapping[str, str | None], tools: Tools) -> JointStep:
        """The result of answers at once. Raises ExecutionFailed if a tool failed."""
        extra = (tools,) if isinstance(self.environment, ToolEnvironment) else ()
        step = self.call("step_together", self.environment.step_together, self.copy_state(state), answers, *extra)
        self.refuse("step_together", find_joint_step_fault(step))
        if unknown := step.local.keys() - answers.keys():
            self.refuse("step_together", f": local names {sorted(unknown)}, but {sorted(answers)} acted")
        self._check_payoffs("step_together", step)
        local = (f"local.{name}" for components in step.local.values() for name in components)
        self._check_weights("step_together", (*(f"team.{name}" for name in step.team), *local))
        solved = bool(step.solved)
        local_of_agents = {agent: _as_numbers(values) for agent, values in step.local.items()}
        numbers = {"team": _as_numbers(step.team), "payoffs": _as_numbers(step.payoffs)}
        done = solved if step.done is None else bool(step.done)
        return replace(step, solved=solved, done=done, local=local_of_agents, **numbers)

    def check(self, answer: str) -> None:
        """Raise MalformedAction for an answer that is too long, or that no program can hold."""
        longest = self.environment.max_answer_characters
        if longest is not None and len(answer) > longest:
            raise MalformedAction(f"an answer of {len(answer)} characters; at most {longest} are read")
        if self.is_custom and not _is_text(answer):
            raise MalformedAction("half a character, which is not text")

    def after_malformed(self, state: Any, agent: str, error: MalformedAction) -> Step:
        """The result of a malformed answer."""
        step = self.call("after_malformed", self.environment.after_malformed, self.copy_state(state), agent, error)
        return self._check_step("after_malformed", step)

    def picture(self, state: Any, *, color: bool) -> str:
        """A state for people."""
        return self.text("render", lambda own: self.environment.picture(own, color=color), state)

    def copy_state(self, state: T) -> T:
        """A state that the environment may change. Raises ConfigurationError for one that cannot be copied."""
        if self.environment.states_are_immutable:
            return state
        try:
            return deepcopy(state)
        except Exception as error:  # the border to user code: a state may hold anything
            if not self.is_custom:
                raise
            raise ConfigurationError(
                f"environment.name {self.name!r}: a state cannot be copied ({type(error).__name__}: {error}); keep plain "
                "values in it"
            ) from error

    def call(self, what: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result of the environment's own function. Raises ConfigurationError with file and line where a user's fails."""
        if not self.is_custom:
            return function(*arguments)
        try:
            return function(*arguments)
        except TroupeError:
            raise
        except Exception as error:  # the border to user code, which may raise anything
            raise user_code_error(f"environment.name {self.name!r}, {what}()", error) from error

    def refuse(self, what: str, fault: str | None, *, about: str = "") -> None:
        """Raise ConfigurationError, with the file and line of the function `what`, if its value has a fault."""
        if fault is not None:
            place = source_location(getattr(type(self.environment), what))
            raise ConfigurationError(f"environment.name {self.name!r}, {place}: {what}(){fault}{about}")

    def text(self, what: str, function: Callable[..., Any], state: Any, *arguments: Any) -> str:
        """The text that the environment's own function gives."""
        text = self.call(what, function, self.copy_state(state), *arguments)
        self.refuse(what, find_text_fault(text), about=f", for {arguments[0]!r}" if arguments else "")
        return str(text)

    def _check_weights(self, what: str, components: Sequence[str]) -> None:
        weights = self.weights
        for component in components:
            if component not in weights:
                fault = (
                    f" gives the component {component}, which has no weight; name one in `weights` of the environment"
                )
                self.refuse(what, fault)

    def _check_payoffs(self, what: str, step: Step | JointStep) -> None:
        for agent in step.payoffs:
            if agent not in self.roles:
                self.refuse(what, f": payoffs name {agent!r}, which is no role; {suggest(agent, self.roles)}")

    def _check_step(self, what: str, step: Any) -> Step:
        """`step` with its end decided. Raises ConfigurationError for what is no step, and a component without a weight."""
        self.refuse(what, find_step_fault(step))
        self._check_payoffs(what, step)
        self._check_weights(what, _components(step))
        solved = bool(step.solved)
        done = solved if step.done is None else bool(step.done)
        success = solved and done if step.success is None else bool(step.success)
        numbers = {name: _as_numbers(getattr(step, name)) for name in ("local", "team", "team_from_start", "payoffs")}
        found: Step = replace(step, solved=solved, done=done, success=success, **numbers)
        return found


def _as_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` as records hold them: true and false, and numbers of numpy, are numbers of Python."""
    return {name: value if type(value) in (int, float) else float(value) for name, value in values.items()}


def _one_of(choices: Sequence[str], answer: str) -> str:
    """The choice that `answer` is but for space around it, or else but for case. Raises MalformedAction."""
    if answer in choices:
        return answer
    bare = answer.strip()
    found = [choice for choice in choices if choice.strip() == bare] or [
        choice for choice in choices if choice.strip().casefold() == bare.casefold()
    ]
    if len(found) != 1:
        more = f" and {len(choices) - _NUM_NAMED} more" if len(choices) > _NUM_NAMED else ""
        raise MalformedAction(f"{quote_start(answer)} is none of {', '.join(choices[:_NUM_NAMED])}{more}")
    return found[0]


def _is_text(answer: str) -> bool:
    """Whether an answer can be written as UTF-8: no surrogate stands alone."""
    return not any("\ud800" <= character <= "\udfff" for character in answer)


def _components(step: Step) -> Sequence[str]:
    return (
        *(f"team.{name}" for name in step.team),
        *(f"team.{name}" for name in step.team_from_start),
        *(f"local.{name}" for name in step.local),
    )
