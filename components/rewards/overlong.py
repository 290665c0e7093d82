"""DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13): an answer close to its length limit loses reward.

The sampler ignores it when it chooses a candidate, and when it decides whether a problem has a signal.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from components.config import RewardConfig
from components.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlong:
    """A length penalty. `limits` is the maximum length of each agent's answer in tokens, including its end token."""

    buffer: int
    penalty: float
    limits: Mapping[str, int]

    def punishment(self, agent: str, num_tokens: int) -> float:
        """The penalty of an answer of `num_tokens`: 0 up to the buffer, then linear up to `penalty` at the limit.

        **Example** limit 20, buffer 4, penalty 1: 16 tokens lose 0, 17 lose .25, 20 lose 1.
        """
        excess = num_tokens - (self.limits[agent] - self.buffer)
        return self.penalty * min(max(excess / self.buffer, 0.0), 1.0)


def overlong_for(config: RewardConfig, limits: Mapping[str, int]) -> Overlong | None:
    """The penalty of `config`; None without a buffer.

    Raises ConfigurationError if the buffer is as long as an agent's longest answer, so that all answers would be punished.
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
