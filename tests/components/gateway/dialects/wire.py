"""Both providers' SDKs against an answer, without a socket; and conversations in the words of each dialect."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import anthropic
import httpx2
import openai

from components.gateway.base import AgentAnswer, AgentRequest, AgentToolCall, Message, RequestRefused
from components.gateway.dialects.fields import KnownItems
from components.gateway.dialects.messages import write_token_count
from components.gateway.dialects.table import COUNT_TOKENS_PATH, DIALECTS
from components.gateway.dialects.wire import BODY_KEEP_ALIVE, STREAM_KEEP_ALIVE, write_json, write_models

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CALLS = (
    AgentToolCall(call_id="call_a", name="read", arguments='{"path": "a"}'),
    AgentToolCall(call_id="call_b", name="read", arguments='{"path": "ü"}'),
)
SESSION = (
    Message(role="system", text="Be careful."),
    Message(role="user", text="Read both."),
    Message(role="assistant", text="Let me see.", calls=CALLS),
    Message(role="tool", text="one", answers="call_a"),
    Message(role="tool", text="two", answers="call_b"),
)
ANSWERED = {"answer_id": "a1", "created": 1764000000, "num_prompt_tokens": 11, "num_answer_tokens": 7}


def say(text: str, *calls: AgentToolCall, **more: Any) -> AgentAnswer:
    return AgentAnswer(
        **{"text": text, "calls": calls, "finish": "tool_calls" if calls else "stop", **ANSWERED, **more}
    )


class Gateway:
    """Answers in turn, after keep-alives, and keeps what it was asked; an error in `answers` ends a stream that has begun."""

    def __init__(self, *answers: AgentAnswer | RequestRefused) -> None:
        self.answers = list(answers)
        self.requests: list[AgentRequest] = []
        self.refused: list[RequestRefused] = []
        transport = {
            "http_client": httpx2.Client(transport=httpx2.MockTransport(self._reply)),
            "api_key": "k",
            "max_retries": 0,
        }
        self.openai = openai.OpenAI(base_url="http://gateway/v1", **transport)
        self.anthropic = anthropic.Anthropic(base_url="http://gateway", **transport)

    def _reply(self, call: httpx2.Request) -> httpx2.Response:
        if call.method == "GET":
            return httpx2.Response(200, content=write_json(write_models(["coder", "planner"])))
        path = call.url.path
        dialect = DIALECTS[path.removesuffix("/count_tokens")]
        try:
            self.requests.append(request := dialect.read(json.loads(call.content), KnownItems()))
            answer = self.answers.pop(0)
            if isinstance(answer, RequestRefused) and not request.wants_stream:
                raise answer
        except RequestRefused as refused:
            self.refused.append(refused)
            return httpx2.Response(refused.status, content=write_json(dialect.write_refusal(refused)))
        if path == COUNT_TOKENS_PATH:
            return httpx2.Response(200, content=write_json(write_token_count(42)))
        if not request.wants_stream:
            assert isinstance(answer, AgentAnswer)
            return httpx2.Response(200, content=BODY_KEEP_ALIVE * 3 + write_json(dialect.write(request, answer)))
        failed = isinstance(answer, RequestRefused)
        chunks = [dialect.stream_refusal(answer)] if failed else dialect.stream(request, answer)
        head = {"content-type": "text/event-stream"}
        return httpx2.Response(200, content=STREAM_KEEP_ALIVE * 3 + b"".join(chunks), headers=head)


def split(text: str, between: str, kind: str, *, as_parts: bool) -> str | list[dict[str, str]]:
    """`text` as content, whole or in parts."""
    parts = text.split(between) if between else [text[: len(text) // 2], text[len(text) // 2 :]]
    return [{"type": kind, "text": part} for part in parts] if as_parts else text


def chat_body(messages: Sequence[Message], as_parts: bool) -> dict[str, Any]:
    def build(message: Message) -> dict[str, Any]:
        between = "" if message.role == "assistant" else "\n"
        body: dict[str, Any] = {
            "role": message.role,
            "content": split(message.text, between, "text", as_parts=as_parts),
        }
        if message.calls:
            body["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.calls
            ]
        return body | ({"tool_call_id": message.answers} if message.role == "tool" else {})

    return {"model": "coder", "messages": [build(message) for message in messages]}


def responses_body(messages: Sequence[Message], as_parts: bool) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            output = split(message.text, "\n", "input_text", as_parts=as_parts)
            items.append({"type": "function_call_output", "call_id": message.answers, "output": output})
        elif message.text or not message.calls:
            kind, between = ("output_text", "") if message.role == "assistant" else ("input_text", "\n")
            role = "developer" if message.role == "system" else message.role
            items.append({"role": role, "content": split(message.text, between, kind, as_parts=as_parts)})
        for call in message.calls:
            named = {"type": "function_call", "call_id": call.call_id, "name": call.name}
            items += [{"type": "reasoning", "summary": []}, {**named, "arguments": call.arguments}]
    return {"model": "coder", "input": items}


def messages_body(messages: Sequence[Message], as_parts: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "coder", "max_tokens": 9, "messages": []}
    sent = body["messages"]
    for message in messages:
        content: Any = split(message.text, "\n", "text", as_parts=as_parts)
        follows_result = (
            bool(sent) and isinstance(sent[-1]["content"], list) and sent[-1]["content"][0]["type"] == "tool_result"
        )
        if message.role == "system" and not sent and "system" not in body:
            body["system"] = content
        elif message.role in ("tool", "user") and (follows_result or message.role == "tool"):
            result = {"type": "tool_result", "tool_use_id": message.answers, "content": content}
            blocks = [result] if message.role == "tool" else [{"type": "text", "text": message.text}]
            # A user's text joins the results before it, as clients send it, and results join each other.
            is_closed = follows_result and sent[-1]["content"][-1]["type"] == "text"
            if follows_result and not is_closed:
                sent[-1]["content"] += blocks
            else:
                sent.append({"role": "user", "content": blocks if message.role == "tool" else content})
        elif message.calls:
            content = [{"type": "thinking", "thinking": "?", "signature": "s"}]
            content += [{"type": "text", "text": message.text}] if message.text else []
            for call in message.calls:
                used = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": json.loads(call.arguments)}
                content.append(used)
            sent.append({"role": "assistant", "content": content})
        else:
            between = "" if message.role == "assistant" else "\n"
            sent.append({"role": message.role, "content": split(message.text, between, "text", as_parts=as_parts)})
    return body


BODIES: dict[str, Callable[[Sequence[Message], bool], dict[str, Any]]] = {
    "/v1/chat/completions": chat_body,
    "/v1/responses": responses_body,
    "/v1/messages": messages_body,
}
