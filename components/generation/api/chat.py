"""The border between the API engine and the two SDKs: what is asked, what comes back, and how it may fail."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from components.config import ApiConfig
from components.errors import TroupeError
from components.identity import canonical_json
from components.schema import FinishReason, PolicyVersion

PROVIDER_ADDRESSES: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
KEY_VARIABLES: Mapping[str, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""Where the caller finds the key of each provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One prompt as two messages, and how many answers are wanted. Empty instructions are not sent."""

    instructions: str
    state: str
    num_answers: int
    max_new_tokens: int
    """Of one answer, in tokens of the provider's own model."""
    temperature: float
    seed: int
    """Of the whole request, 31 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """One answer. A refusal is an answer too: its text is what the provider says, often nothing."""

    text: str
    finish_reason: FinishReason
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatUsage:
    """What a request used by the provider's own count."""

    num_prompt_tokens: int
    num_answer_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """All answers to one request. `usage` is None where the server does not tell it."""

    answers: tuple[ChatAnswer, ...]
    usage: ChatUsage | None
    num_retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFailure:
    """Why a request has no answers. `may_be_billed` is True where the provider may have worked without our seeing it."""

    error: TroupeError
    num_retries: int
    may_be_billed: bool


class ChatClient(Protocol):
    """One model of one provider. Called from many threads at once."""

    @property
    def max_answers(self) -> int:
        """The most answers that one request may ask for."""
        ...

    def ask(self, request: ChatRequest) -> ChatReply | ChatFailure:
        """Send `request`, with the SDK's own retries, and wait for the end of it."""
        ...

    def close(self) -> None:
        """End all connections."""
        ...


def address_of(config: ApiConfig) -> str:
    """Where requests go, without a slash at the end. Always given to the SDKs, which else ask the environment."""
    return (config.base_url or PROVIDER_ADDRESSES[config.provider]).rstrip("/")


def api_version(policy: str, config: ApiConfig) -> PolicyVersion:
    """The one version that a policy behind an API ever has: step 0, and the digest of provider, model and address.

    It says which model was asked, not which weights answered: a provider may change these under one name.
    """
    named = {"provider": config.provider, "model": config.model, "base_url": address_of(config)}
    return PolicyVersion(policy=policy, step=0, weights_digest=hashlib.sha256(canonical_json(named)).hexdigest())
