"""The engine behind HTTP: one policy on any number of vLLM servers (see `infra/vllm`)."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.config import VllmGeneration
from components.errors import ConfigurationError, LogprobMismatch, StaleEngine
from components.generation.base import Completion, GenerationRequest, SignFiles
from components.generation.vllm.background import Background
from components.generation.vllm.candidates import candidates_of
from components.generation.vllm.fleet import Fleet, Servers
from components.generation.vllm.folders import check_base_folder, merge_into_folder
from components.generation.vllm.loaded_weights import ServedVersion
from components.generation.vllm.router import Replicas
from components.generation.vllm.transport import Transport
from components.generation.vllm.wire import completion_from, scores_from, scoring_job
from components.machine.scratch import scratch_folder
from components.models.tokenizer import HuggingFaceTokenizer
from components.reporting.progress_share import report_share
from components.schema import PolicyVersion
from components.training.base import worst_mismatch


class VllmGenerator:
    """A Generator over those servers of `urls`, or those that `find` tells, that serve `model`. Thread-safe.

    Requests of a replica that fails go to another; a replica that comes back loads the weights first. Every candidate is
    checked to come from the requested version. Where `find` tells of no server, `load` waits as long as a start may take.
    Servers read the folders given to `load`; those that do not see them fetch their files from where `sign` says, and check
    their digests. `key` is their bearer token.

    **Example** two urls and a request with three seeds: three HTTP requests to the replica that has the prompt cached.
    """

    def __init__(
        self,
        config: VllmGeneration,
        *,
        model: str,
        key: str,
        urls: Sequence[str] = (),
        find: Callable[[], Servers] | None = None,
        start_command: str = "troupe up --engine vllm",
        sign: SignFiles = lambda folder: (),
    ) -> None:
        self._config = config
        self._model = model
        self._background = Background(f"vllm-{model}")
        self._transport = Transport(key)
        named = Servers(urls=tuple(dict.fromkeys(url.rstrip("/") for url in urls)))
        self._fleet = Fleet(
            config.vllm,
            model=model,
            find=find or (lambda: named),
            patience_seconds=config.vllm.start_timeout_seconds if find else 0.0,
            start_command=start_command,
            transport=self._transport,
            sign=sign,
        )
        self._serving: ServedVersion | None = None
        self._tokenizer: HuggingFaceTokenizer | None = None
        self._version: PolicyVersion | None = None
        self._scratch = Path(tempfile.mkdtemp(prefix="vllm-", dir=scratch_folder()))

    @property
    def tokenizer(self) -> HuggingFaceTokenizer:
        """The tokenizer of the last loaded folder."""
        assert self._tokenizer is not None, "no model was loaded yet; call load first"
        return self._tokenizer

    @property
    def version(self) -> PolicyVersion | None:
        """The version that every replica in use holds; None before the first load and after a failed one."""
        return self._version

    @property
    def replicas(self) -> Replicas:
        """The servers in use, and why the others are not."""
        return self._fleet.replicas

    def check(self) -> None:
        """Raise EngineUnavailable unless a server of this model answers, StaleEngine when all serve other models."""
        self._background.run(self._fleet.want(None))

    def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
        """Make every server that answers hold `version`. When this raises, no version is held.

        Raises ArtifactMissing or ArtifactCorrupt for the folders, EngineUnavailable when no server answers, StaleEngine when
        all serve other models, ConfigurationError when one cannot load the weights.
        """
        self._version = None
        serving = self._check_folders(folder, version, adapter)
        self._background.run(self._fleet.want(serving))
        if self._tokenizer is None or not self._tokenizer.is_same_as(folder):
            self._tokenizer = HuggingFaceTokenizer.from_folder(folder)
        self._serving, self._version = serving, version
        for made in self._scratch.iterdir():
            if made != self._place(version):
                shutil.rmtree(made, ignore_errors=True)

    def generate(self, requests: Sequence[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        """K completions for each request, in order, each checked to come from `version`.

        Raises StaleEngine when another version is held or was sampled from, EngineUnavailable when no server is left.
        """
        serving = self._serving_of(version)
        for request in requests:
            self._check_length(len(request.prompt_tokens) + request.longest_answer)
        tokenizer = self.tokenizer

        candidates_R = [candidates_of(request, tokenizer) for request in requests]
        waiting = [candidate for candidates in candidates_R for candidate in candidates]
        num_candidates, num_read = len(waiting), 0

        def read(url: str, answer: Any) -> Completion:
            nonlocal num_read
            num_read += 1
            report_share(min(num_read / num_candidates, 1.0))
            return completion_from(answer, serving, version, end_tokens=tokenizer.end_tokens, url=url)

        while waiting:
            jobs = [candidate.job(serving) for candidate in waiting]
            for candidate, more in zip(waiting, self._background.run(self._fleet.run(jobs, read)), strict=True):
                candidate.take(more)
            waiting = [candidate for candidate in waiting if not candidate.is_finished]
        found_R = [tuple(candidate.completion(version) for candidate in candidates) for candidates in candidates_R]
        return [found * (len(request.seeds_K) // len(found)) for found, request in zip(found_R, requests, strict=True)]

    def score(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        """Log-probabilities of given tokens at temperature 1. Every replica computes them; the first one's are returned.

        Raises LogprobMismatch when two replicas differ by more than `generation.probe_tolerance`.
        """
        assert self._version is not None, "no version is held; call load first"
        serving = self._serving_of(self._version)
        pairs = zip(prompts, completions, strict=True)
        return [self._score(prompt, completion, serving) if completion else () for prompt, completion in pairs]

    def close(self) -> None:
        """Release the thread, connections and scratch space. The servers keep running."""
        self._background.run(self._transport.close())
        self._background.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _check_folders(self, folder: Path, version: PolicyVersion, adapter: Path | None) -> ServedVersion:
        """What the servers have to hold, after checking that the folders hold `version`."""
        base, digest = check_base_folder(folder, version, adapter), version.weights_digest
        if adapter is None:
            return ServedVersion(model=self._model, weights=digest, digest=digest, folder=folder)
        if self._config.vllm.merge_adapters:
            whole = merge_into_folder(folder, adapter, self._place(version))
            return ServedVersion(model=self._model, weights=digest, digest=digest, folder=whole)
        name = f"{version.policy}@{digest[:16]}"  # one per version, so that no request reaches another version
        return ServedVersion(model=name, weights=base, digest=digest, folder=folder, adapter=adapter)

    def _score(self, prompt: tuple[int, ...], completion: tuple[int, ...], serving: ServedVersion) -> tuple[float, ...]:
        self._check_length(len(prompt) + len(completion) + 1)
        job = scoring_job(prompt, completion, serving)
        scores = self._background.run(
            self._fleet.run_everywhere(job, lambda url, answer: scores_from(answer, completion, serving, url=url))
        )
        self._check_agreement(scores)
        return next(iter(scores.values()))

    def _check_agreement(self, scores: Mapping[str, tuple[float, ...]]) -> None:
        (first, expected), *others = scores.items()
        for url, found in others:
            worst = worst_mismatch(expected, found, self._config.probe_tolerance)
            if not worst.is_allowed:
                raise LogprobMismatch(
                    f"{url} and {first} both claim to hold {self._version}, but differ by {worst.difference:.3g} in the same "
                    f"log-probabilities (tolerance {worst.allowed:.3g})"
                )

    def _serving_of(self, version: PolicyVersion) -> ServedVersion:
        if self._version != version or self._serving is None:
            raise StaleEngine(f"asked for {version}, but the engine holds {self._version}; refresh it first")
        return self._serving

    def _check_length(self, num_tokens: int) -> None:
        most = self._fleet.max_model_tokens
        if num_tokens > most:
            raise ConfigurationError(
                f"a prompt and its answer may take {num_tokens} tokens, but the servers of {self._model!r} take {most}; use a "
                "smaller problem, a lower agents.<role>.max_new_tokens or max_thinking_tokens, or a larger "
                "generation.vllm.max_model_tokens"
            )

    def _place(self, version: PolicyVersion) -> Path:
        """The folder for a base that an adapter is merged into."""
        return self._scratch / version.weights_digest[:32]
