"""Any server that speaks OpenAI's chat completions, through OpenAI's own SDK."""

from functools import partial
from typing import Any

import openai

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
    "stop": "stop",
    "length": "length",
    "content_filter": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
}
"""What the provider ended by itself would not have been longer under a higher limit, hence "stop"."""
_REFUSED_PROMPTS = ("content_filter", "content_policy_violation", "invalid_prompt")
"""Codes of a bad request that judge what the prompt says: a refusal, not a mistake of the request's form."""


class OpenAiClient:
    """Asks POST /chat/completions for up to `max_choices` answers at once (`n`).

    One request has one `seed`, which the API itself calls a best effort: equal requests may be answered otherwise.
    """

    def __init__(self, policy: str, config: ApiConfig, *, api_key: str | None) -> None:
        self._config = config
        self._border = ApiBorder(policy, config, api_key)
        self._client = openai.OpenAI(
            api_key=self._border.key,
            base_url=address_of(config),
            timeout=config.timeout_seconds,
            max_retries=config.max_retries,
            http_client=openai.DefaultHttpxClient(**BOUNDED),
        )

    @property
    def max_answers(self) -> int:
        return self._config.max_choices

    def ask(self, request: ChatRequest) -> ChatReply | ChatFailure:
        """All answers to `request`. Raises nothing that the API can cause."""
        try:
            raw = self._client.chat.completions.with_raw_response.create(**self._body(request))
        except openai.APIError as error:
            failure = self._border.failure(error)
            return _refusal(request, failure) if error.code in _REFUSED_PROMPTS else failure
        return self._border.reply(raw, partial(self._read, request))

    def close(self) -> None:
        self._client.close()

    def _body(self, request: ChatRequest) -> dict[str, Any]:
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
        if not config.fixed_temperature:
            body["temperature"] = request.temperature
        return body

    def _read(self, request: ChatRequest, body: Any, num_retries: int) -> ChatReply:
        answers = tuple(_answer(choice) for choice in sorted(body["choices"], key=lambda choice: int(choice["index"])))
        if len(answers) != request.num_answers:
            raise self._border.incompatible(
                f"gave {len(answers)} choices where n asked for {request.num_answers}", set_field="max_choices to 1"
            )
        usage = _usage(body.get("usage"))
        # One more than the limit an answer, because some servers count the end token on top.
        if usage is not None and usage.num_answer_tokens > request.num_answers * (request.max_new_tokens + 1):
            raise self._border.incompatible(
                f"used {usage.num_answer_tokens} tokens for {request.num_answers} answers of at most "
                f"{request.max_new_tokens}: it does not know {self._config.max_tokens_field}",
                set_field="max_tokens_field to the other name",
            )
        return ChatReply(answers=answers, usage=usage, num_retries=num_retries)


def _refusal(request: ChatRequest, failure: ChatFailure) -> ChatReply:
    refused = ChatAnswer(text="", finish_reason="stop", refused=True)
    nothing = ChatUsage(num_prompt_tokens=0, num_answer_tokens=0)
    return ChatReply(answers=(refused,) * request.num_answers, usage=nothing, num_retries=failure.num_retries)


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
