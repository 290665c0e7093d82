"""Synchronized members: after each round all hold one adapter and one optimizer state, the mean of theirs.

The moments are averaged with the weights. A replica that kept its own would take another next step under the same
gradient, and equal replicas would be equal for one step alone.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from components.errors import ConfigurationError
from components.population.adapters import Adapter, Learner, check_mixable, checked_shares, weighted_mean


def synchronized_learner(learners: Mapping[str, Learner]) -> Learner:
    """The learner that every member continues with: means of all weights and of both moments, over members by name.

    A and B are averaged apart, and the product of means is not the mean of products (`federated.py` has that). For
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
    shares = checked_shares(tensors, shares)
    names = sorted(tensors[min(tensors)])
    for member, own in tensors.items():
        if sorted(own) != names:
            raise ConfigurationError(
                f"optimizer state of {member!r}: tensors {sorted(own)}, others {names}; train the same ones in all members"
            )
        if bad := [name for name, tensor in own.items() if not bool(torch.isfinite(tensor).all())]:
            raise ConfigurationError(f"{sorted(bad)} of {member!r}: hold NaN or infinity; take its previous version")
    return {name: weighted_mean([tensors[member][name] for member in shares], list(shares.values())) for name in names}


def common_num_updates(learners: Mapping[str, Learner]) -> int:
    """The number of updates that all learners have taken. Raises ConfigurationError if it differs."""
    counts = {name: learner.num_updates for name, learner in sorted(learners.items())}
    if len(set(counts.values())) > 1:
        raise ConfigurationError(
            f"num_updates {counts}: give each member one update a round, or start from fresh moments"
        )
    return next(iter(counts.values()))
