"""Asynchronous members: each updates its own adapter at its own pace, and old samples and late adapters count less.

Staleness is the number of updates between the version that sampled and the version that learns. Within a bound it
lowers a weight, `(1 + staleness) ** -exponent` (FedAsync, arXiv:1903.03934); beyond it a sample is dropped, and
counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from components.bounds import checked_share
from components.errors import ConfigurationError
from components.population.adapters import Adapter
from components.population.federated import Merge, pulled_adapter

MAX_STALENESS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessWeights:
    """`weights` has one number per sample, 0 for a dropped one. The mean staleness is over all samples, dropped ones too."""

    weights: tuple[float, ...]
    num_dropped: int
    mean_staleness: float


def staleness_weight(
    sampled_version: int, current_version: int, *, max_staleness: int = MAX_STALENESS, exponent: float = 0.5
) -> float:
    """The weight, 0 to 1, of what version `sampled_version` made, for an update of `current_version`.

    Raises ConfigurationError for a version that does not exist yet.

    **Example** current version 7, exponent .5: 1 for version 7, .707 for 6, .577 for 5, 0 for 4.
    """
    if sampled_version > current_version:
        raise ConfigurationError(f"sampled_version {sampled_version}: the current version is {current_version}")
    if max_staleness < 0 or exponent < 0:
        raise ConfigurationError(f"max_staleness {max_staleness}, exponent {exponent}: use 0 or more")
    staleness = current_version - sampled_version
    return float((1 + staleness) ** -exponent) if staleness <= max_staleness else 0.0


def staleness_weights(
    sampled_versions: Sequence[int],
    current_version: int,
    *,
    max_staleness: int = MAX_STALENESS,
    exponent: float = 0.5,
) -> StalenessWeights:
    """The weight of each sample, with what was dropped.

    **Example** versions (7, 6, 1) at 7: weights (1, .707, 0), 1 dropped, mean staleness 7/3.
    """
    weights = tuple(
        staleness_weight(version, current_version, max_staleness=max_staleness, exponent=exponent)
        for version in sampled_versions
    )
    total = sum(current_version - version for version in sampled_versions)
    return StalenessWeights(
        weights=weights,
        num_dropped=weights.count(0.0),
        mean_staleness=total / len(weights) if weights else 0.0,
    )


def adapter_after_late_arrival(
    current: Adapter, late: Adapter, *, late_version: int, current_version: int, share: float = 0.5
) -> Merge | None:
    """`(1 - s) current + s late` with s = `share * staleness weight`; None if the late adapter is too old to count.

    **Example** share .5, one shared A, B of 0 and of 1 from one version ago: .354.
    """
    weight = checked_share("share", share) * staleness_weight(late_version, current_version)
    return pulled_adapter(current, late, weight) if weight else None
