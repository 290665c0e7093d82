"""What subgoals in Python pay for a step of play: known when all its buttons are played, since a sandbox runs them at once."""

from collections.abc import Sequence

import numpy as np

from components.hybrid.condition_programs import Program, ProgramRunner
from components.hybrid.game_facts import Booleans, Facts, Floats, GamesStep
from components.hybrid.rewards import total_reward


class ProgramPay:
    """The rewards of the buttons of N games with what their subgoals pay, to which the buttons are told one by one.

    `met_N_G` are the subgoals that the open episodes had met before; None: they have just begun. What is true at the start of
    an episode is met and pays nothing, as for subgoals that the games count themselves.
    """

    def __init__(
        self, programs: Sequence[Program], pay: float, run: ProgramRunner, beginning: Facts, met_N_G: Booleans | None
    ) -> None:
        self._programs, self._pay, self._run = tuple(programs), pay, run
        self._beginning = _copied(beginning)
        self.met_N_G = met_N_G
        self._steps: list[tuple[GamesStep, Facts]] = []

    def add(self, step: GamesStep, now: Facts) -> None:
        """A button of each game, and the facts after it, those of new episodes where one ended."""
        self._steps.append((step, _copied(now)))

    def settle(self) -> Floats:
        """The rewards of all buttons (T, N); `met_N_G` are then the subgoals that the open episodes have met. Raises what `run`
        raises.

        **Example** `x >= 8` at a pay of .5, x 7, 8, 9 in an episode: 0, .5, 0 beside what else was earned.
        """
        tables = [self._beginning, *(step.final_facts for step, _ in self._steps), *(now for _, now in self._steps)]
        held = self._run(self._programs, {name: np.concatenate([each[name] for each in tables]) for name in tables[0]})
        parts = np.split(held.held_R_G, len(tables))
        first_N_G, finals, nows = parts[0], parts[1 : 1 + len(self._steps)], parts[1 + len(self._steps) :]
        met_N_G = first_N_G if self.met_N_G is None else self.met_N_G
        rewards = []
        for (step, _), final_N_G, now_N_G in zip(self._steps, finals, nows, strict=True):
            after_N_G = met_N_G | final_N_G
            gained_N = after_N_G.sum(axis=1).astype(np.float64) - met_N_G.sum(axis=1).astype(np.float64)
            rewards.append(total_reward({**step.terms, "subgoals": self._pay * gained_N}))
            met_N_G = np.where((step.ended_N | step.cut_N)[:, None], now_N_G, after_N_G)
        self.met_N_G = met_N_G
        return np.stack(rewards)


def _copied(facts: Facts) -> Facts:
    return {name: values.copy() for name, values in facts.items()}
