"""An engine without a model: answers come from a function of the prompt's text and the candidate's seed.

It honours the whole `Generator` contract (versions, end token, length limit, order, greedy) without a model, so that the
sampler, the flows and their tests run in milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError, StaleEngine
from components.generation.base import Completion, GenerationRequest, Tokenizer
from components.schema import PolicyVersion

Answer = Callable[[str, int], str]
"""The text that a policy answers to a prompt's text under a seed."""


class CharacterTokenizer:
    """One token per character. Token 0 is the end token; `alphabet[i]` is token i + 1.

    **Example** `CharacterTokenizer("UD").encode("DU")` is (2, 1) and `decode((2, 1, 0))` is "DU".
    """

    def __init__(self, alphabet: str) -> None:
        assert len(set(alphabet)) == len(alphabet), f"alphabet {alphabet!r} repeats a character"
        self._alphabet = alphabet
        self._tokens: Mapping[str, int] = {character: i + 1 for i, character in enumerate(alphabet)}

    @property
    def end_token(self) -> int:
        return 0

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset({0})

    def encode(self, text: str) -> tuple[int, ...]:
        try:
            return tuple(self._tokens[character] for character in text)
        except KeyError as error:
            raise ConfigurationError(
                f"character {error.args[0]!r} is not in the alphabet {self._alphabet!r}"
            ) from error

    def encode_chat(self, instructions: str, state: str, arguments: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        """Instructions, then state; there is no template and no special token."""
        return self.encode(instructions) + self.encode(state)

    def opens_thinking(self, prompt_tokens: Sequence[int]) -> bool:
        return self.decode(prompt_tokens).rstrip().endswith("<think>")

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._alphabet[token - 1] for token in tokens if token != 0)


class ScriptedGenerator:
    """A `Generator` whose policy is `answer(prompt text, seed)`. Greedy asks for seed 0 whatever the request's seeds are.

    Log-probabilities are invented but lawful: below 0, a function of token and position alone, and equal in `generate` and
    `score`.
    """

    def __init__(self, answer: Answer, tokenizer: Tokenizer, version: PolicyVersion | None = None) -> None:
        self._answer = answer
        self._tokenizer = tokenizer
        self._version = version

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def version(self) -> PolicyVersion | None:
        return self._version

    def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
        """Hold `version`. There are no tensors, so no folder is read and no digest is compared."""
        self._version = version

    def generate(self, requests: Sequence[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        if self._version != version:
            raise StaleEngine(f"engine holds {self._version}, asked for {version}")
        return [self._answered(request, version) for request in requests]

    def score(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        assert len(prompts) == len(completions), f"{len(prompts)} prompts for {len(completions)} completions"
        return [_logprobs(tokens) for tokens in completions]

    def _answered(self, request: GenerationRequest, version: PolicyVersion) -> tuple[Completion, ...]:
        prompt = self._tokenizer.decode(request.prompt_tokens)
        seeds = request.seeds_K if request.temperature > 0 else (0,) * len(request.seeds_K)
        return tuple(self._completion(self._answer(prompt, seed), request.max_new_tokens, version) for seed in seeds)

    def _completion(self, text: str, max_new_tokens: int, version: PolicyVersion) -> Completion:
        whole = (*self._tokenizer.encode(text), self._tokenizer.end_token)
        tokens = whole[:max_new_tokens]
        return Completion(
            tokens=tokens,
            logprobs=_logprobs(tokens),
            finish_reason="stop" if len(tokens) == len(whole) else "length",
            version=version,
        )


def _logprobs(tokens: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(-0.1 - ((token * 31 + position * 17) % 97) / 97 for position, token in enumerate(tokens))
