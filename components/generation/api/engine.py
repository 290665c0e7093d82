"""The engine for models behind an API: generates with many concurrent requests, and is never trained."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from components.config import ApiConfig
from components.errors import ConfigurationError, PermanentError, StaleEngine, TransientError
from components.generation.api.anthropic_client import AnthropicClient
from components.generation.api.chat import ChatAnswer, ChatFailure, ChatReply, ChatRequest, api_version
from components.generation.api.cost import ApiAccount
from components.generation.api.openai_client import OpenAiClient
from components.generation.api.sdk_client import SdkClient
from components.generation.api.tokenizer import ByteTokenizer
from components.generation.base import Completion, GenerationRequest
from components.identity import seed_for
from components.reporting.progress_share import report_share
from components.schema import ApiUsage, PolicyVersion

_SEED_BITS = 31
"""Some servers store a seed in a signed 32-bit integer."""
_TEMPLATE_TOKENS = 256
"""The most that a chat template may add to a prompt, whose own tokens are at most its bytes."""
_CLIENTS: Mapping[str, type[SdkClient]] = {"openai": OpenAiClient, "anthropic": AnthropicClient}


class ApiGenerator:
    """A Generator that asks an API. It holds its only version from the start; it cannot load or score.

    A token is a byte of the answer (`ByteTokenizer`), while `max_new_tokens` is sent unchanged and counts the provider's
    tokens, so a completion may have more tokens than that. `logprobs` is empty.

    Answers are not reproducible: seeds are best effort at OpenAI and absent at Anthropic. A resumed run does not repeat
    journalled requests. Answers of a failed call are kept, so that its retry requests, and pays for, only the rest.
    """

    def __init__(self, policy: str, config: ApiConfig, *, client: SdkClient) -> None:
        self._policy = policy
        self._config = config
        self._client = client
        self._version = api_version(policy, config)
        self._tokenizer = ByteTokenizer()
        self._account = ApiAccount(policy, config)
        self._pool = ThreadPoolExecutor(config.max_requests_at_once, thread_name_prefix=f"api-{policy}")
        self._kept: dict[GenerationRequest, tuple[Completion, ...]] = {}

    @property
    def tokenizer(self) -> ByteTokenizer:
        return self._tokenizer

    @property
    def version(self) -> PolicyVersion:
        """The API's only version."""
        return self._version

    @property
    def usage(self) -> ApiUsage:
        """Total usage of this engine so far."""
        return self._account.usage

    def take_usage(self) -> ApiUsage:
        """See `Metered.take_usage`."""
        return self._account.take()

    def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
        """Do nothing for the API's own version. Raises ConfigurationError for any other."""
        if version != self._version:
            raise ConfigurationError(
                f"policies.{self._policy}.api: {self._config.model!r} is behind an API and takes no weights; asked for "
                f"{version}, its only version is {self._version}"
            )

    def generate(self, requests: Sequence[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        """K completions for each request, in order, with up to `max_requests_at_once` concurrent requests.

        After the first error no more requests are sent, and those under way are awaited. Raises StaleEngine for another
        version, ApiUnavailable when the SDK's retries did not help, BudgetSpent before a request that could exceed
        `max_cost`, ConfigurationError or ApiIncompatible when API and configuration do not match.
        """
        if version != self._version:
            raise StaleEngine(f"asked for {version}, but the engine holds {self._version}, its only version")
        most = self._client.max_answers
        parts = [
            replace(request, seeds_K=request.seeds_K[start : start + most])
            for request in requests
            for start in range(0, len(request.seeds_K), most)
        ]
        completions = chain.from_iterable(self._complete(parts))
        return [tuple(islice(completions, len(request.seeds_K))) for request in requests]

    def score(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        """Raise PermanentError: an API does not score given tokens."""
        raise PermanentError(
            f"policies.{self._policy}.api: {self._config.model!r} gives no log-probabilities of given tokens, so it can be "
            "neither probed nor trained; set policies.<name>.trained to False and leave it out of the refresh"
        )

    def close(self) -> None:
        """End the threads and connections after the requests under way."""
        self._pool.shutdown(cancel_futures=True)
        self._client.close()

    def _complete(self, parts: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
        stopped = threading.Event()
        futures = [self._pool.submit(self._completions, part, stopped) for part in parts]
        try:
            _wait_for_answers(futures)
        finally:
            under_way = [future for future in futures if not future.cancel()]
        wait(under_way)
        errors = [error for future in under_way if (error := future.exception()) is not None]
        errors = [error for error in errors if not isinstance(error, CancelledError)]
        if errors:
            ends = zip(parts, futures, strict=True)
            self._kept |= {part: end.result() for part, end in ends if not (end.cancelled() or end.exception())}
            # A permanent error takes precedence, because a retry would raise it again.
            raise min(errors, key=lambda error: isinstance(error, TransientError))
        for part in parts:
            self._kept.pop(part, None)
        return [future.result() for future in futures]

    def _completions(self, part: GenerationRequest, stopped: threading.Event) -> tuple[Completion, ...]:
        if (kept := self._kept.get(part)) is not None:
            return kept
        try:
            outcome = self._ask(part, stopped)
            if isinstance(outcome, ChatFailure):
                raise outcome.error
        except BaseException:
            stopped.set()
            raise
        return tuple(self._completion(answer) for answer in outcome.answers)

    def _ask(self, part: GenerationRequest, stopped: threading.Event) -> ChatReply | ChatFailure:
        assert part.max_thinking_tokens is None, f"an API takes no limit of thinking: {part.max_thinking_tokens}"
        instructions, state = self._tokenizer.split(part.prompt_tokens)
        request = ChatRequest(
            instructions=instructions,
            state=state,
            num_answers=len(part.seeds_K),
            max_new_tokens=part.max_new_tokens,
            temperature=part.temperature,
            seed=seed_for(*part.seeds_K) & ((1 << _SEED_BITS) - 1),
            stop=part.stop,
        )
        reserved = self._account.reserve(
            max_prompt_tokens=len(part.prompt_tokens) + _TEMPLATE_TOKENS,
            max_answer_tokens=request.num_answers * request.max_new_tokens,
        )
        outcome: ChatReply | ChatFailure | None = None
        try:
            if stopped.is_set():
                raise CancelledError
            outcome = self._client.ask(request)
        finally:
            self._account.settle(reserved, outcome)
        return outcome

    def _completion(self, answer: ChatAnswer) -> Completion:
        return Completion(
            tokens=self._tokenizer.encode_answer(answer.text, ended=answer.finish_reason == "stop"),
            logprobs=(),
            finish_reason=answer.finish_reason,
            version=self._version,
        )


def _wait_for_answers(futures: Sequence[Future[tuple[Completion, ...]]]) -> None:
    """Wait for all of them, or for the first error."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        report_share(1 - len(pending) / len(futures))
        if any(future.exception() is not None for future in done):
            return


def open_api_generator(policy: str, config: ApiConfig, *, api_key: str | None) -> ApiGenerator:
    """The engine of a policy that is a model behind an API.

    `api_key` is the value of the provider's variable in `KEY_VARIABLES`. Raises ServiceMissing without the provider's SDK,
    ConfigurationError if its own server is used without a key.
    """
    client = _CLIENTS[config.provider](policy, config, api_key=api_key)
    return ApiGenerator(policy, config, client=client)
