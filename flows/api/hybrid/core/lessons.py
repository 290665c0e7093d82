"""The steps of one game since the last lesson, which the learner is then shown again to learn from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.hybrid.game_facts import Booleans, GamesStep, Integers, no_facts

if TYPE_CHECKING:
    from components.hybrid.masked_ppo import MaskedPPO, Rollout

_COLUMNS = ("states", "masks", "actions", "own", "rewards", "ended", "cut", "finals")


class PlayedSteps:
    """Steps of one game, in order: each with its state, mask, action, whose it was, reward, end and the state after it.

    `MaskedPPO.collect` plays games; here it plays what was played, so that log-probabilities, values and advantages are its
    own. They are those of play, since the policy does not change between two lessons.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, state_S: NDArray[Any], mask_A: Booleans, action: int, is_own: bool, step: GamesStep) -> None:
        """A step of the game, and what it brought."""
        ended, cut = bool(step.ended_N[0]), bool(step.cut_N[0])
        final_S = step.final_states_N_S[0]
        self._rows.append((state_S, mask_A, action, is_own, float(step.rewards_N[0]), ended, cut, final_S))

    def rollout(self, learner: "MaskedPPO") -> "Rollout":
        """All steps as rows of the learner, whose rule wants as many, and none are left."""
        assert len(self._rows) == learner.rule.steps, f"{len(self._rows)} steps for a lesson of {learner.rule.steps}"
        columns, self._rows = self.to_arrays(), []
        replay = _Replay(columns)
        return learner.collect(replay, replay.choose)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        return {name: np.array([row[place] for row in self._rows]) for place, name in enumerate(_COLUMNS)}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `to_arrays` returned."""
        self._rows = [
            (state, mask, int(action), bool(own), float(reward), bool(ended), bool(cut), final)
            for state, mask, action, own, reward, ended, cut, final in zip(
                *(arrays[name] for name in _COLUMNS), strict=True
            )
        ]


class _Replay:
    """One game that goes as it went."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns, self._step = columns, 0

    def states(self) -> NDArray[Any]:
        states_T_S: NDArray[Any] = self._columns["states"]
        if self._step == len(states_T_S):  # after the last step: the state that it led to
            final_S: NDArray[Any] = self._columns["finals"][-1:]
            return final_S
        return states_T_S[self._step : self._step + 1]

    def masks(self) -> NDArray[Any]:
        return self._row("masks")

    def choose(self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._row("actions"), self._row("own")

    def step(self, actions_N: Integers) -> GamesStep:
        row = {name: self._row(name) for name in _COLUMNS}
        self._step += 1
        return game_step(float(row["rewards"][0]), row["finals"][0], ended=row["ended"][0], cut=row["cut"][0])

    def _row(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self._columns[name]
        return column[self._step : self._step + 1]


def game_step(reward: float, final_S: NDArray[Any], *, ended: bool, cut: bool) -> GamesStep:
    """What a step of one game brought, as the parts of `components/hybrid` want it."""
    states_N_S = np.asarray(final_S)[None]
    facts = no_facts(1)
    return GamesStep(
        states_N_S=states_N_S,
        final_states_N_S=states_N_S,
        final_facts=facts,
        rewards_N=np.array([reward], np.float64),
        terms={},
        ended_N=np.array([ended], np.bool_),
        cut_N=np.array([cut], np.bool_),
        starter_N=facts["x"] > 0,
        lengths_N=facts["x"],
    )
