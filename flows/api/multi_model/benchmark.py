"""The benchmark of two learners that cooperate or compete, with the documented names."""

import csv
import json
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from components.environments.social.coop_compete import PairGame
from components.environments.social.rules.base import ACTIONS, Action, JointState, joint_step
from components.errors import ConfigurationError
from components.identity import seed_for
from components.population.pairs import (
    GradientPolicy,
    HasCooperationLevel,
    OpponentAwarePolicy,
    Trajectory,
    benchmark_report,
)
from components.whole_files import write_whole
from flows.api.multi_model.arguments import any_number, whole_number
from flows.api.multi_model.checked_config import number, whole

_ROW = ("action", "logprob", "reward")
_SHARE = number(0, 1)


class SimplePG(GradientPolicy):
    """A learner of one number, by policy gradient. `act` gives an action, 1 cooperates, and its log-probability."""

    def __init__(self, lr: float = 0.5, seed: int = 0) -> None:
        """Raises ConfigurationError unless `lr` is above 0. `seed` decides every draw."""
        super().__init__(number(0, above=True)("lr", lr), whole_number("seed", seed))

    def update(self, trajectories: Trajectory) -> None:
        """A step on one episode, rows of action, log-probability, reward. Raises ConfigurationError for other rows."""
        super().update(_rows(trajectories))


class OurMethodPolicy(OpponentAwarePolicy):
    """A policy gradient whose steps are larger where the other does what the game pays for."""

    def __init__(self, lr: float = 0.5, momentum: float = 0.9, seed: int = 0) -> None:
        """`momentum`, 0 to 1, is that of the average of the other's actions. Raises ConfigurationError."""
        named = {"lr": number(0, above=True)("lr", lr), "seed": whole_number("seed", seed)}
        super().__init__(**named, momentum=_SHARE("momentum", momentum))

    def update(self, trajectories: Trajectory, env: HasCooperationLevel | None = None) -> None:
        """A step on one episode of the game `env`. Raises ConfigurationError for other rows, and for no game."""
        if not hasattr(env, "cooperation_level"):
            raise ConfigurationError(f"env {env!r}: give the CoopCompeteEnv of the episode, as update(steps, env)")
        super().update(_rows(trajectories), env)


class CoopCompeteEnv:
    """The game of two, step by step: 1 cooperates, 0 competes.

    **Example** `CoopCompeteEnv(0.6, 0.3).step(1, 1)` is two rewards around .85.
    """

    def __init__(
        self, cooperation_level: float = 0.6, difficulty: float = 0.3, horizon: int = 32, seed: int = 42
    ) -> None:
        """Raises ConfigurationError for a level or difficulty outside of 0 to 1."""
        self._game = _game(cooperation_level, difficulty, horizon)
        self._seed = whole_number("seed", seed)
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
    game = _game(coop_level, difficulty, horizon, level="coop_level")
    counts = {"runs": whole(1)("runs", runs), "episodes": whole(1)("episodes", episodes)}
    if report_path is not None and not isinstance(report_path, str | Path):
        raise ConfigurationError(f"report_path {report_path!r}: give a path")
    report = benchmark_report(game, **counts, seed=whole_number("seed", seed))
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


def _game(cooperation_level: float, difficulty: float, horizon: int, *, level: str = "cooperation_level") -> PairGame:
    return PairGame(
        cooperation_level=_SHARE(level, cooperation_level),
        difficulty=_SHARE("difficulty", difficulty),
        num_steps=whole(1)("horizon", horizon),
    )


def _rows(trajectories: Trajectory) -> list[tuple[int, float, float]]:
    if isinstance(trajectories, str) or not isinstance(trajectories, Iterable):
        raise ConfigurationError(f"trajectories {trajectories!r}: give rows of {', '.join(_ROW)}")
    return [_checked_row(f"trajectories[{index}]", row) for index, row in enumerate(trajectories)]


def _checked_row(name: str, row: Any) -> tuple[int, float, float]:
    if not isinstance(row, list | tuple) or len(row) != len(_ROW):
        raise ConfigurationError(f"{name} {row!r}: give {', '.join(_ROW)}, as (1, -0.69, 0.8)")
    action, logprob, reward = row
    if action not in (0, 1):
        raise ConfigurationError(f"{name} action {action!r}: use 1 to cooperate, 0 to compete")
    return int(action), any_number(f"{name} logprob", logprob), any_number(f"{name} reward", reward)


def _action(number: int) -> Action:
    if number not in (0, 1):
        raise ConfigurationError(f"action {number!r}: use 1 to cooperate, 0 to compete")
    return ACTIONS[int(number)]
