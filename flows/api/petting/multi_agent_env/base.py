"""The interface of environments that are played answer by answer."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from components.freed import Freed

Observed = dict[str, Any]
"""What the agent whose turn it is sees: `agent`, `turn`, `state` (the text of the state) and `instructions` (its role and the
grammar of its answer)."""
Action = str | Mapping[str, str]
"""An agent's answer; of agents that act at once, their answers by agent."""
Result = tuple[Observed, float, bool, dict[str, Any]]
"""The observation after an answer, its reward, whether the episode is over, and facts about it."""


class Env(Freed):
    """One team on one problem after another.

    **Example**

        env = CodeEnv(config)
        obs = env.reset()
        done = False
        while not done:
            obs, reward, done, info = env.step(agent.act(obs))
    """

    @abstractmethod
    def reset(self, problem: int | None = None) -> Observed:
        """Begin an episode on problem number `problem`; None: on the next one. What the first agent sees."""

    @abstractmethod
    def step(self, action: Action) -> Result:
        """Apply the answer of the agent whose turn it is. Never raises on what an agent writes: an answer outside its grammar
        has `info["error"]`."""

    @abstractmethod
    def close(self) -> None:
        """Free what the environment holds, such as sandboxes."""
