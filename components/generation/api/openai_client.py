"""Any server that speaks OpenAI's chat completions, through OpenAI's SDK."""

from typing import Any

from components.config import ApiConfig
from components.generation.api.chat import ChatAnswer, ChatReply, ChatRequest, ChatUsage
from components.generation.api.sdk_client import SdkClient
from components.schema import FinishReason

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
}
"""An answer that the provider ended would not have been longer under a higher limit, hence "stop"."""
_REFUSED_PROMPTS = ("content_filter", "content_policy_violation", "invalid_prompt")
"""Error codes for a prompt whose content is refused, as opposed to a malformed request."""


class OpenAiClient(SdkClient):
    """Asks POST /chat/completions for up to `max_choices` answers per request (`n`).

    A request has one `seed`, which the API itself calls best effort: equal requests may get different answers.
    """

    client_class = "OpenAI"

    def __init__(self, policy: str, config: ApiConfig, *, api_key: str | None) -> None:
        super().__init__(policy, config, api_key=api_key)
        self.max_answers = config.max_choices

    def _send(self, request: ChatRequest) -> Any:
        config = self._config
        messages = [{"role": "system", "content": request.instructions}] if request.instructions else []
        body: dict[str, Any] = {
            "model": config.model,
            "messages": [*messages, {"role": "user", "content": request.state}],
            config.max_tokens_field: request.max_new_tokens,
        }
        if request.num_answers > 1:
            body["n"] = request.num_answers
        if config.sends_seed:
            body["seed"] = request.seed
        if request.stop:
            body["stop"] = list(request.stop)
        if not config.fixed_temperature:
            body["temperature"] = request.temperature
        return self._client.chat.completions.with_raw_response.create(**body)

    def _refusal(self, request: ChatRequest, error: Any) -> ChatReply | None:
        if error.code not in _REFUSED_PROMPTS:
            return None
        refused = ChatAnswer(text="", finish_reason="stop", refused=True)
        nothing = ChatUsage(num_prompt_tokens=0, num_answer_tokens=0)
        num_retries = self._failure(error).num_retries
        return ChatReply(answers=(refused,) * request.num_answers, usage=nothing, num_retries=num_retries)

    def _read(self, request: ChatRequest, body: Any, num_retries: int) -> ChatReply:
        answers = tuple(_answer(choice) for choice in sorted(body["choices"], key=lambda choice: int(choice["index"])))
        if len(answers) != request.num_answers:
            raise self._incompatible(
                f"gave {len(answers)} choices where n asked for {request.num_answers}", set_field="max_choices to 1"
            )
        usage = _usage(body.get("usage"))
        # One more than the limit per answer, because some servers count the end token in addition.
        if usage is not None and usage.num_answer_tokens > request.num_answers * (request.max_new_tokens + 1):
            raise self._incompatible(
                f"used {usage.num_answer_tokens} tokens for {request.num_answers} answers of at most "
                f"{request.max_new_tokens}: it does not know {self._config.max_tokens_field}",
                set_field="max_tokens_field to the other name",
            )
        return ChatReply(answers=answers, usage=usage, num_retries=num_retries)


def _answer(choice: Any) -> ChatAnswer:
    message, reason = choice["message"], choice["finish_reason"]
    refusal = message.get("refusal")
    return ChatAnswer(
        text=str(message.get("content") or refusal or ""),
        finish_reason=_FINISH_REASONS[reason],
        refused=bool(refusal) or reason == "content_filter",
    )


def _usage(usage: Any) -> ChatUsage | None:
    if usage is None:
        return None
    return ChatUsage(
        num_prompt_tokens=int(usage["prompt_tokens"]), num_answer_tokens=int(usage.get("completion_tokens") or 0)
    )
