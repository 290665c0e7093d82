"""Requests and answers of vLLM's token endpoint: token ids in; token ids, log-probabilities and weight versions out.

    POST /inference/v1/generate {model, token_ids, cache_salt, sampling_params}
    {choices: [{token_ids, finish_reason, logprobs: {content: [{token_id, logprob}]}, weight_versions: [{version}]}],
     prompt_logprobs: [null, {"17": {logprob}}, ...]}

The server must run with `--logprobs-mode processed_logprobs`, so that log-probabilities are those of the tempered
distribution it samples from. One request per candidate, because vLLM seeds the n-th answer of a request with its seed plus n.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from components.errors import StaleEngine
from components.generation.base import Completion, GenerationRequest
from components.generation.vllm.loaded_weights import ServedVersion, parse_loaded_weights
from components.generation.vllm.router import Job
from components.generation.vllm.transport import ReplicaFailed, encode_json
from components.schema import FinishReason, PolicyVersion

GENERATE = "/inference/v1/generate"
# Explicit, because a server takes missing values from the model's generation_config.json.
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "detokenize": False, "ignore_eos": True}


def generation_job(
    request: GenerationRequest,
    serving: ServedVersion,
    *,
    end_tokens: frozenset[int],
    begun: Sequence[int],
    max_tokens: int,
    stop: Sequence[str],
    seed: int,
) -> Job:
    """A job for at most `max_tokens` that continue `begun`, the first tokens of an answer to `request`."""
    sampling = {
        **_PLAIN,
        "max_tokens": max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "logprobs": 0,
        "stop_token_ids": sorted(end_tokens),
        "seed": seed,
    }
    if stop:
        sampling |= {"stop": list(stop), "include_stop_str_in_output": True, "detokenize": True}
    tokens = [*request.prompt_tokens, *begun]
    return _job(request.prompt_tokens, tokens, sampling, serving)


def prompt_key(tokens: Sequence[int]) -> bytes:
    """The routing key of a prompt."""
    return hashlib.blake2b(repr(tuple(tokens)).encode(), digest_size=8).digest()


def completion_from(
    answer: Any, serving: ServedVersion, version: PolicyVersion, *, end_tokens: frozenset[int], url: str
) -> Completion:
    """The candidate in an answer.

    Raises StaleEngine when a token came from other weights, ReplicaFailed when the answer was aborted or is malformed.
    """
    try:
        (choice,) = answer["choices"]
        tokens = tuple(choice["token_ids"])
        content = choice["logprobs"]["content"]
        logprobs = tuple(float(entry["logprob"]) for entry in content)
        named = tuple(entry["token_id"] for entry in content)
        reason = choice["finish_reason"]
        _check_weights(choice, serving, f"{url} answered from")
    except (KeyError, TypeError, ValueError) as error:
        raise ReplicaFailed(f"{url}: unexpected answer: {type(error).__name__}: {error}") from error
    if reason not in ("stop", "length") or not tokens or named != tokens:
        raise ReplicaFailed(f"{url} ended an answer of {len(tokens)} tokens with {reason!r}")
    finish: FinishReason = "stop" if tokens[-1] in end_tokens else "length"
    return Completion(tokens=tokens, logprobs=logprobs, finish_reason=finish, version=version)


def scoring_job(prompt: Sequence[int], completion: Sequence[int], serving: ServedVersion) -> Job:
    """A job whose answer has the log-probabilities of `completion` after `prompt`: both are sent as a prompt."""
    sampling = {**_PLAIN, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
    return _job(prompt, [*prompt, *completion], sampling, serving)


def scores_from(answer: Any, completion: Sequence[int], serving: ServedVersion, *, url: str) -> tuple[float, ...]:
    """The log-probabilities of `completion` in an answer to `scoring_job`. Raises StaleEngine or ReplicaFailed."""
    try:
        _check_weights(answer["choices"][0], serving, f"{url} scored with")
        tail = answer["prompt_logprobs"][-len(completion) :]
        return tuple(float(entry[str(token)]["logprob"]) for entry, token in zip(tail, completion, strict=True))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ReplicaFailed(f"{url}: unexpected scores: {type(error).__name__}: {error}") from error


def _job(prompt: Sequence[int], tokens: Sequence[int], sampling: Mapping[str, Any], serving: ServedVersion) -> Job:
    body = {"model": serving.model, "token_ids": tokens, "cache_salt": serving.digest, "sampling_params": sampling}
    # Names the adapter, so that the server keeps it while the request runs.
    path = GENERATE if serving.adapter is None else f"{GENERATE}?{urlencode({'adapter': serving.model})}"
    return Job(key=prompt_key(prompt), body=encode_json(body), path=path)


def _check_weights(choice: Any, serving: ServedVersion, what: str) -> None:
    """Raise StaleEngine unless every token of `choice` came from `serving`."""
    for span in choice["weight_versions"]:
        if not serving.is_held_by(parse_loaded_weights(span["version"])):
            raise StaleEngine(f"{what} {span['version']}, asked for {serving.digest}; refresh it first")
