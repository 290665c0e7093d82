"""How well advantages rank the candidates of a node: rank correlations within nodes, with intervals over nodes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
NUM_RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One node: what an estimator says of its candidates, and what they are worth. None: the estimator says nothing."""

    advantages_K: tuple[float | None, ...]
    values_K: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A statistic and its 95% interval by resampling nodes."""

    value: float
    low: float
    high: float


def pool_correlations(nodes: Sequence[Ranked], *, seed: int = 0) -> Estimate | None:
    """The correlation of ranks within nodes, pooled: covariances and variances are summed over nodes before they are divided.

    A node at which an estimator is silent, or says the same of all candidates, counts against it if the values differ. None
    if the advantages, or the values, are equal within every node.

    **Example** two nodes with values (0, 1): advantages (0, 1) and (1, 1) give .71, advantages (0, 1) and (5, 5.1) give 1.
    """
    sums_N = np.array([_sums(node) for node in nodes], dtype=np.float64).reshape(-1, 3)
    return _estimate(_pool, sums_N, seed)


def mean_correlation(nodes: Sequence[Ranked], *, seed: int = 0) -> Estimate | None:
    """The mean of the nodes' rank correlations, over nodes whose values differ; a node without a ranking counts as 0.

    None if the advantages, or the values, are equal within every node.
    """
    sums_N = np.array([_sums(node) for node in nodes], dtype=np.float64).reshape(-1, 3)
    if not sums_N[:, 1].any():
        return None
    return _estimate(_mean, sums_N, seed)


def silent_fraction(nodes: Sequence[Ranked]) -> float:
    """The share of nodes with different values at which the estimator ranks no candidate above another."""
    sums = [_sums(node) for node in nodes]
    differing = [advantages for _, advantages, values in sums if values > 0]
    return sum(each == 0 for each in differing) / len(differing) if differing else 0.0


def _sums(node: Ranked) -> tuple[float, float, float]:
    """The covariance of the ranks of one node and their variances, as sums. Silent candidates share the middle rank."""
    assert len(node.advantages_K) == len(node.values_K), f"{node}: {len(node.advantages_K)} advantages"
    known = np.array([advantage is not None for advantage in node.advantages_K], dtype=bool)
    advantages_K = np.zeros(len(known))
    if known.any():
        ranks = rankdata([advantage for advantage in node.advantages_K if advantage is not None])
        advantages_K[known] = ranks - ranks.mean()
    values_K = rankdata(node.values_K)
    values_K = values_K - values_K.mean()
    return float(advantages_K @ values_K), float(advantages_K @ advantages_K), float(values_K @ values_K)


def _pool(sums_N: Floats) -> Floats:
    """Over the next to last axis, which is that of nodes; NaN where it is undefined."""
    covariance, advantages, values = np.moveaxis(sums_N.sum(axis=-2), -1, 0)
    scale = np.sqrt(advantages * values)
    return np.divide(covariance, scale, out=np.full_like(scale, math.nan), where=scale > 0)


def _mean(sums_N: Floats) -> Floats:
    """Over the next to last axis, as `_pool`."""
    covariances, advantages, values = np.moveaxis(sums_N, -1, 0)
    scales = np.sqrt(advantages * values)
    each = np.divide(covariances, scales, out=np.zeros_like(scales), where=scales > 0)
    num_differing = (values > 0).sum(axis=-1).astype(np.float64)
    return np.divide(
        each.sum(axis=-1), num_differing, out=np.full_like(num_differing, math.nan), where=num_differing > 0
    )


def _estimate(statistic: Callable[[Floats], Floats], sums_N: Floats, seed: int) -> Estimate | None:
    value = float(statistic(sums_N))
    if math.isnan(value):
        return None
    draws = np.random.default_rng(seed).integers(len(sums_N), size=(NUM_RESAMPLES, len(sums_N)))
    low, high = np.nanpercentile(statistic(sums_N[draws]), [2.5, 97.5])
    return Estimate(value=value, low=float(low), high=float(high))


def noise_ceiling(halves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    """The pooled correlation that true values would reach with estimates from all continuations: sqrt of their reliability.

    `halves` are each node's candidates valued by the one and the other half of the continuations. The correlation r of the
    halves gives the reliability of both together by Spearman and Brown, 2 r / (1 + r). For ranks of a few candidates this is an
    approximation, up to .05 too high. None if it is undefined or not positive.

    **Example** r = .9: reliability .947, ceiling .973.
    """
    found = pool_correlations(
        [Ranked(advantages_K=tuple(one), values_K=tuple(other)) for one, other in halves],
    )
    if found is None or found.value <= 0:
        return None
    return math.sqrt(2 * found.value / (1 + found.value))
