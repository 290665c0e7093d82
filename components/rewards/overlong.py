"""DAPO's soft overlong punishment: an answer that nears its limit loses reward, so that it learns to end in time (arXiv
2503.14476, eq. 13).

The sampler does not see it: which candidate is handed on, and whether a problem has a signal, is decided by what answers did.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from components.config import RewardConfig
from components.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlong:
    """How length is punished. `limits` is the longest answer of each agent, in tokens, its end included."""

    buffer: int
    penalty: float
    limits: Mapping[str, int]

    def punishment(self, agent: str, num_tokens: int) -> float:
        """What an answer of `num_tokens` loses: nothing up to the buffer, then linearly up to `penalty` at the limit.

        **Example** limit 20, buffer 4, penalty 1: 16 tokens lose 0, 17 lose .25, 20 lose 1.
        """
        excess = num_tokens - (self.limits[agent] - self.buffer)
        return self.penalty * min(max(excess / self.buffer, 0.0), 1.0)


def overlong_for(config: RewardConfig, limits: Mapping[str, int]) -> Overlong | None:
    """The punishment that `config` asks for; None without a buffer.

    Raises ConfigurationError when the buffer is as long as an agent's longest answer: all of its answers would be punished.
    """
    if not config.overlong_buffer:
        return None
    for agent, limit in limits.items():
        if config.overlong_buffer >= limit:
            raise ConfigurationError(
                f"rewards.overlong_buffer {config.overlong_buffer}: answers of {agent} have at most {limit} tokens; set it "
                "below that, or raise agents.*.max_new_tokens"
            )
    return Overlong(buffer=config.overlong_buffer, penalty=config.overlong_penalty, limits=dict(limits))
