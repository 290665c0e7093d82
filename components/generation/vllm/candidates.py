"""Candidates sampled over one or more requests: an answer whose budget depends on its text is continued as far as it may."""

from components.generation.base import Completion, GenerationRequest
from components.generation.stop_tracking import StopTracker
from components.generation.vllm.loaded_weights import ServedVersion
from components.generation.vllm.router import Job
from components.generation.vllm.wire import generation_job
from components.identity import seed_for
from components.models.tokenizer import HuggingFaceTokenizer
from components.schema import FinishReason, PolicyVersion


class SampledCandidate:
    """One candidate of a request. `job` asks for more of it, and `take` adds the answer, until `is_finished`.

    What counts is the text as our tokenizer decodes it: where a server stops before or after that, the rest is asked for or
    left out. A continuation has the candidate's seed mixed with its length, so a server that repeats its answers repeats these.
    """

    def __init__(self, request: GenerationRequest, seed: int, tokenizer: HuggingFaceTokenizer) -> None:
        self._request, self._seed = request, seed
        self._end_tokens = tokenizer.end_tokens
        self._growing = StopTracker(request, tokenizer) if request.ends_by_text else None
        self._tokens: list[int] = []
        self._logprobs: list[float] = []
        self._finish_reason: FinishReason | None = None

    @property
    def is_finished(self) -> bool:
        return self._finish_reason is not None

    def job(self, serving: ServedVersion) -> Job:
        """The request for the next tokens."""
        num_tokens, growing = len(self._tokens), self._growing
        return generation_job(
            self._request,
            serving,
            end_tokens=self._end_tokens,
            begun=self._tokens,
            max_tokens=self._request.max_new_tokens if growing is None else growing.remaining,
            stop=() if growing is None else growing.watched,
            seed=seed_for(self._seed, "continued", num_tokens) if num_tokens else self._seed,
        )

    def take(self, completion: Completion) -> None:
        """Append the tokens that belong to the answer; those after its end are left out."""
        assert completion.tokens, "a server answered without tokens"
        for token, logprob in zip(completion.tokens, completion.logprobs, strict=True):
            self._tokens.append(token)
            self._logprobs.append(logprob)
            if self._growing is not None:
                self._growing.add(token)
            self._finish_reason = self._reason(token)
            if self._finish_reason is not None:
                return

    def _reason(self, token: int) -> FinishReason | None:
        """Why the answer is finished with its newest token; None if it is not."""
        if token in self._end_tokens or (self._growing is not None and self._growing.is_stopped):
            return "stop"
        limit = self._request.max_new_tokens if self._growing is None else self._growing.limit
        return "length" if len(self._tokens) >= limit else None

    def completion(self, version: PolicyVersion) -> Completion:
        """The finished answer."""
        assert self._finish_reason is not None, f"{len(self._tokens)} tokens of an answer that goes on"
        return Completion(
            tokens=tuple(self._tokens),
            logprobs=tuple(self._logprobs),
            finish_reason=self._finish_reason,
            version=version,
        )


def candidates_of(request: GenerationRequest, tokenizer: HuggingFaceTokenizer) -> list[SampledCandidate]:
    """One for each seed of `request`; only one for a greedy request, because all its candidates are equal."""
    seeds = request.seeds_K if request.temperature > 0 else request.seeds_K[:1]
    return [SampledCandidate(request, seed, tokenizer) for seed in seeds]
