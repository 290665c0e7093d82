"""Each agent's share of a policy's gradient."""

import numpy as np
import torch
from torch import Tensor

from components import metrics
from components.schema import TrainBatch
from components.training.packing import Ints
from components.training.ranks import Ranks


class GradientShares:
    """Sums of |d loss / d logprob| over the tokens of each agent, on this rank, for a policy that plays several.

    The loss is the aggregated one, with its weights and clips and the KL term; the entropy, which is no function of the
    sampled token, counts in none. Autograd passes these slopes on its way to the parameters, so that they cost no second pass.
    """

    def __init__(self, batch: TrainBatch) -> None:
        self._agents = batch.agents if len(batch.agents) > 1 else ()
        numbers = {agent: number for number, agent in enumerate(self._agents)}
        agents = [numbers[group.group.agent] for group in batch.groups] if self._agents else []
        self._agents_G: Ints = np.array(agents, np.int64)
        self._sums_A = torch.zeros(len(self._agents), dtype=torch.float64)

    def watch(self, logprobs_N: Tensor) -> None:
        """Keep the slopes of `logprobs_N` in the backward pass that follows."""
        if self._agents:
            logprobs_N.retain_grad()

    def add(self, logprobs_N: Tensor, groups_N: Ints) -> None:
        """Count the slopes of watched `logprobs_N`, tokens of the groups `groups_N`, after the backward pass."""
        if self._agents and logprobs_N.grad is not None:
            sizes_N = logprobs_N.grad.abs().double().cpu()
            self._sums_A.index_add_(0, torch.from_numpy(self._agents_G[groups_N]), sizes_N)

    def metrics(self, ranks: Ranks) -> dict[str, float]:
        """The share of each agent over all ranks, by name; they add up to 1. Nothing if no token has a slope."""
        if not self._agents:
            return {}
        sums_A = ranks.sum(self._sums_A)
        total = float(sums_A.sum())
        pairs = zip(self._agents, sums_A.tolist(), strict=True)
        return {metrics.gradient_share(agent): value / total for agent, value in pairs} if total else {}
