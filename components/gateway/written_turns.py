"""What a chat template writes of a conversation, as pieces: what is the template's, and what are texts of messages.

A new turn is what the template writes of it after a dummy conversation. No turn is written twice: a model is trained on what it
has read.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from jinja2 import TemplateError

from components.errors import ConfigurationError
from components.gateway.base import AgentToolCall, Message, RequestRefused, Tool
from components.gateway.call_syntax import ARGUMENTS, NAME, CallSyntax, JsonSyntax
from components.gateway.conversation import fold_messages, read_arguments, show_tool, spell_tools
from components.gateway.field_syntax import Call, FieldSyntax

_MARK = re.compile(r"text-number-(\d+)-stands-here")
_QUESTION, _ANSWER, _VALUE = "question-of-a-user", "answer-of-a-model", "value-of-an-argument"
_SYSTEM, _RESULT = "instructions-of-a-system", "result-of-a-tool"
_CALL = AgentToolCall(call_id="0", name=NAME, arguments=json.dumps(ARGUMENTS))
_TOOL = Tool(name=NAME, description="Tool.", parameters={"type": "object", "properties": {}})
_FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ConfigurationError)
"""What a template raises for messages that it does not take."""


class Template(Protocol):
    """A model's chat template."""

    @property
    def special_texts(self) -> Collection[str]:
        """The special tokens as they are spelled."""
        ...

    def render_turns(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None, opens_answer: bool
    ) -> str:
        """What it writes, up to where an answer begins if `opens_answer`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Part of a prompt. Special tokens are special in what `is_template`, the rest is plain text."""

    text: str
    is_template: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWriter:
    """Writes turns by one template. `syntax` None: it knows no tools, or writes calls in a form that is not read; tools, calls
    and results are then written as text. `closing` is the special token with which it ends an answer, `call_closing` one with
    calls.

    **Example** ChatML: `closing` is "<|im_end|>".
    """

    template: Template
    syntax: CallSyntax | None
    has_system: bool
    closing: str
    call_closing: str

    @classmethod
    def under(cls, template: Template) -> "TurnWriter":
        """That of a template. Raises ConfigurationError for one that cannot be continued turn by turn."""
        try:
            turns = _write(template, [_user(_QUESTION), _assistant(_ANSWER), _user(_QUESTION)])
        except _FAILURES as error:
            raise _unusable(f"fails with a question, an answer and a question ({error})") from error
        _, found, after = turns.partition(_ANSWER)
        if not found or _QUESTION not in after:
            raise _unusable("leaves out an answer, or what follows it")
        closing = next((text for text in _longest_first(template) if after.lstrip().startswith(text)), "")
        if not closing:
            raise _unusable("ends an answer with no special token, so the end of a turn cannot be found")
        syntax, call_closing = _find_syntax(template, closing) or (None, closing)
        return cls(
            template=template,
            syntax=syntax,
            has_system=_shows(template, [_system(_SYSTEM), _user(_QUESTION)], _SYSTEM, _QUESTION),
            closing=closing,
            call_closing=call_closing,
        )

    def write(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[Piece]:
        """The prompt of a conversation, up to where the answer begins. Raises RequestRefused."""
        marks = _Marks(self.template.special_texts)
        return marks.split(self._render(messages, tools, marks))

    def follow(self, answer: Message, messages: Sequence[Message], tools: Sequence[Tool]) -> list[Piece]:
        """What follows the text of an answer: its closing, the new messages, and the beginning of the next answer. Raises
        RequestRefused."""
        marks = _Marks(self.template.special_texts)
        native = bool(answer.calls) and self.syntax is not None
        calls = tuple(replace(call, arguments=json.dumps({"a": _VALUE})) for call in answer.calls)
        dummy = replace(answer, text="" if native else _ANSWER, calls=calls if native else ())
        whole = self._render([_plain_user(), dummy, *messages], tools, marks, unmarked=2)
        _, found, after = whole.rpartition(_VALUE if native else _ANSWER)
        at = after.find(self.call_closing if native else self.closing)
        if not found or at < 0:
            raise RequestRefused(
                "messages: the model's chat template writes the last answer in another way when these follow"
            )
        return marks.split(after[at:])

    def _render(self, messages: Sequence[Message], tools: Sequence[Tool], marks: "_Marks", *, unmarked: int = 0) -> str:
        """The template's text, with marks in place of the texts of all messages but the first `unmarked` ones."""
        marked = [
            message if number < unmarked else replace(message, text=marks.replace(message.text))
            for number, message in enumerate(messages)
        ]
        if self.syntax is None:
            marked = [replace(each, calls=tuple(map(marks.hide_call, each.calls))) for each in marked]
            marked, shown_tools = list(spell_tools(marked, () if unmarked else marks.hide_tools(tools))), None
        else:
            shown_tools = [marks.hide(show_tool(tool)) for tool in tools] or None
        folded = fold_messages(marked)
        if folded and folded[0].role == "system" and not self.has_system:
            folded = fold_messages([replace(folded[0], role="user"), *folded[1:]])
        shown = _show(folded, marks)
        try:
            return self.template.render_turns(shown, tools=shown_tools, opens_answer=True)
        except _FAILURES as error:
            roles = ", ".join(str(each["role"]) for each in shown)
            raise RequestRefused(
                f"messages: the model's chat template does not take them ({str(error)[:200]}); roles in order: {roles[:200]}",
                field="messages",
            ) from error


@dataclass
class _Marks:
    """Texts that stand aside while a template writes marks in their place."""

    special_texts: Collection[str]
    texts: list[str] = field(default_factory=list)
    messages: set[int] = field(default_factory=set)
    """The numbers of those that must be written once; texts of tools and arguments may be left out where tools are."""

    def replace(self, text: str) -> str:
        """The mark of a message's text; an empty one stays as it is."""
        if text:
            self.messages.add(len(self.texts))
        return self._put(text) if text else text

    def _put(self, text: str) -> str:
        self.texts.append(text)
        return f"text-number-{len(self.texts) - 1}-stands-here"

    def hide(self, value: Any) -> Any:
        """JSON with marks in place of what spells a special token, or a mark, in its strings."""
        if isinstance(value, str):
            return self._special_pattern.sub(lambda found: self._put(found[0]), value)
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(each) for key, each in value.items()}
        return [self.hide(each) for each in value] if isinstance(value, list | tuple) else value

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        return re.compile("|".join([_MARK.pattern, *map(re.escape, sorted(self.special_texts, key=len, reverse=True))]))

    def hide_call(self, call: AgentToolCall) -> AgentToolCall:
        """A call that is written as text, with marks in place of what spells a special token."""
        return replace(call, name=self.hide(call.name), arguments=self.hide(call.arguments))

    def hide_tools(self, tools: Sequence[Tool]) -> list[Tool]:
        """The tools with marks in place of the texts that spell a special token."""
        return [
            replace(
                tool,
                name=self.hide(tool.name),
                description=self.hide(tool.description),
                parameters=self.hide(tool.parameters),
            )
            for tool in tools
        ]

    def split(self, rendered: str) -> list[Piece]:
        """The pieces of what a template wrote. Raises RequestRefused unless each text is in it once."""
        parts = _MARK.split(rendered)
        found = Counter(int(number) for number in parts[1::2])
        if wrong := [number for number in sorted(self.messages) if found[number] != 1]:
            what = "writes twice" if found[wrong[0]] else "leaves out"
            raise RequestRefused(
                f"messages: the model's chat template {what} {self.texts[wrong[0]][:80]!r}", field="messages"
            )
        texts = [part if place % 2 == 0 else self.texts[int(part)] for place, part in enumerate(parts)]
        return [Piece(text=text, is_template=place % 2 == 0) for place, text in enumerate(texts) if text]


