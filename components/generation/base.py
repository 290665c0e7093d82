"""The generation interface: tokens in; tokens, log-probabilities, finish reason and policy version out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from components.artifacts.base import SignedFile
from components.errors import ConfigurationError
from components.schema import ApiUsage, FinishReason, PolicyVersion
from components.text.choice_tokens import Choices

SignFiles = Callable[[Path], Sequence[SignedFile]]
"""The files of a folder of this host, for servers on others; none if the store has no addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One prompt and the seed of each candidate to sample. `temperature` 0 is greedy.

    The tokens of a candidate depend only on its seed and the logits, never on the other requests in the batch. `stop` are
    strings that end an answer. `top_p` below 1 draws each token from the fewest most likely ones that have this probability
    together, in serving alone. `max_thinking_tokens` allows that many tokens of thinking before the answer, if it begins with
    it; None for no tokens beside `max_new_tokens`.
    """

    prompt_tokens: tuple[int, ...]
    seeds_K: tuple[int, ...]
    max_new_tokens: int
    temperature: float
    stop: tuple[str, ...] = ()
    top_p: float = 1.0
    max_thinking_tokens: int | None = None
    choices: Choices = ()
    """The answers of which each candidate is one; none: any text. Log-probabilities are then those among the choices."""

    @property
    def longest_answer(self) -> int:
        """Maximal tokens of thinking and answer."""
        return (self.max_thinking_tokens or 0) + self.max_new_tokens

    @property
    def ends_by_text(self) -> bool:
        """Whether the text of an answer, not only its tokens, decides where it ends."""
        return bool(self.stop) or self.max_thinking_tokens is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled answer. `tokens` ends with an end token, or with the one that completes a stop string, when `finish_reason`
    is "stop".

    `logprobs[t]` is the log-probability of `tokens[t]` under the tempered distribution it was drawn from (untempered when
    greedy). `logprobs` is empty if the engine does not know them; such answers are never trained on.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    version: PolicyVersion


def before_stop(text: str, stop: Sequence[str]) -> str:
    """`text` up to the first of the strings in it. **Example** "ab;c" with stop ("c", ";") is "ab"."""
    found = [at for string in stop if (at := text.find(string)) >= 0]
    return text[: min(found)] if found else text


class Tokenizer(Protocol):
    """Text to tokens and back. Only prompts are encoded; sampled tokens are never re-encoded."""

    @property
    def end_token(self) -> int:
        """The id that ends demonstrated answers."""
        ...

    @property
    def end_tokens(self) -> frozenset[int]:
        """All ids that end a sampled answer, `end_token` among them."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Plain text as tokens, without special tokens. Raises ConfigurationError on an unknown character."""
        ...

    def encode_chat(self, instructions: str, state: str, arguments: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        """A system and a user message under the model's chat template, with its `arguments`, up to where the answer begins."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens` without special tokens."""
        ...

    def opens_thinking(self, prompt_tokens: Sequence[int]) -> bool:
        """Whether a prompt ends with <think>, so that the answer begins with thinking."""
        ...


def encode_choices(tokenizer: Tokenizer, choices: Sequence[str]) -> Choices:
    """The texts as answers to choose among, each with an end."""
    return tuple((*tokenizer.encode(choice), tokenizer.end_token) for choice in choices)


def choice_request(
    tokenizer: Tokenizer, prompt_tokens: tuple[int, ...], choices: Sequence[str], seeds: Sequence[int]
) -> GenerationRequest:
    """One prompt whose answers are drawn among `choices`, one for each seed, from the model's own probabilities of them."""
    answers = encode_choices(tokenizer, choices)
    return GenerationRequest(
        prompt_tokens=prompt_tokens,
        seeds_K=tuple(seeds),
        max_new_tokens=max(map(len, answers)),
        temperature=1.0,
        choices=answers,
    )


def read_choice(request: GenerationRequest, completion: Completion) -> tuple[int, float]:
    """The index of the drawn choice, and the probability that it was drawn with.

    Raises ConfigurationError where the engine does not know probabilities: then there is no confidence.

    **Example** the second choice with a log-probability of -.31 among the choices: (1, .73).
    """
    if not completion.logprobs:
        raise ConfigurationError(
            "this engine does not tell probabilities, so that a choice has no confidence: use a local or vllm engine"
        )
    return request.choices.index(completion.tokens), min(1.0, exp(sum(completion.logprobs)))


class Generator(Protocol):
    """One policy, ready to sample. Its memory is only a cache of a checkpoint."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def version(self) -> PolicyVersion | None:
        """The version held, or None before the first load."""
        ...

    def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
        """Load the Hugging Face model in `folder`, with the PEFT `adapter` if given, as `version`.

        Raises ArtifactCorrupt when the digest of the loaded tensors is not `version.weights_digest`.
        """
        ...

    def generate(self, requests: Sequence[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        """K completions for each request, in order, from `version`. Raises StaleEngine when another one is held."""
        ...

    def score(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        """Log-probabilities of given tokens at temperature 1, computed by the engine's own sampling path."""
        ...


@runtime_checkable
class KeepsPrefixes(Protocol):
    """An engine that can keep what it has read, so that the next prompt of a conversation costs what is new in it."""

    def generate_on_kept(
        self, requests: Sequence[GenerationRequest], version: PolicyVersion
    ) -> list[tuple[Completion, ...]]:
        """As `Generator.generate`, of prompts whose beginnings may have been read before. One request alone gets the same
        completions to the bit, whatever is kept; log-probabilities may round otherwise than those of `generate`."""
        ...


@runtime_checkable
class Served(Protocol):
    """An engine with servers of its own."""

    def check(self) -> None:
        """Raise EngineUnavailable unless one of its servers answers, StaleEngine when all serve other models."""
        ...


@runtime_checkable
class Metered(Protocol):
    """An engine whose requests cost money."""

    def take_usage(self) -> ApiUsage:
        """Usage since the last call, including failed attempts; concurrent callers get disjoint parts of it."""
        ...
