"""The in-process engine over any Hugging Face causal language model with full attention."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from components.config import TransformersGeneration
from components.errors import ConfigurationError, StaleEngine
from components.generation.base import Completion, GenerationRequest
from components.generation.local.base_models import BaseModels
from components.generation.local.batching import batches_of, capacity_of, rows_of
from components.generation.local.decoding import Choose, decode
from components.generation.local.prefix_cache import PrefixCache
from components.generation.local.self_test import check_engine
from components.generation.local.token_selection import Sampling, TeacherForcing
from components.machine.torch_state import computing_with
from components.models.adapters import compute_adapted_digest, load_adapter, use_adapter
from components.models.stored_models import most_tokens
from components.models.tokenizer import HuggingFaceTokenizer
from components.models.weights import architecture_of, build_tiny_model, check_weights, refresh_model
from components.reporting.progress_share import subtask
from components.schema import PolicyVersion


class TransformersGenerator:
    """A Generator over one module. New weights of the same architecture are copied into it.

    **Example** after `load(folder, version)`, a request with prompt_tokens (4, 9), seeds_K (1, 2) and max_new_tokens 3 gives
    one tuple of two completions, of 1 to 3 tokens each.
    """

    def __init__(
        self,
        config: TransformersGeneration,
        bases: BaseModels | None = None,
        *,
        slot: str | None = None,
        gpu: int = 0,
    ) -> None:
        """`bases` holds the modules shared by adapters of several generators. `slot` is the name of this one's adapter in its
        module, if versions of several policies are loaded in turn; None: the policy's. `gpu` numbers the visible ones."""
        if config.device == "cuda" and not torch.cuda.is_available():
            raise ConfigurationError("generation.device 'cuda': no CUDA device is visible here; use cpu")
        self._config = config
        self._device = f"cuda:{gpu}" if config.device == "cuda" else config.device
        self._bases = bases or BaseModels()
        self._slot = slot
        self._adapted_policy: str | None = None
        self._turn: AbstractContextManager[Any] = nullcontext()
        self._dtype: torch.dtype = getattr(torch, config.dtype)
        self._model: Any = None
        self._tried: Any = None
        """The module that has computed a token, so that its attention is known to be supported."""
        self._architecture: dict[str, Any] = {}
        self._tokenizer: HuggingFaceTokenizer | None = None
        self._version: PolicyVersion | None = None
        self._prefixes = PrefixCache(int(config.kept_prefixes_gib * (1 << 30)))

    @property
    def tokenizer(self) -> HuggingFaceTokenizer:
        """The tokenizer of the last loaded folder."""
        assert self._tokenizer is not None, "no model was loaded yet; call load first"
        return self._tokenizer

    @property
    def version(self) -> PolicyVersion | None:
        """The version held; None before the first load and after a failed one."""
        return self._version

    def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
        """Load `folder`, with `adapter` if given, as `version`. When this raises, no version is held.

        Raises ArtifactMissing without a model folder, ArtifactCorrupt when it cannot be read or its digest differs, and
        ConfigurationError for a model that this engine does not compute exactly.
        """
        self._version = None
        digest = self._own_weights(folder) if adapter is None else self._load_adapter(folder, version.policy, adapter)
        check_weights(adapter or folder, digest, version)
        if self._tokenizer is None or not self._tokenizer.is_same_as(folder):
            self._tokenizer = HuggingFaceTokenizer.from_folder(folder)
        if self._model is not self._tried:
            check_engine(
                self._model,
                lambda prompt, completion: self.score([prompt], [completion])[0],
                computing=self._computing(),
                most_tokens=self._most_tokens(),
            )
            self._tried = self._model
        self._prefixes.use_weights(digest)
        self._version = version

    def _own_weights(self, folder: Path) -> str:
        """Load a private module, in place if possible; the digest of its weights."""
        self._adapted_policy, self._turn = None, nullcontext()
        architecture = architecture_of(folder)
        digest = refresh_model(self._model, folder) if architecture == self._architecture else None
        if digest is None:
            self._architecture = {}
            self._model, digest = build_tiny_model(folder, device=self._device, dtype=self._dtype)
            self._architecture = architecture
        return digest

    def _load_adapter(self, folder: Path, policy: str, adapter: Path) -> str:
        """Load an adapter into a shared module; the digest of both."""
        self._architecture = {}
        base, name = self._bases.base(folder, device=self._device, dtype=self._dtype), self._slot or policy
        with base.turn:
            adapter_digest = load_adapter(base.module, name, adapter)
        self._model, self._turn, self._adapted_policy = base.module, base.turn, name
        return compute_adapted_digest(base.digest, adapter_digest)

    def generate(self, requests: Sequence[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        """K completions for each request, in order. Raises StaleEngine when another version is held."""
        return self._generate(requests, version, prefixes=None)

    def generate_on_kept(
        self, requests: Sequence[GenerationRequest], version: PolicyVersion
    ) -> list[tuple[Completion, ...]]:
        """See KeepsPrefixes."""
        return self._generate(requests, version, prefixes=self._prefixes)

    def forget_prefixes(self) -> None:
        """Forget what was read for `generate_on_kept`."""
        self._prefixes.clear()

    def _generate(
        self, requests: Sequence[GenerationRequest], version: PolicyVersion, *, prefixes: PrefixCache | None
    ) -> list[tuple[Completion, ...]]:
        if self._version != version:
            raise StaleEngine(f"asked for {version}, but the engine holds {self._version}; refresh it first")
        if not requests:
            return []
        sampling = Sampling(requests, tokenizer=self.tokenizer, device=self._model.device)
        self._decode(
            [request.prompt_tokens for request in requests],
            [len(request.seeds_K) for request in requests],
            [request.longest_answer for request in requests],
            sampling,
            prefixes,
        )
        completions = iter(_completions(sampling, version))
        return [tuple(next(completions) for _ in request.seeds_K) for request in requests]

    def score(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        """Log-probabilities at temperature 1 of given tokens, fed one by one through the cache as in sampling."""
        scored = [index for index, tokens in enumerate(completions) if tokens]
        logprobs: list[tuple[float, ...]] = [()] * len(completions)
        if not scored:
            return logprobs
        forcing = TeacherForcing([completions[index] for index in scored], device=self._model.device)
        lengths = [len(completions[index]) for index in scored]
        self._decode([prompts[index] for index in scored], [1] * len(scored), lengths, forcing)
        for index, row, length in zip(scored, forcing.logprobs_N_T.tolist(), lengths, strict=True):
            logprobs[index] = tuple(row[:length])
        return logprobs

    def _decode(
        self,
        prompts_R: Sequence[tuple[int, ...]],
        num_candidates_R: Sequence[int],
        max_new_tokens_R: Sequence[int],
        choose: Choose,
        prefixes: PrefixCache | None = None,
    ) -> None:
        assert all(prompts_R), "a prompt without tokens predicts nothing"
        self._check_lengths(prompts_R, max_new_tokens_R)
        budget = self._config.max_batch_tokens
        rows = rows_of(prompts_R, num_candidates_R, max_new_tokens_R)
        with self._computing():
            batches = batches_of(rows, max_tokens=budget)
            for number, batch in enumerate(batches):
                with subtask(number / len(batches), (number + 1) / len(batches)):
                    capacity = capacity_of(batch, max_tokens=budget)
                    decode(self._model, batch, choose, capacity=capacity, prefixes=prefixes)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """With this generator's threads and adapter, and no other generator in a shared base."""
        with self._turn, computing_with(self._config.num_threads):
            if self._adapted_policy is not None:
                use_adapter(self._model, self._adapted_policy)
            yield

    def _check_lengths(self, prompts_R: Sequence[tuple[int, ...]], max_new_tokens_R: Sequence[int]) -> None:
        most = self._most_tokens()
        longest = max(len(prompt) + new for prompt, new in zip(prompts_R, max_new_tokens_R, strict=True))
        if most is not None and longest > most:
            raise ConfigurationError(
                f"a prompt and its answer may take {longest} tokens, but the model computes at most {most} at once; "
                "use a smaller problem, a lower agents.<role>.max_new_tokens or max_thinking_tokens, or a model with a longer "
                "context"
            )

    def _most_tokens(self) -> int | None:
        """The most tokens of a prompt and its answer that the model computes, and this engine with it."""
        return most_tokens(self._model.config.get_text_config())


def _completions(sampling: Sampling, version: PolicyVersion) -> Iterator[Completion]:
    columns = (sampling.tokens_N_T, sampling.logprobs_N_T, sampling.lengths_N, sampling.ended_N)
    for tokens, logprobs, length, ended in zip(*(each.tolist() for each in columns), strict=True):
        yield Completion(
            tokens=tuple(tokens[:length]),
            logprobs=tuple(logprobs[:length]),
            finish_reason="stop" if ended else "length",
            version=version,
        )
