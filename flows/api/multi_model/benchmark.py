"""The benchmark of two learners that cooperate or compete, with the documented names."""

import csv
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from components.environments.social.coop_compete import PairGame
from components.environments.social.rules.base import ACTIONS, Action, JointState, joint_step
from components.errors import ConfigurationError
from components.identity import seed_for
from components.population.pairs import GradientPolicy, OpponentAwarePolicy, benchmark_report
from components.whole_files import write_whole

SimplePG = GradientPolicy
OurMethodPolicy = OpponentAwarePolicy


class CoopCompeteEnv:
    """The game of two, step by step: 1 cooperates, 0 competes.

    **Example** `CoopCompeteEnv(0.6, 0.3).step(1, 1)` is two rewards around .85.
    """

    def __init__(
        self, cooperation_level: float = 0.6, difficulty: float = 0.3, horizon: int = 32, seed: int = 42
    ) -> None:
        """Raises ConfigurationError for a level or difficulty outside of 0 to 1."""
        self._game = PairGame(cooperation_level=cooperation_level, difficulty=difficulty, num_steps=horizon)
        self._seed = seed
        self._episode = 0
        self._state = JointState(seed=seed_for(seed, "episode", 0))

    @property
    def cooperation_level(self) -> float:
        """How much cooperating pays, 0 to 1."""
        return self._game.cooperation_level

    @property
    def difficulty(self) -> float:
        """What is taken from the base reward, 0 to 1."""
        return self._game.difficulty

    def step(self, action_a: int, action_b: int) -> tuple[float, float]:
        """The rewards of both. After `horizon` steps another episode begins by itself. Raises ConfigurationError."""
        outcome = joint_step(self._game, self._state, (_action(action_a), _action(action_b)))
        self._state = outcome.state
        if outcome.done:
            self._episode += 1
            self._state = JointState(seed=seed_for(self._seed, "episode", self._episode))
        return outcome.rewards_N[0], outcome.rewards_N[1]


def run_benchmark(
    runs: int = 5,
    episodes: int = 200,
    coop_level: float = 0.6,
    difficulty: float = 0.3,
    horizon: int = 32,
    seed: int = 42,
    *,
    report_path: str | Path | None = None,
) -> dict[str, Any]:
    """Pairs that always cooperate (AC), always compete (AP), learn (PG), and learn and know their opponent (OUR).

    `params`; `metrics` by kind: the mean reward a step of A and B with deviations over runs, that of the last 20 episodes with
    its 95% interval, episodes until the target, the final cooperation rate and exploitability; `comparison` of OUR with PG on
    paired seeds, whose `verdict` says which is better. With `report_path`, the report is written there as JSON, and the
    metrics beside it as CSV. Raises ConfigurationError.

    **Example** the defaults: `metrics.PG.last_20_mean` .847.
    """
    game = PairGame(cooperation_level=coop_level, difficulty=difficulty, num_steps=horizon)
    report = benchmark_report(game, runs=runs, episodes=episodes, seed=seed)
    if report_path is not None:
        _write_report(report, Path(report_path))
    return report


def _write_report(report: Mapping[str, Any], path: Path) -> None:
    """Write the report as JSON, and its metrics beside it as CSV, a row for each kind."""
    rows = [{"kind": kind, **numbers} for kind, numbers in report["metrics"].items()]
    text = StringIO()
    table = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_whole(path, json.dumps(report, indent=2))
    write_whole(path.with_suffix(".csv"), text.getvalue())


def _action(number: int) -> Action:
    if number not in (0, 1):
        raise ConfigurationError(f"action {number!r}: use 1 to cooperate, 0 to compete")
    return ACTIONS[number]
