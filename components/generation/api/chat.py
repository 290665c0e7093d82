"""Requests, replies and failures that pass between the API engine and the SDK clients."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from components.config import ApiConfig
from components.errors import TroupeError
from components.identity import canonical_json
from components.schema import FinishReason, PolicyVersion

PROVIDER_ADDRESSES: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
KEY_VARIABLES: Mapping[str, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The environment variable that holds the key of each provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One prompt as two messages, and the number of answers. Empty instructions are not sent."""

    instructions: str
    state: str
    num_answers: int
    max_new_tokens: int
    """Per answer, in tokens of the provider's model."""
    temperature: float
    seed: int
    """For the whole request, 31 bits."""
    stop: tuple[str, ...] = ()
    """Strings that end an answer. The provider leaves them out of its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """One answer. A refusal is an answer whose text comes from the provider and is often empty."""

    text: str
    finish_reason: FinishReason
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatUsage:
    """The tokens of a request as the provider counts them."""

    num_prompt_tokens: int
    num_answer_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """All answers to one request. `usage` is None if the server does not report it."""

    answers: tuple[ChatAnswer, ...]
    usage: ChatUsage | None
    num_retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFailure:
    """Why a request has no answers. `may_be_billed`: the provider may have generated some that were not received."""

    error: TroupeError
    num_retries: int
    may_be_billed: bool


def address_of(config: ApiConfig) -> str:
    """The base URL, without a trailing slash. Always given to the SDKs, which would otherwise read the environment."""
    return (config.base_url or PROVIDER_ADDRESSES[config.provider]).rstrip("/")


def api_version(policy: str, config: ApiConfig) -> PolicyVersion:
    """The only version of a policy behind an API: step 0, and the digest of provider, model and address.

    It identifies the requested model, not its weights, which a provider may change under one name.
    """
    named = {"provider": config.provider, "model": config.model, "base_url": address_of(config)}
    return PolicyVersion(policy=policy, step=0, weights_digest=hashlib.sha256(canonical_json(named)).hexdigest())
