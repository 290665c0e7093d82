"""Is a rate among a few draws too far from the rate of those around them? An exact test.

A z-score is not enough here. The level of one test among thousands is about 1e-5, and that far out the normal curve is wrong:
with a rate of .05 and 20 trials, 6 successes exceed Wilson's lower bound at 1.3e-5 but have a probability of 3.3e-4, so that
random play would show patterns. Fisher's exact test has no such gap.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Trials that are alike but for what is tested: `drawn` of `population`, of which `successes` succeeded."""

    drawn: int
    successes: int
    population: int


def chance_of_at_least(successes: int, blocks: Iterable[Block]) -> float:
    """The probability that trials drawn at random in each block hold `successes` or more together.

    The exact one-sided test of a 2 x 2 table (R. A. Fisher, "The logic of inductive inference", 1935), over several tables
    with the distribution of their sum (Cochran, 1954; Mantel and Haenszel, 1959). It needs no estimate of a rate, so that it
    holds for small histories and for rates that differ from block to block.

    **Example** 4 of 4 draws succeed where 5 of 10 trials do: 5/10 * 4/9 * 3/8 * 2/7 = 1/42, about .0238.
    """
    certain, chances = 0, np.ones(1)
    for block in blocks:
        least, chances_X = _hypergeometric(block)
        certain, chances = certain + least, np.convolve(chances, chances_X)
    return min(1.0, float(chances[max(0, successes - certain) :].sum()))


@lru_cache(maxsize=4096)
def _hypergeometric(block: Block) -> tuple[int, NDArray[np.float64]]:
    """The least number of successes among the drawn of a block, and the probabilities of that number and those above it."""
    drawn, successes, population = block.drawn, block.successes, block.population
    assert 0 <= drawn <= population, f"{drawn} drawn of {population}"
    assert 0 <= successes <= population, f"{successes} successes in {population}"
    least, most = max(0, drawn + successes - population), min(drawn, successes)
    ways = [comb(successes, count) * comb(population - successes, drawn - count) for count in range(least, most + 1)]
    return least, np.array([each / comb(population, drawn) for each in ways])
