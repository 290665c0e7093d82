"""The Messages API, through Anthropic's own SDK."""

from typing import Any

import anthropic

from components.config import ApiConfig
from components.generation.api.border import ApiBorder
from components.generation.api.chat import (
    ChatAnswer,
    ChatFailure,
    ChatReply,
    ChatRequest,
    ChatUsage,
    address_of,
)
from components.generation.api.http import BOUNDED
from components.schema import FinishReason

_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "pause_turn": "stop",
    "refusal": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_VERSION_WITH_TEMPERATURE = "2023-06-01"
"""Since version 2026-10-21 of the API every temperature is a bad request, and the SDK has no argument for one."""


class AnthropicClient:
    """Asks POST /v1/messages for one answer a request: the API has no `n`, and no seed, so answers do not repeat.

    The temperature goes out under the API's version 2023-06-01, in which models that take none accept 1; with
    `fixed_temperature` none is sent, under the SDK's own version.
    """

    def __init__(self, policy: str, config: ApiConfig, *, api_key: str | None) -> None:
        self._config = config
        self._border = ApiBorder(policy, config, api_key)
        self._client = anthropic.Anthropic(
            api_key=self._border.key,
            base_url=address_of(config),
            timeout=config.timeout_seconds,
            max_retries=config.max_retries,
            http_client=anthropic.DefaultHttpxClient(**BOUNDED),
            open_telemetry=False,
        )

    @property
    def max_answers(self) -> int:
        return 1

    def ask(self, request: ChatRequest) -> ChatReply | ChatFailure:
        """The answer to `request`. Raises nothing that the API can cause."""
        assert request.num_answers == 1, f"asked for {request.num_answers} answers, and the API gives one"
        try:
            raw = self._client.messages.with_raw_response.create(**self._arguments(request))
        except anthropic.APIError as error:
            return self._border.failure(error)
        return self._border.reply(raw, _read)

    def close(self) -> None:
        self._client.close()

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self._config.model,
            "messages": [{"role": "user", "content": request.state}],
            "max_tokens": request.max_new_tokens,
        }
        if request.instructions:
            arguments["system"] = request.instructions
        if not self._config.fixed_temperature:
            arguments["extra_body"] = {"temperature": request.temperature}
            arguments["extra_headers"] = {"anthropic-version": _VERSION_WITH_TEMPERATURE}
        return arguments


def _read(body: Any, num_retries: int) -> ChatReply:
    """Text blocks joined; blocks of thinking are no part of the answer. All kinds of prompt tokens are counted alike."""
    reason, usage = body["stop_reason"], body["usage"]
    text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    prompt = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return ChatReply(
        answers=(ChatAnswer(text=text, finish_reason=_FINISH_REASONS[reason], refused=reason == "refusal"),),
        usage=ChatUsage(
            num_prompt_tokens=sum(int(usage.get(kind) or 0) for kind in prompt),
            num_answer_tokens=int(usage["output_tokens"]),
        ),
        num_retries=num_retries,
    )
