"""Tools that an agent calls with JSON. A call is an object `{"tool": name, ...arguments}`; every failure has a type.

Tools are pure: a state and arguments in, a new state and a value out.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from components.environments.shared.answer_extraction import Candidate, last_meant
from components.environments.shared.denials import joint
from components.environments.shared.json_text import parse_json, strip_fence
from components.environments.shared.text import quote_start
from components.errors import MalformedAction

State = TypeVar("State")
Call = Mapping[str, Any]
Given = Mapping[str, Any]
"""The arguments of a call."""
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
"""The first four and `bad_value`: the call itself is wrong. The others: the world does not allow it."""

MAX_TEXT_CHARACTERS = 40
MAX_TEXTS = 8
_MAX_SPACING = 4
"""How many times as long as its longest compact form an answer may be: people and models indent."""
CALLS_ENDING = "the last JSON list of calls."
"""How answers that reason first end, for the instructions."""
_TEXT = r'"(?:[^"\\\n]|\\.)*+"'
_PLAIN = rf'{_TEXT}|[^{{}}"\[\]\\]'
_CALL = rf"\{{(?!\s*+[\[{{])(?:{_PLAIN}|\[(?:{_PLAIN})*+\]|\{{(?:{_PLAIN})*+\}})*+\}}"
_CALLS = re.compile(rf"(?P<list>\[\s*+(?:{_CALL}[\s,]*+)*+\])|{_CALL}")
"""A list of objects, or an object alone, as deep as calls are."""
_MAX_CANDIDATES = 4096
"""Lists and objects of a text that are looked at, the last ones."""
_MARKED = re.compile(r"\s{0,9}\[TOOL_CALLS\]\s{0,9}")
"""The mark of Mistral's models before each call, or each list."""
_NAMES_TOOL = re.compile(r"\{\s*+[\"']?tool\b")
_MAX_DEPTH = 3
"""A list of calls whose arguments may be lists."""


