"""From play to the history: decisions wait until their episode ends, are credited with what came of them, and are recorded."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from components.hybrid.decision_history import Decision


def n_step_returns(rewards_T: Sequence[float], steps: int, discount: float = 1.0) -> list[float]:
    """The discounted sum of each step's reward and the `steps - 1` rewards after it, up to the end of the episode (T).

    `sum over k < steps of discount^k * r_(t+k)`, without the value of a later state (Sutton and Barto, 2018, eq. 7.1).

    **Example** rewards 0, 0, 1 over 2 steps, discount .5: 0, .5, 1.
    """
    assert steps >= 1, f"returns over {steps} steps"
    weights = [discount**k for k in range(steps)]
    return [
        sum(weight * reward for weight, reward in zip(weights, rewards_T[t : t + steps], strict=False))
        for t in range(len(rewards_T))
    ]


class DecisionSink(Protocol):
    """Where decisions of whole episodes go: see `DecisionHistory`."""

    def record(self, decisions: Sequence[Decision]) -> int:
        """The number of decisions stored."""
        ...


CREDITED_STEPS = 8
"""A decision is credited with the rewards of so many steps, and is a success where they are more than 0."""


class DecisionLog:
    """The open episodes of N games. Episodes are numbered as they begin, from `first_episode` on."""

    def __init__(
        self, history: DecisionSink | None, num_games: int, *, steps: int = CREDITED_STEPS, first_episode: int = 0
    ) -> None:
        self._history, self._steps = history, steps
        self._open: list[list[Decision]] = [[] for _ in range(num_games)]
        self._rewards: list[list[float]] = [[] for _ in range(num_games)]
        self._ended: list[Decision] = []
        self._episodes = list(range(first_episode, first_episode + num_games))
        self._next_episode = first_episode + num_games

    @property
    def is_kept(self) -> bool:
        """Whether there is a history to keep decisions for; without one nothing is remembered."""
        return self._history is not None

    def add(self, game: int, **decision: Any) -> None:
        """A decision of a game: the fields of `Decision` that are known before its outcome."""
        waiting = self._open[game]
        waiting.append(
            Decision(episode_id=self._episodes[game], step_number=len(waiting), is_success=False, **decision)
        )

    def credit(self, game: int, reward: float) -> None:
        """The reward of the last decision of a game."""
        if self.is_kept:
            self._rewards[game].append(reward)

    def end_episodes(self, games: list[int]) -> int:
        """The number of decisions recorded: those of these games' episodes, which are over, and those that were refused before.

        Raises the errors of the history, for example where another process holds it. Then nothing is lost: the decisions are
        recorded with the next episodes that end, or by `end_episodes([])`.

        **Example** rewards 0, 0, 5, credited over 2 steps: the outcomes 0, 5 and 5, of which two are successes.
        """
        for game in games:
            self._ended += self._credit(game)
            self._open[game], self._rewards[game] = [], []
            self._episodes[game], self._next_episode = self._next_episode, self._next_episode + 1
        count = len(self._ended)
        if self._history is not None and count:
            self._history.record(self._ended)
        self._ended = []
        return count

    def to_json(self) -> dict[str, Any]:
        """The open episodes, as values of JSON."""
        waiting = [[asdict(decision) for decision in each] for each in self._open]
        return {
            "open": waiting,
            "ended": [asdict(decision) for decision in self._ended],
            "rewards": [list(each) for each in self._rewards],
            "episodes": list(self._episodes),
            "next_episode": self._next_episode,
        }

    def restore(self, value: dict[str, Any]) -> None:
        """Go on from what `to_json` of a log of as many games returned."""
        self._open = [[Decision(**decision) for decision in each] for each in value["open"]]
        self._ended = [Decision(**decision) for decision in value["ended"]]
        self._rewards = [list(each) for each in value["rewards"]]
        self._episodes, self._next_episode = list(value["episodes"]), value["next_episode"]

    def _credit(self, game: int) -> list[Decision]:
        waiting, rewards = self._open[game], self._rewards[game]
        assert len(waiting) == len(rewards), f"game {game}: {len(waiting)} decisions, {len(rewards)} rewards"
        outcomes = n_step_returns(rewards, self._steps, 1.0)
        return [
            replace(
                decision,
                outcome_reward=outcome,
                is_success=outcome > 0.0,
                is_last=decision is waiting[-1],
            )
            for decision, outcome in zip(waiting, outcomes, strict=True)
        ]