def _show(messages: Sequence[Message], marks: _Marks) -> list[dict[str, Any]]:
    """Messages as templates take them. Ids of calls are numbers: no agent's id is in a prompt."""
    known: dict[str, tuple[str, str]] = {}
    shown = []
    for message in messages:
        each: dict[str, Any] = {"role": message.role, "content": message.text}
        if message.calls:
            for call in message.calls:
                known[call.call_id] = (f"call{len(known):05d}", call.name)
            each["tool_calls"] = [_show_call(call, known[call.call_id][0], marks) for call in message.calls]
        if message.role == "tool":
            if message.answers not in known:
                raise RequestRefused(
                    f"messages: a result answers the call {message.answers[:80]!r}, which no earlier message makes; send the "
                    "whole conversation",
                    field="messages",
                )
            each["tool_call_id"], name = known[message.answers]
            each["name"] = marks.hide(name)
        shown.append(each)
    return shown


def _show_call(call: AgentToolCall, call_id: str, marks: _Marks) -> dict[str, Any]:
    function = {"name": marks.hide(call.name), "arguments": marks.hide(read_arguments(call.arguments))}
    return {"id": call_id, "type": "function", "function": function}


def _find_syntax(template: Template, closing: str) -> tuple[CallSyntax, str] | None:
    """How the template writes calls, and with which special token it ends an answer with some; None unless it writes tools,
    calls and results, and the calls can be read."""
    header, tools = _find_header(template), [show_tool(_TOOL)]
    asked = [
        _plain_user(),
        Message(role="assistant", text="", calls=(_CALL,)),
        Message(role="tool", text=_RESULT, answers="0"),
    ]

    def write_calls(calls: Sequence[Call]) -> str | None:
        shown = tuple(
            AgentToolCall(call_id=str(number), name=name, arguments=json.dumps(arguments))
            for number, (name, arguments) in enumerate(calls)
        )
        try:
            talk = _show([_plain_user(), Message(role="assistant", text="", calls=shown)], _Marks(()))
            text = _write(template, talk, tools)
        except _FAILURES:
            return None
        turn = _drop_start(text[text.rfind(_QUESTION) + len(_QUESTION) :], header or "")
        end = turn.find(closing, turn.rfind(NAME))
        return turn if end < 0 else turn[:end]

    if header is None or not _shows(template, [_user(_QUESTION)], NAME, tools=tools):
        return None
    if not _shows(template, shown := _show(asked, _Marks(())), NAME, _RESULT, tools=tools):
        return None
    if (one := write_calls([(NAME, ARGUMENTS)])) is None:
        return None
    if (json_syntax := JsonSyntax.find(one, write_calls([(NAME, ARGUMENTS)] * 2))) is not None:
        return json_syntax, closing
    if (syntax := FieldSyntax.find(write_calls)) is None:
        return None
    after = _write(template, shown, tools).partition(_VALUE)[2].partition(syntax.closes)[2].lstrip()
    closing = next((text for text in _longest_first(template) if after.startswith(text)), "")
    return (syntax, closing) if closing else None


