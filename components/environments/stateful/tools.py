"""Tools that an agent calls with JSON: declared, their arguments checked, every failure an answer with a type.

A call is an object `{"tool": name, ...arguments}`. Tools are pure: a state and arguments in, a new state and a value out.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from components.environments.shared.json_text import parse_json, unfenced
from components.environments.shared.text import shown
from components.errors import MalformedAction

State = TypeVar("State")
Call = Mapping[str, Any]
Kind = Literal["integer", "text", "texts"]
ErrorType = Literal[
    "unknown_tool",
    "unknown_argument",
    "missing_argument",
    "bad_type",
    "bad_value",
    "not_found",
    "conflict",
    "out_of_stock",
    "insufficient_funds",
    "permission",
]
"""The first four and `bad_value` say that the call itself is wrong, the others that the world does not allow it."""

MAX_TEXT_CHARACTERS = 40
MAX_TEXTS = 8
_MAX_SPACING = 4
"""An answer may be this many times as long as its longest compact form: people and models indent."""
_MAX_DEPTH = 3
"""A list of calls whose arguments may be lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A call that changed nothing, and why."""

    type: ErrorType
    message: str

    @property
    def answer(self) -> str:
        """As JSON."""
        return compact_json({"error": {"type": self.type, "message": self.message}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[State]):
    """A call that was carried out: the state after it and the value that it answers, plain JSON."""

    state: State
    value: Any = "ok"

    @property
    def answer(self) -> str:
        """As JSON."""
        return compact_json(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument. Integers lie in [low, high], texts are short and not empty."""

    kind: Kind
    required: bool = True
    low: int = 1
    high: int = 99

    def fault(self, value: Any) -> tuple[ErrorType, str] | None:
        """What is wrong with `value`, if anything. True and False are no integers."""
        entries = value if self.kind == "texts" and isinstance(value, list) else [value]
        entry_type = int if self.kind == "integer" else str
        if (self.kind == "texts") != isinstance(value, list) or not all(type(entry) is entry_type for entry in entries):
            return "bad_type", f"must be {self.meaning}"
        if self.kind == "integer":
            return None if self.low <= value <= self.high else ("bad_value", f"must be {self.meaning}")
        fits = 0 < len(entries) <= MAX_TEXTS and all(0 < len(entry) <= MAX_TEXT_CHARACTERS for entry in entries)
        return None if fits else ("bad_value", "is empty or too long")

    @property
    def meaning(self) -> str:
        """The kind in words."""
        return {"integer": f"an integer {self.low}..{self.high}", "text": "text", "texts": "a list of texts"}[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[State]):
    """One tool. `act` gets arguments that passed their checks, and may refuse all the same."""

    name: str
    summary: str
    act: "Act[State]"
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """One line for the instructions.

        **Example** `add(offer: text, count: an integer 1..9): puts units into the cart`.
        """
        arguments = ", ".join(
            f"{name}{'' if argument.required else '?'}: {argument.meaning}" for name, argument in self.arguments.items()
        )
        return f"{self.name}({arguments}): {self.summary}"


Act = Callable[[State, Mapping[str, Any]], Done[State] | Refusal]


def declared(tools: Iterable[tuple[str, str, Act[State], Mapping[str, Argument]]]) -> dict[str, Tool[State]]:
    """Tools by name, each from its name, summary, action and arguments."""
    return {
        name: Tool(name=name, summary=summary, act=act, arguments=arguments) for name, summary, act, arguments in tools
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[State]):
    """What a list of calls did: the state after it, the answers so far, and the refusal that ended it, if one did."""

    state: State
    answers: tuple[str, ...]
    refusal: Refusal | None


def call_tool(tools: Mapping[str, Tool[State]], state: State, call: Call) -> Done[State] | Refusal:
    """What one call does in `state`. Never raises on what is in the call."""
    tool = tools.get(call["tool"])
    if tool is None:
        return Refusal(type="unknown_tool", message=f"no tool {shown(call['tool'])}; tools: {', '.join(tools)}")
    given = {name: value for name, value in call.items() if name != "tool"}
    for name in given:
        if name not in tool.arguments:
            return Refusal(type="unknown_argument", message=f"{tool.name} has no argument {shown(name)}")
    for name, argument in tool.arguments.items():
        if name not in given:
            if argument.required:
                return Refusal(type="missing_argument", message=f"{tool.name} needs {name}")
        elif fault := argument.fault(given[name]):
            return Refusal(type=fault[0], message=f"{name} {fault[1]}")
    return tool.act(state, given)


def run_calls(tools: Mapping[str, Tool[State]], state: State, calls: Sequence[Call]) -> Run[State]:
    """The calls one after the other, up to the first that is refused; those behind it are not made."""
    answers = []
    for call in calls:
        result = call_tool(tools, state, call)
        answers.append(result.answer)
        if isinstance(result, Refusal):
            return Run(state=state, answers=tuple(answers), refusal=result)
        state = result.state
    return Run(state=state, answers=tuple(answers), refusal=None)


def parse_calls(text: str, *, max_calls: int, max_characters: int) -> list[Call]:
    """The calls of an answer: a JSON list of objects, or one object. An empty list is an answer too.

    `max_characters` is the length of the longest compact answer; spaces and line feeds may stretch it. Raises
    MalformedAction on anything else, and on more than `max_calls`. Names and arguments are not looked at.

    **Example** `'[{"tool": "pay"}]'` is `[{"tool": "pay"}]`.
    """
    longest = _MAX_SPACING * max_characters
    if len(text) > longest:
        raise MalformedAction(f"{len(text)} characters; at most {longest} are allowed")
    value = parse_json(unfenced(text).strip(), max_characters=longest, max_depth=_MAX_DEPTH)
    calls = [value] if isinstance(value, dict) else value
    if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
        raise MalformedAction(f"{shown(text)} is not a list of objects with a tool")
    if len(calls) > max_calls:
        raise MalformedAction(f"{len(calls)} calls; at most {max_calls} are allowed")
    return calls


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("tool"), str)


def calls_text(calls: Sequence[Call]) -> str:
    """The calls as a compact answer."""
    return compact_json([dict(call) for call in calls])


def compact_json(value: Any) -> str:
    """`value` as JSON in ASCII without spaces."""
    return json.dumps(value, separators=(",", ":"))
