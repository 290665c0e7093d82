"""A joint game that is played again and again: all members act at once, each earns by what all did.

A game is its rules, a frozen value; a state is where one episode stands. Noise is drawn from the state's seed, its step
and the member, so that a state and its actions decide everything, and a step can be taken twice.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.errors import ConfigurationError
from components.frozen import Settings
from components.identity import seed_for

Action = Literal["cooperate", "compete"]
ACTIONS: tuple[Action, ...] = ("compete", "cooperate")
"""In the order of the numbers that other systems give them: 0 and 1."""


class PayoffRules(Settings):
    """A joint game, as its options say. A game adds its `num_members`, what it needs beside, and its `payoffs`."""

    num_steps: int = Field(32, ge=1, le=1000)
    """Joint steps of an episode; `environment.max_turns` must allow as many."""
    noise_std: float = Field(0.0, ge=0.0)
    """The deviation of the normal noise on each reward."""
    memory: int = Field(1, ge=0, le=32)
    """How many of the last steps members see."""
    lowest_reward: ClassVar[float] = -inf
    """Rewards are cut at this from below."""

    if TYPE_CHECKING:

        @property
        def num_members(self) -> int:
            """The members, who all act in every step."""

    @abstractmethod
    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each member earns, without noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointState:
    """One episode: what was done so far. `episode` counts those of the run, for games with a warm-up."""

    seed: int
    episode: int = 0
    actions_T_N: tuple[tuple[Action, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JointOutcome:
    """What one joint step led to."""

    rewards_N: tuple[float, ...]
    state: JointState
    done: bool


def joint_step(rules: PayoffRules, state: JointState, actions_N: Sequence[Action]) -> JointOutcome:
    """The outcome of a joint step. Raises ConfigurationError for a wrong action or number of them, and after the end.

    **Example** the two of `PairGame` cooperate at level .6 without noise: rewards (.85, .85).
    """
    check_actions(actions_N, rules.num_members)
    step = len(state.actions_T_N)
    if step >= rules.num_steps:
        raise ConfigurationError(f"step {step}: the episode has ended after num_steps {rules.num_steps}; start another")
    rewards_N = tuple(
        max(rules.lowest_reward, payoff + noise(state.seed, state.episode, step, member, rules.noise_std))
        for member, payoff in enumerate(rules.payoffs(actions_N, state.episode))
    )
    after = replace(state, actions_T_N=(*state.actions_T_N, tuple(actions_N)))
    return JointOutcome(rewards_N=rewards_N, state=after, done=step + 1 == rules.num_steps)


def noise(seed: int, episode: int, step: int, member: int, std: float) -> float:
    """One normal number with mean 0, the same for the same arguments."""
    return Random(seed_for(seed, "noise", episode, step, member)).gauss(0.0, std) if std else 0.0


def cooperation(actions: Sequence[Action]) -> float:
    """The share of those who cooperate, 0 to 1."""
    return sum(action == "cooperate" for action in actions) / len(actions)


def check_actions(actions_N: Sequence[Action], num_members: int) -> None:
    """Raise ConfigurationError unless there is one known action for each member."""
    if len(actions_N) != num_members or not set(actions_N) <= set(ACTIONS):
        raise ConfigurationError(f"actions {tuple(actions_N)} of {num_members} members: give each one of {ACTIONS}")


def base_payoff(difficulty: float) -> float:
    """What everybody earns before any bonus. **Example** difficulty .3: .7."""
    return max(0.1, 1 - difficulty)
