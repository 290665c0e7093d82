"""Conversations as prompt tokens, and answers as text and calls: by a model's chat template, or compact for tiny models."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from components.errors import ConfigurationError
from components.gateway.base import Message, RequestRefused, Tool
from components.gateway.call_syntax import JsonSyntax, ReadAnswer
from components.gateway.written_turns import Piece, TurnWriter
from components.generation.base import before_stop


class PromptEncoder(Protocol):
    """How a policy is asked, and how its answers are read."""

    def encode(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """The prompt of a whole conversation. Raises RequestRefused."""
        ...

    def extend(
        self, read: tuple[int, ...], answer: Message, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> tuple[int, ...]:
        """The prompt after `read`, the tokens of the last prompt and of its `answer`, with further messages. Raises
        RequestRefused."""
        ...

    def read(self, tokens: Sequence[int], tools: Sequence[Tool], stop: Sequence[str]) -> ReadAnswer:
        """The text and calls of an answer, up to a stop string."""
        ...


class ChatTokenizer(Protocol):
    """A tokenizer with a chat template."""

    @property
    def special_texts(self) -> Collection[str]:
        """The special tokens as they are spelled."""
        ...

    def render_turns(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        arguments: Mapping[str, Any],
        opens_answer: bool,
    ) -> str:
        """What the template writes with its `arguments`, up to where an answer begins if `opens_answer`."""
        ...

    @property
    def end_tokens(self) -> frozenset[int]: ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Plain text, in which nothing is special."""
        ...

    def encode_rendered(self, text: str) -> tuple[int, ...]:
        """What a template wrote, in which special tokens are."""
        ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def decode_with_specials(self, tokens: Sequence[int]) -> str: ...


class ChatEncoder:
    """By the model's chat template. Texts of messages open no turn, whatever they spell.

    **Example** ChatML after an answer of ids (7, 2), 2 being <|im_end|>: the prompt of the next call is the last prompt, 7, 2,
    and the ids of "\\n<|im_start|>user\\n…<|im_end|>\\n<|im_start|>assistant\\n".
    """

    def __init__(self, tokenizer: ChatTokenizer, arguments: Mapping[str, Any] | None = None) -> None:
        """`arguments` are the chat template's own. Raises ConfigurationError for one that cannot be continued turn by turn."""
        self._tokenizer = tokenizer
        self._writer = TurnWriter.under(_Bound(tokenizer, arguments or {}))
        self._syntax = self._writer.syntax or JsonSyntax()

    @property
    def writes_own_tools(self) -> bool:
        """Whether tools are told in a form of ours, as the model's template has none that is read."""
        return self._writer.syntax is None

    def encode(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """See `PromptEncoder.encode`."""
        return self._encode(self._writer.write(messages, tools))

    def extend(
        self, read: tuple[int, ...], answer: Message, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> tuple[int, ...]:
        """See `PromptEncoder.extend`."""
        new = self._encode(self._writer.follow(answer, messages, tools))
        is_closed = read[-1] in self._tokenizer.end_tokens and new[0] in self._tokenizer.end_tokens
        if answer.calls and self._writer.call_closing != self._writer.closing:  # it opens the results, too
            is_closed = read[-1] == new[0]
        return (*read, *new[is_closed:])

    def read(self, tokens: Sequence[int], tools: Sequence[Tool], stop: Sequence[str]) -> ReadAnswer:
        """See `PromptEncoder.read`."""
        plain = [token for token in tokens if token not in self._tokenizer.end_tokens]
        schemas = {tool.name: tool.parameters for tool in tools}
        written = before_stop(self._tokenizer.decode_with_specials(plain), stop)
        found = self._syntax.read(written, schemas) if schemas else ReadAnswer(text=written)
        return found if found.calls else ReadAnswer(text=before_stop(self._tokenizer.decode(plain), stop))

    def _encode(self, pieces: Sequence[Piece]) -> tuple[int, ...]:
        spelled = [piece for piece in pieces if not piece.is_template and self._spells_special(piece.text)]
        if not spelled:
            return self._tokenizer.encode_rendered("".join(piece.text for piece in pieces))
        encoded = (
            self._tokenizer.encode_rendered(piece.text) if piece.is_template else self._tokenizer.encode(piece.text)
            for piece in pieces
        )
        return tuple(token for tokens in encoded for token in tokens)

    def _spells_special(self, text: str) -> bool:
        return any(special in text for special in self._tokenizer.special_texts)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The chat template of a tokenizer with fixed arguments."""

    tokenizer: ChatTokenizer
    arguments: Mapping[str, Any]

    @property
    def special_texts(self) -> Collection[str]:
        return self.tokenizer.special_texts

    def render_turns(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None, opens_answer: bool
    ) -> str:
        return self.tokenizer.render_turns(messages, tools=tools, arguments=self.arguments, opens_answer=opens_answer)


class PlainTokenizer(Protocol):
    """A tokenizer without a chat template."""

    def encode(self, text: str) -> tuple[int, ...]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True)
class CompactEncoder:
    """For tiny models, which read a state and write an answer: the prompt is the text of the last message, and what is sampled
    is the one argument of the one tool.

    **Example** after a tool's result "#A.G", with the tool move(path): the prompt is "#A.G", and the answer "RR" a call
    move(path="RR").
    """

    tokenizer: PlainTokenizer

    def encode(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """See `PromptEncoder.encode`."""
        if not messages or not messages[-1].text:
            raise RequestRefused(
                "messages: the last one has no text, which a policy with prompt_format compact reads alone"
            )
        try:
            return self.tokenizer.encode(messages[-1].text)
        except ConfigurationError as error:
            raise RequestRefused(f"messages: {error}", field="messages") from error

    def extend(
        self, read: tuple[int, ...], answer: Message, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> tuple[int, ...]:
        """The text of the last message: earlier ones are not read."""
        return self.encode(messages, tools)

    def read(self, tokens: Sequence[int], tools: Sequence[Tool], stop: Sequence[str]) -> ReadAnswer:
        """See `PromptEncoder.read`."""
        text = before_stop(self.tokenizer.decode(tokens), stop)
        if len(tools) != 1 or (argument := find_only_argument(tools[0])) is None:
            return ReadAnswer(text=text)
        return ReadAnswer(text="", calls=((tools[0].name, json.dumps({argument: text}, ensure_ascii=False)),))


def make_encoder(tokenizer: ChatTokenizer, prompt_format: str, arguments: Mapping[str, Any]) -> PromptEncoder:
    """How a policy of this prompt format is asked. Raises ConfigurationError."""
    return CompactEncoder(tokenizer) if prompt_format == "compact" else ChatEncoder(tokenizer, arguments)


def find_only_argument(tool: Tool) -> str | None:
    """The name of the one argument that a tool has, if it is a string."""
    properties = tool.parameters.get("properties")
    if not isinstance(properties, dict) or len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    return name if isinstance(schema, dict) and schema.get("type") == "string" else None