@dataclass(frozen=True, kw_only=True)
class Refusal(Exception):
    """Why a call changed nothing. A tool raises it."""

    type: ErrorType
    message: str

    @property
    def answer(self) -> str:
        return compact_json({"error": {"type": self.type, "message": self.message}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[State]):
    """A completed call: the state after it and its return value, plain JSON."""

    state: State
    value: Any = "ok"

    @property
    def answer(self) -> str:
        return compact_json(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument. Integers lie in [low, high]; texts are short and not empty."""

    kind: Kind
    required: bool = True
    low: int = 1
    high: int = 99

    def check(self, name: str, value: Any) -> None:
        """Raise Refusal if `value` is of another type or out of bounds. True and False are not integers."""
        entries = value if self.kind == "texts" and isinstance(value, list) else [value]
        entry_type = int if self.kind == "integer" else str
        if (self.kind == "texts") != isinstance(value, list) or not all(type(entry) is entry_type for entry in entries):
            raise Refusal(type="bad_type", message=f"{name} must be {self.meaning}")
        if self.kind == "integer":
            if not self.low <= value <= self.high:
                raise Refusal(type="bad_value", message=f"{name} must be {self.meaning}")
        elif not (0 < len(entries) <= MAX_TEXTS and all(0 < len(entry) <= MAX_TEXT_CHARACTERS for entry in entries)):
            raise Refusal(type="bad_value", message=f"{name} is empty or too long")

    @property
    def meaning(self) -> str:
        return {"integer": f"an integer {self.low}..{self.high}", "text": "text", "texts": "a list of texts"}[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[State]):
    """One tool. `act` gets checked arguments, and may still raise Refusal."""

    name: str
    summary: str
    act: "Act[State]"
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """**Example** `add(offer: text, count: an integer 1..9): puts units into the cart`."""
        arguments = ", ".join(
            f"{name}{'' if argument.required else '?'}: {argument.meaning}" for name, argument in self.arguments.items()
        )
        return f"{self.name}({arguments}): {self.summary}"


Act = Callable[[State, Given], Done[State]]


def declare_tools(tools: Iterable[tuple[str, str, Act[State], Mapping[str, Argument]]]) -> dict[str, Tool[State]]:
    """Tools by name, from rows of name, summary, action and arguments."""
    return {
        name: Tool(name=name, summary=summary, act=act, arguments=arguments) for name, summary, act, arguments in tools
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[State]):
    """The state after a list of calls, their answers, and the refusal that ended the list, if any."""

    state: State
    answers: tuple[str, ...]
    refusal: Refusal | None


def call_tool(tools: Mapping[str, Tool[State]], state: State, call: Call) -> Done[State] | Refusal:
    """The result of one call in `state`. Never raises because of the contents of the call."""
    try:
        return _call(tools, state, call)
    except Refusal as refusal:
        return refusal


def _call(tools: Mapping[str, Tool[State]], state: State, call: Call) -> Done[State]:
    tool = tools.get(call["tool"])
    if tool is None:
        raise Refusal(type="unknown_tool", message=f"no tool {quote_start(call['tool'])}; tools: {', '.join(tools)}")
    given = {name: value for name, value in call.items() if name != "tool"}
    for name in given:
        if name not in tool.arguments:
            raise Refusal(type="unknown_argument", message=f"{tool.name} has no argument {quote_start(name)}")
    for name, argument in tool.arguments.items():
        if name in given:
            argument.check(name, given[name])
        elif argument.required:
            raise Refusal(type="missing_argument", message=f"{tool.name} needs {name}")
    return tool.act(state, given)


def run_calls(tools: Mapping[str, Tool[State]], state: State, calls: Sequence[Call]) -> Run[State]:
    """Make the calls in order, up to the first that is refused."""
    answers = []
    for call in calls:
        result = call_tool(tools, state, call)
        answers.append(result.answer)
        if isinstance(result, Refusal):
            return Run(state=state, answers=tuple(answers), refusal=result)
        state = result.state
    return Run(state=state, answers=tuple(answers), refusal=None)


def parse_calls(text: str, *, max_calls: int, max_characters: int) -> list[Call]:
    """The calls of an answer: a JSON list of objects, possibly empty, or one object; names and arguments are not checked.

    `max_characters` is the length of the longest compact answer; whitespace may stretch it. Raises MalformedAction on anything
    else, and on more than `max_calls`.
    """
    longest = _MAX_SPACING * max_characters
    if len(text) > longest:
        raise MalformedAction(f"{len(text)} characters; at most {longest} are allowed")
    value = parse_json(strip_fence(text).strip(), max_characters=longest, max_depth=_MAX_DEPTH)
    calls = [value] if isinstance(value, dict) else value
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and isinstance(call.get("tool"), str) for call in calls
    ):
        raise MalformedAction(f"{quote_start(text)} is not a list of objects with a tool")
    if len(calls) > max_calls:
        raise MalformedAction(f"{len(calls)} calls; at most {max_calls} are allowed")
    return calls


def calls_text(calls: Sequence[Call]) -> str:
    """`calls` as an answer."""
    return compact_json([dict(call) for call in calls])


def compact_json(value: Any) -> str:
    """`value` as JSON in ASCII without spaces."""
    return json.dumps(value, separators=(",", ":"))


def final_calls(text: str) -> str:
    """The last JSON list of calls in `text`, or the last calls one after another; `text` itself without any, or if the list is
    cut off. Raises MalformedAction if the text says that the calls are not meant.

    **Example** `'First pay: {"tool":"pay"}\\nNo:\\n```json\\n[]\\n```'` is `"[]"`.
    """
    found = list[Candidate]()
    for each in deque(_CALLS.finditer(text), maxlen=_MAX_CANDIDATES):
        is_call = each["list"] is None
        between = text[found[-1].end : each.start()] if found else ""
        if (found and _MARKED.fullmatch(between)) or (
            is_call and found and found[-1].is_loose and joint(between) in ("marks", "count")
        ):
            found[-1] = found[-1]._replace(end=each.end())
        elif not is_call or _NAMES_TOOL.match(each[0]):
            found.append(Candidate(each[0], *each.span(), is_loose=is_call))
    last = last_meant(text, found)
    if last is None or _NAMES_TOOL.search(text, last.end) or text[: last.start].rstrip().endswith("},"):
        return text
    listed = list(_CALLS.finditer(text, last.start, last.end))
    if len(listed) == 1:
        return listed[0][0]
    calls = [each[0] if each["list"] is None else each[0][1:-1].strip() for each in listed]
    return f"[{','.join(filter(None, calls))}]"
