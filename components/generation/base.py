"""The generation border: tokens in; tokens, log-probabilities, finish reason and policy version out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from components.schema import ApiUsage, FinishReason, PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One prompt and the candidates wanted for it.

    `seeds_K` has one seed per candidate: the tokens of a candidate depend on its seed and on the logits alone, never on which
    other requests share the batch. `temperature` 0 is greedy.
    """

    prompt_tokens: tuple[int, ...]
    seeds_K: tuple[int, ...]
    max_new_tokens: int
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled answer. `tokens` ends with the end token when `finish_reason` is "stop".

    `logprobs[t]` is the log-probability of `tokens[t]` under the tempered distribution it was drawn from (under the plain one
    when greedy); there are none where the engine does not know them, and nothing is trained on such an answer.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    version: PolicyVersion


class Tokenizer(Protocol):
    """Text to tokens and back. Only prompts are encoded; what was sampled is never encoded again."""

    @property
    def end_token(self) -> int: ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Plain text as tokens, without special tokens. Raises ConfigurationError on a character that is not known."""
        ...

    def encode_chat(self, instructions: str, state: str) -> tuple[int, ...]:
        """A system and a user message under the model's own chat template, ready for the answer."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`, special tokens left out."""
        ...


class Generator(Protocol):
    """One policy, ready to sample. What it holds in memory is only a cache of a checkpoint."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def version(self) -> PolicyVersion | None:
        """The version held, or None before the first load."""
        ...

    def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
        """Hold the weights in `folder` (a Hugging Face model folder), with `adapter` (a PEFT folder) on them, as `version`.

        Raises ArtifactCorrupt when the digest of the loaded tensors is not `version.weights_digest`.
        """
        ...

    def generate(self, requests: Sequence[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        """K completions for each request, in order, from `version`. Raises StaleEngine when another one is held."""
        ...

    def score(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        """The log-probabilities that the engine's own sampling path gives to given tokens, at temperature 1."""
        ...


@runtime_checkable
class Metered(Protocol):
    """An engine whose requests cost money."""

    def take_usage(self) -> ApiUsage:
        """Usage since the last call, failed attempts included. Of several callers at once, each use is reported to one."""
        ...
