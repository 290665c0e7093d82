"""The Messages API, through Anthropic's SDK."""

from collections.abc import Mapping
from typing import Any, ClassVar

from components.generation.api.chat import ChatAnswer, ChatReply, ChatRequest, ChatUsage
from components.generation.api.sdk_client import SdkClient
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
"""From version 2026-10-21 on the API rejects any temperature, and the SDK has no argument for one."""


class AnthropicClient(SdkClient):
    """Asks POST /v1/messages for one answer per request: the API has no `n` and no seed, so answers are not reproducible.

    A temperature is sent under API version 2023-06-01, in which models without a temperature accept 1; with
    `fixed_temperature` none is sent, under the SDK's own version.
    """

    client_class = "Anthropic"
    options: ClassVar[Mapping[str, Any]] = {"open_telemetry": False}

    def _send(self, request: ChatRequest) -> Any:
        assert request.num_answers == 1, f"asked for {request.num_answers} answers, and the API gives one"
        arguments: dict[str, Any] = {
            "model": self._config.model,
            "messages": [{"role": "user", "content": request.state}],
            "max_tokens": request.max_new_tokens,
        }
        if request.instructions:
            arguments["system"] = request.instructions
        if request.stop:
            arguments["stop_sequences"] = list(request.stop)
        if not self._config.fixed_temperature:
            arguments["extra_body"] = {"temperature": request.temperature}
            arguments["extra_headers"] = {"anthropic-version": _VERSION_WITH_TEMPERATURE}
        return self._client.messages.with_raw_response.create(**arguments)

    def _read(self, request: ChatRequest, body: Any, num_retries: int) -> ChatReply:
        """Text blocks joined, without thinking blocks. Prompt tokens of all kinds are counted alike."""
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
