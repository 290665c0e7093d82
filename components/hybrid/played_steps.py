"""Steps of one game that somebody else plays, from which a learner learns when there are enough of them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.hybrid.agent import Decided
from components.hybrid.game_facts import Booleans, GamesStep, Integers, no_facts

if TYPE_CHECKING:
    from components.hybrid.masked_ppo import MaskedPPO


class PlayedSteps:
    """The steps of one game since the policy last learned: games that go as they went, for `MaskedPPO.collect`.

    Log-probabilities and values are then those of play, as the policy does not change between two lessons.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[NDArray[Any], Booleans, Decided, GamesStep]] = []
        self._at = 0

    def learn_from(
        self, seen: NDArray[Any], mask_A: Booleans, decided: Decided, step: GamesStep, learner: "MaskedPPO"
    ) -> bool:
        """Whether the learner has learned with this step, before which it saw that: from as many as its rule wants.

        It learns from its own decisions alone.

        **Example** a rule of 128 steps: the 128th step is the first lesson, the 256th the next one.
        """
        self._rows.append((seen, mask_A, decided, step))
        if len(self._rows) < learner.rule.steps:
            return False
        self._at = 0
        rollout = learner.collect(self, self.choose)
        self._rows = []
        if rollout.num_rows:
            learner.update(rollout)
        return rollout.num_rows > 0

    def states(self) -> NDArray[Any]:
        return self._rows[-1][3].states_N_S if self._at == len(self._rows) else self._rows[self._at][0][None]

    def masks(self) -> NDArray[Any]:
        return self._rows[self._at][1][None]

    def choose(self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        decided = self._rows[self._at][2]
        return decided.actions_N, ~decided.by_llm_N

    def step(self, actions_N: Integers) -> GamesStep:
        self._at += 1
        return self._rows[self._at - 1][3]


def step_of_game(reward: float, final_S: NDArray[Any], *, ended: bool, cut: bool) -> GamesStep:
    """What a step of one game brought that told nothing else: reward, the state after it, and whether it ended or was cut."""
    facts = no_facts(1)
    return GamesStep(
        states_N_S=final_S[None],
        final_states_N_S=final_S[None],
        final_facts=facts,
        rewards_N=np.array([reward], np.float64),
        terms={},
        ended_N=np.array([ended], np.bool_),
        cut_N=np.array([cut], np.bool_),
        starter_N=facts["x"] > 0,
        lengths_N=facts["x"],
    )
