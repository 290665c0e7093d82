"""Federated and synchronized members.

Federated: the mean of what the adapters do, `sum share_i scale B_i A_i`, as one adapter.

Averaging A and B apart is not averaging their product. If all members share one A, as they do with a frozen one, then
the mean of the B is exact and the rank stays (FFA-LoRA, arXiv:2403.12313). Otherwise all A are stacked and all weighted
B beside each other, which is exact at the sum of the ranks (FLoRA, arXiv:2409.05976), and the best adapter of the old
rank is taken from that by a singular value decomposition; what it leaves out is returned as the residual.

Synchronized: after each round all hold one adapter and one optimizer state, the mean of theirs.

The moments are averaged with the weights. A replica that kept its own would take another next step under the same
gradient, and equal replicas would be equal for one step alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, sqrt
from typing import Literal

import torch
from torch import Tensor

from components.errors import ConfigurationError
from components.population.adapters import (
    Adapter,
    Learner,
    adapter_from_factors,
    average_weighted,
    check_mixable,
    check_shares,
    equal_tensors,
)


def synchronize_learners(learners: Mapping[str, Learner]) -> Learner:
    """The learner that every member continues with: means of all weights and of both moments, over members by name.

    A and B are averaged apart, and the product of means is not the mean of products (`merge_adapters` has that). For
    replicas that start each round equal the difference is of second order in their steps.

    Raises ConfigurationError if members cannot be mixed, hold a moment that is not finite, or have taken different
    numbers of updates: Adam corrects its moments by that number.

    **Example** weights (1, 3) and moments (.2, .4): weight 2, moment .3.
    """
    equal = {name: 1 / len(learners) for name in learners}
    check_mixable({name: learner.adapter for name, learner in learners.items()})
    first = learners[min(learners)]
    weights = mean_tensors({name: learner.adapter.weights for name, learner in learners.items()}, equal)
    return Learner(
        adapter=Adapter(base=first.adapter.base, scale=first.adapter.scale, weights=weights),
        num_updates=common_num_updates(learners),
        first_moments=mean_tensors({name: learner.first_moments for name, learner in learners.items()}, equal),
        second_moments=mean_tensors({name: learner.second_moments for name, learner in learners.items()}, equal),
    )


def mean_tensors(tensors: Mapping[str, Mapping[str, Tensor]], shares: Mapping[str, float]) -> dict[str, Tensor]:
    """The weighted mean of each named tensor over the members.

    Raises ConfigurationError if members have tensors of different names, or one with NaN or infinity.
    """
    shares = check_shares(tensors, shares)
    names = sorted(tensors[min(tensors)])
    for member, own in tensors.items():
        if sorted(own) != names:
            raise ConfigurationError(
                f"optimizer state of {member!r}: tensors {sorted(own)}, others {names}; train the same ones in all members"
            )
        if bad := [name for name, tensor in own.items() if not bool(torch.isfinite(tensor).all())]:
            raise ConfigurationError(f"{sorted(bad)} of {member!r}: hold NaN or infinity; take its previous version")
    return {
        name: average_weighted([tensors[member][name] for member in shares], list(shares.values())) for name in names
    }


def common_num_updates(learners: Mapping[str, Learner]) -> int:
    """The number of updates that all learners have taken. Raises ConfigurationError if it differs."""
    counts = {name: learner.num_updates for name, learner in sorted(learners.items())}
    if len(set(counts.values())) > 1:
        raise ConfigurationError(
            f"num_updates {counts}: give each member one update a round, or start from fresh moments"
        )
    return next(iter(counts.values()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merge:
    """A merged adapter. `residual` is the norm of what is missing over the norm of the exact mean, both over all targets.

    `mean` is exact and has residual 0, up to the rounding of the tensors' type; `stack` is the decomposition.
    """

    adapter: Adapter
    method: Literal["mean", "stack"]
    residual: float


def round_shares(
    num_samples: Mapping[str, int], average_returns: Mapping[str, float] | None = None, temperature: float = 1.0
) -> dict[str, float]:
    """The share of each member in a round: its samples over all (FedAvg, arXiv:1602.05629, algorithm 1).

    With average raw returns, samples are weighed by the softmax of `return / temperature`, which is defined for
    negative returns where a share of the returns is not.

    **Example** 30 and 10 samples: .75 and .25; with returns 0 and log 3 at temperature 1: .5 each.
    """
    if not num_samples or min(num_samples.values()) < 0 or sum(num_samples.values()) == 0:
        raise ConfigurationError(f"num_samples {dict(num_samples)}: use counts of which one is above 0")
    weights = {name: float(num) for name, num in sorted(num_samples.items())}
    if average_returns is not None:
        best = max(value for name, value in average_returns.items() if num_samples[name])
        weights = {
            name: num and num * exp((average_returns[name] - best) / temperature) for name, num in weights.items()
        }
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def merge_adapters(adapters: Mapping[str, Adapter], shares: Mapping[str, float], rank: int | None = None) -> Merge:
    """The weighted mean of the members' weight changes, of one rank: by default that of the members.

    The scale stays, so that an adapter of another rank is to be saved with alpha = scale x rank. Raises
    ConfigurationError if the members cannot be mixed or the shares do not add to 1.

    **Example** one shared A, B of 1 and 3, shares .5: B is 2, residual 0. Two members that change different inputs and
    outputs by 1: the mean has singular values (.5, .5), rank 1 keeps one of them, residual sqrt(1/2).
    """
    check_mixable(adapters)
    shares = check_shares(adapters, shares)
    members = [adapters[name] for name in shares]
    first, weights = members[0], list(shares.values())
    keeps_rank = rank is None or set(first.ranks) == {rank}
    if keeps_rank and all(equal_tensors([each.a(target) for each in members]) for target in first.targets):
        means = {t: (first.a(t), average_weighted([each.b(t) for each in members], weights)) for t in first.targets}
        return Merge(adapter=adapter_from_factors(first.base, first.scale, means), method="mean", residual=0.0)
    factors, missing, whole = {}, 0.0, 0.0
    for target in first.targets:
        kept_rank = rank or first.a(target).shape[0]
        stacked_a = torch.cat([each.a(target).double() for each in members])
        stacked_b = torch.cat([w * each.b(target).double() for w, each in zip(weights, members, strict=True)], dim=1)
        a, b, values = truncate_product(stacked_a, stacked_b, kept_rank)
        factors[target] = (a.to(first.a(target).dtype), b.to(first.b(target).dtype))
        missing += float((values[kept_rank:] ** 2).sum())
        whole += float((values**2).sum())
    residual = sqrt(missing / whole) if whole else 0.0
    return Merge(adapter=adapter_from_factors(first.base, first.scale, factors), method="stack", residual=residual)


def truncate_product(a: Tensor, b: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """A' [rank, inputs] and B' [outputs, rank] with the product nearest to `b @ a`, and its singular values, falling.

    The values are all of `b @ a`. The decomposition is that of a small core between two QR factors, so that
    no [outputs, inputs] is made (Eckart and Young, 1936). A' has orthonormal rows and B' the singular values: a product
    of 0 leaves an A' through which B' can still be trained. Rows beyond the core are 0.
    """
    if rank < 1:
        raise ConfigurationError(f"rank {rank}: use 1 or more")
    outer, right = torch.linalg.qr(b)
    inner, left = torch.linalg.qr(a.T)
    u, values, v = torch.linalg.svd(right @ left.T)
    kept = min(rank, len(values))
    new_a = torch.zeros(rank, a.shape[1], dtype=a.dtype)
    new_b = torch.zeros(b.shape[0], rank, dtype=b.dtype)
    new_a[:kept] = v[:kept] @ inner.T
    new_b[:, :kept] = (outer @ u[:, :kept]) * values[:kept]
    return new_a, new_b, values


def federate_learners(learners: Mapping[str, Learner], shares: Mapping[str, float]) -> tuple[Learner, Merge]:
    """The learner that every member continues with, and the merge of the adapters.

    Under `mean` both moments are averaged with the same shares, and the numbers of updates must be equal. Under `stack`
    the basis of the adapter is a new one, in which old moments mean nothing: the learner starts with none.
    """
    merge = merge_adapters({name: learner.adapter for name, learner in learners.items()}, shares)
    if merge.method == "stack":
        return Learner(adapter=merge.adapter), merge
    learner = Learner(
        adapter=merge.adapter,
        num_updates=common_num_updates(learners),
        first_moments=mean_tensors({name: each.first_moments for name, each in learners.items()}, shares),
        second_moments=mean_tensors({name: each.second_moments for name, each in learners.items()}, shares),
    )
    return learner, merge


def pull_adapter(own: Adapter, towards: Adapter, share: float) -> Merge:
    """`(1 - share) own + share towards`, in weight changes: a personalised member (.3), or a follower and its leader.

    **Example** one shared A, B of 1 towards 2 by .3: 1.3.
    """
    return merge_adapters({"own": own, "towards": towards}, {"own": 1 - share, "towards": share})
