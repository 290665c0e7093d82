"""Choosing the next tokens from the logits of a step: sample them, or follow given tokens and score them."""

from collections.abc import Sequence

import torch

from components.generation.base import GenerationRequest
from components.generation.local.sampling import cut_tail, draw_tokens, temper_logprobs, uniforms
from components.generation.stop_tracking import StopTracker
from components.models.tokenizer import HuggingFaceTokenizer
from components.text.choice_tokens import following_tokens, with_token


class Sampling:
    """Samples the N candidates of `requests`, numbered consecutively by request and seed, with at most T tokens each.

    After decoding, row n of `tokens_N_T` and `logprobs_N_T` holds candidate n up to `lengths_N[n]`, and `ended_N` whether it
    ended by itself.
    """

    def __init__(
        self, requests: Sequence[GenerationRequest], *, tokenizer: HuggingFaceTokenizer, device: torch.device
    ) -> None:
        seeds = [seed for request in requests for seed in request.seeds_K]
        counts = torch.tensor([len(request.seeds_K) for request in requests])
        longest = max(request.longest_answer for request in requests)
        each_N = (request for request in requests for _ in request.seeds_K)
        self._growing = {n: StopTracker(each, tokenizer) for n, each in enumerate(each_N) if each.ends_by_text}
        limits = torch.tensor([request.max_new_tokens for request in requests])
        temperatures = torch.tensor([request.temperature for request in requests], dtype=torch.float32)
        self._end_tokens = torch.tensor(sorted(tokenizer.end_tokens), device=device)
        self._limits_N = limits.repeat_interleave(counts).to(device)
        self._temperatures_N = temperatures.repeat_interleave(counts).to(device)
        top_ps = torch.tensor([request.top_p for request in requests], dtype=torch.float64)
        self._top_ps_N = top_ps.repeat_interleave(counts).to(device)
        self._some_cut = bool((top_ps < 1).any())
        self._all_greedy, self._some_greedy = bool((temperatures == 0).all()), bool((temperatures == 0).any())
        self._uniforms_N_T = torch.from_numpy(uniforms(seeds, longest)).to(device)
        self.tokens_N_T = torch.zeros(len(seeds), longest, dtype=torch.long, device=device)
        self.logprobs_N_T = torch.zeros(len(seeds), longest, dtype=torch.float32, device=device)
        self.lengths_N = torch.zeros(len(seeds), dtype=torch.long, device=device)
        self.ended_N = torch.zeros(len(seeds), dtype=torch.bool, device=device)
        for n, answer in self._growing.items():
            self._limits_N[n] = answer.limit
        among = (request.choices for request in requests for _ in request.seeds_K)
        self._choices = {n: choices for n, choices in enumerate(among) if choices}

    def __call__(
        self, logits_M_V: torch.Tensor, candidates_M: torch.Tensor, positions_M: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The next token of each candidate, and whether it is the last."""
        temperatures_M = self._temperatures_N[candidates_M]
        choosing = self._choosing(candidates_M, positions_M) if self._choices else []
        if choosing:
            logits_M_V = _among(
                logits_M_V, [following_tokens(self._choices[n], t) if n >= 0 else () for n, t in choosing]
            )
        logprobs_M_V = temper_logprobs(logits_M_V, temperatures_M)
        if self._all_greedy:
            tokens_M = logprobs_M_V.argmax(dim=-1)
        else:
            greedy_M = temperatures_M == 0 if self._some_greedy else None
            drawn_M_V = cut_tail(logprobs_M_V, self._top_ps_N[candidates_M]) if self._some_cut else logprobs_M_V
            tokens_M = draw_tokens(drawn_M_V, self._uniforms_N_T[candidates_M, positions_M], greedy_M)
        for (n, t), token in zip(choosing, tokens_M.tolist() if choosing else (), strict=True):
            if n >= 0:
                self._choices[n] = with_token(self._choices[n], t, token)
        self.tokens_N_T[candidates_M, positions_M] = tokens_M
        self.logprobs_N_T[candidates_M, positions_M] = logprobs_M_V.gather(1, tokens_M[:, None])[:, 0]
        self.lengths_N[candidates_M] = positions_M + 1
        ended_M = torch.isin(tokens_M, self._end_tokens)
        if self._growing:
            ended_M |= self._find_stopped(candidates_M, tokens_M)
        self.ended_N[candidates_M] = ended_M
        return tokens_M, ended_M | (self._limits_N[candidates_M] <= positions_M + 1)

    def _choosing(self, candidates_M: torch.Tensor, positions_M: torch.Tensor) -> list[tuple[int, int]]:
        """Each candidate and its position; -1 for one whose answer is any text."""
        numbers = candidates_M.tolist()
        return [(n if n in self._choices else -1, t) for n, t in zip(numbers, positions_M.tolist(), strict=True)]

    def _find_stopped(self, candidates_M: torch.Tensor, tokens_M: torch.Tensor) -> torch.Tensor:
        """Whether each candidate's text holds a stop string with its newest token; its limit may change too."""
        stopped = []
        for n, token in zip(candidates_M.tolist(), tokens_M.tolist(), strict=True):
            answer = self._growing.get(n)
            if answer is not None:
                limit = answer.limit
                answer.add(token)
                if answer.limit != limit:
                    self._limits_N[n] = answer.limit
            stopped.append(answer is not None and answer.is_stopped)
        return torch.tensor(stopped, device=tokens_M.device)


def _among(logits_M_V: torch.Tensor, allowed_M: Sequence[tuple[int, ...]]) -> torch.Tensor:
    """The logits, minus infinity at the tokens that are not allowed; none are named where all are."""
    rows = [m for m, allowed in enumerate(allowed_M) for _ in allowed]
    restricted = logits_M_V.clone()
    restricted[sorted(set(rows))] = -torch.inf
    columns = [token for allowed in allowed_M for token in allowed]
    restricted[rows, columns] = logits_M_V[rows, columns]
    return restricted


class TeacherForcing:
    """Feeds given completions, one candidate each; `logprobs_N_T` collects their log-probabilities at temperature 1."""

    def __init__(self, completions_N: Sequence[tuple[int, ...]], *, device: torch.device) -> None:
        longest = max(map(len, completions_N))
        padded = [tokens + (0,) * (longest - len(tokens)) for tokens in completions_N]
        self._tokens_N_T = torch.tensor(padded, device=device)
        self._lengths_N = torch.tensor([len(tokens) for tokens in completions_N], device=device)
        self.logprobs_N_T = torch.zeros(len(completions_N), longest, dtype=torch.float32, device=device)

    def __call__(
        self, logits_M_V: torch.Tensor, candidates_M: torch.Tensor, positions_M: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The given next token of each candidate, and whether it is the last."""
        tokens_M = self._tokens_N_T[candidates_M, positions_M]
        logprobs_M_V = torch.log_softmax(logits_M_V.float(), dim=-1)
        self.logprobs_N_T[candidates_M, positions_M] = logprobs_M_V.gather(1, tokens_M[:, None])[:, 0]
        return tokens_M, self._lengths_N[candidates_M] == positions_M + 1
