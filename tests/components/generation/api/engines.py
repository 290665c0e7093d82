"""Engines on a wire server, and requests for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from components.config import ApiConfig
from components.generation.api.engine import ApiGenerator, open_api_generator
from components.generation.api.tokenizer import ByteTokenizer
from components.generation.base import Completion, GenerationRequest
from tests.components.generation.api.wire_server import KEY, MODEL, WireServer

PROVIDERS = ("openai", "anthropic")
TOKENIZER = ByteTokenizer()


def config_for(wire: WireServer, provider: str, **settings: Any) -> ApiConfig:
    defaults = {"model": MODEL, "base_url": wire.base_url(provider), "max_retries": 0, "timeout_seconds": 5.0}
    return ApiConfig.model_validate({"provider": provider, **defaults, **settings})


@contextmanager
def engine_on(wire: WireServer, provider: str, *, api_key: str | None = KEY, **settings: Any) -> Iterator[ApiGenerator]:
    engine = open_api_generator("critic", config_for(wire, provider, **settings), api_key=api_key)
    try:
        yield engine
    finally:
        engine.close()


def make_request(
    state: str, *, seeds: tuple[int, ...] = (1,), instructions: str = "", **settings: Any
) -> GenerationRequest:
    defaults: dict[str, Any] = {"max_new_tokens": 50, "temperature": 1.0}
    return GenerationRequest(
        prompt_tokens=TOKENIZER.encode_chat(instructions, state), seeds_K=seeds, **{**defaults, **settings}
    )


def generate(engine: ApiGenerator, *requests: GenerationRequest) -> list[tuple[Completion, ...]]:
    return engine.generate(requests, engine.version)


def texts(answers: list[tuple[Completion, ...]]) -> list[list[str]]:
    return [[TOKENIZER.decode(completion.tokens) for completion in completions] for completions in answers]