def _find_header(template: Template) -> str | None:
    """What stands between a question and an answer."""
    try:
        text = _write(template, [_user(_QUESTION), _assistant(_ANSWER)])
    except _FAILURES:
        return None
    return text[text.rfind(_QUESTION) + len(_QUESTION) : text.rfind(_ANSWER)]


def _drop_start(text: str, start: str) -> str:
    """`text` after as much of `start` as it begins with."""
    num_equal = next(
        (n for n, (a, b) in enumerate(zip(text, start, strict=False)) if a != b), min(len(text), len(start))
    )
    return text[num_equal:]


def _shows(template: Template, messages: Sequence[Mapping[str, Any]], *texts: str, tools: Any = None) -> bool:
    """Whether the template writes all of the texts."""
    try:
        written = _write(template, messages, tools)
    except _FAILURES:
        return False
    return all(text in written for text in texts)


def _write(template: Template, messages: Sequence[Mapping[str, Any]], tools: Any = None) -> str:
    return template.render_turns(messages, tools=tools, opens_answer=False)


def _longest_first(template: Template) -> list[str]:
    return sorted(template.special_texts, key=len, reverse=True)


def _plain_user() -> Message:
    return Message(role="user", text=_QUESTION)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _unusable(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"policies.<name>.prompt_format 'chat': the model's chat template {why}; an agent's conversation cannot be continued "
        "turn by turn, so use another model"
    )
