"""The documented history of decisions over `components/hybrid/decision_history.py`."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from os.path import expanduser
from pathlib import Path
from types import TracebackType
from typing import Any, Self, SupportsFloat

from components.errors import ConfigurationError
from components.hybrid.decision_history import Decision, DecisionHistory
from components.hybrid.errors import HistoryUnusable
from components.hybrid.game_facts import NUM_ACTIONS
from components.hybrid.patterns import Pattern, PatternReport
from components.suggestions import suggest
from flows.api.hybrid.core.exceptions import DecisionValidationError
from flows.api.hybrid.core.game_state_analyzer import GameStateAnalysis

_FILTERS = ("phase", "state_hash", "action", "type")
_BY_HAND = "manual"


class DecisionHistoryAnalyzer:
    """Decisions in the SQLite file `db_path`, which is made with its folders if missing; ":memory:" keeps none.

    A path that cannot be opened is a ConfigurationError. Raises the errors of `components/hybrid/errors.py`: HistoryLocked,
    HistoryCorrupt, HistoryOfOtherVersion, and HistoryUnusable where the file cannot be written.

    **Example**

        with DecisionHistoryAnalyzer("decisions.db") as history:
            history.record_decision(GameStateAnalysis({"x": 4}), 4, "the door is north", 0.8, 1.0)
            history.get_recent_decisions(1)[0]["reasoning"]
    """

    def __init__(self, db_path: str = "decisions.db") -> None:
        if not isinstance(db_path, str | Path) or not str(db_path):
            raise ConfigurationError(f"db_path {db_path!r}: give the path of a file, or :memory:")
        path = None if db_path == ":memory:" else Path(expanduser(db_path))
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self.history = DecisionHistory(path)
        except (OSError, HistoryUnusable) as error:
            raise ConfigurationError(f"decision_db_path {db_path}: {error}; use another file") from error
        self._open: tuple[int, int] | None = None

    def record_decision(
        self,
        game_state: GameStateAnalysis,
        action_taken: int,
        reasoning: str,
        confidence: float,
        outcome_reward: float,
        *,
        ends_episode: bool = True,
    ) -> None:
        """Store a decision; with `ends_episode` False the next one belongs to the same episode.

        An outcome above 0 is a success. A trainer stores its decisions by itself, whole episodes at once, each credited with
        the rewards of eight steps. Raises DecisionValidationError for an action or a confidence that is none.
        """
        if not isinstance(game_state, GameStateAnalysis):
            raise DecisionValidationError(f"game_state {game_state!r}: give GameStateAnalysis(info['facts'])")
        if isinstance(action_taken, bool) or action_taken not in range(NUM_ACTIONS):
            raise DecisionValidationError(f"action_taken {action_taken!r}: use 0 to {NUM_ACTIONS - 1}")
        episode, step = self._open or (0, 0)
        try:
            decision = Decision(
                episode_id=episode,
                step_number=step,
                state_hash=game_state.state_hash,
                action=int(action_taken),
                source=_BY_HAND,
                is_success=isinstance(outcome_reward, SupportsFloat) and float(outcome_reward) > 0,
                outcome_reward=outcome_reward,
                confidence=confidence,
                phase=game_state.phase,
                reasoning=reasoning,
                timestamp=time.time(),
                is_last=ends_episode,
            )
        except ValueError as error:
            raise DecisionValidationError(str(error)) from error
        if self._open is None:
            episode = self.history.record_as_new([decision])
        else:
            self.history.record([decision])
        self._open = None if ends_episode else (episode, step + 1)

    def record(self, decisions: Sequence[Decision]) -> int:
        """The number of decisions stored: what an agent calls with those of whole episodes, which get the next free numbers.

        So trainers may share a file, and decisions by hand come between.
        """
        self.history.record_as_new(decisions)
        return len(decisions)

    def analyze_patterns(
        self, min_frequency: int = 3, context_filter: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Actions in a state that did better ("helps") or worse ("hurts") than its others, most certain first.

        Each was seen `min_frequency` times or more in episodes that have ended, and passed an exact test that is corrected for
        all that was looked at. `context_filter` keeps those of a `phase`, `state_hash`, `type` or first `action`. Raises
        ConfigurationError for another key.
        """
        if min_frequency < 1:
            raise ConfigurationError(f"min_frequency {min_frequency}: use 1 or more")
        wanted = dict(context_filter or {})
        for name in wanted:
            if name not in _FILTERS:
                raise ConfigurationError(f"context_filter.{name}: no such criterion; {suggest(name, _FILTERS)}")
        self.history.analyse()
        report = self.history.patterns(minimum_seen=min_frequency)
        found = [self._described(each, report) for each in report.patterns]
        return [each for each in found if all(_criterion(each, name) == value for name, value in wanted.items())]

    def get_recent_decisions(self, limit: int = 100) -> list[dict[str, Any]]:
        """The last decisions, newest first, each with the nine documented keys."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(f"limit {limit!r}: use a whole number of 1 or more")
        return [_record(each) for each in self.history.recent_decisions(limit)]

    def close(self) -> None:
        """Close the file."""
        self.history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _described(self, pattern: Pattern, report: PatternReport) -> dict[str, Any]:
        first = self.history.decision(pattern.first_seen)
        assert first is not None, f"decision {pattern.first_seen} was counted"
        return {
            "pattern_id": f"{pattern.state_hash}:{','.join(map(str, pattern.actions))}",
            "type": pattern.effect,
            "action_sequence": list(pattern.actions),
            "context": {"state_hash": pattern.state_hash, "phase": first.phase},
            "frequency": pattern.seen,
            "success_rate": pattern.won / pattern.seen,
            "bounds": (pattern.low, pattern.high),
            "base_rate": pattern.base_rate,
            "confidence": 1.0 - min(1.0, 2 * report.num_tested * pattern.p_value),
            "first_seen": _time(first),
            "last_seen": _time(self.history.decision(pattern.last_seen) or first),
        }


def _criterion(pattern: Mapping[str, Any], name: str) -> Any:
    if name == "action":
        return pattern["action_sequence"][0]
    return pattern["type"] if name == "type" else pattern["context"][name]


def _record(decision: Decision) -> dict[str, Any]:
    return {
        "id": f"{decision.episode_id}.{decision.step_number}",
        "timestamp": _time(decision),
        "state_hash": decision.state_hash,
        "action": decision.action,
        "reasoning": decision.reasoning,
        "confidence": decision.confidence,
        "outcome_reward": decision.outcome_reward,
        "episode_id": str(decision.episode_id),
        "step_number": decision.step_number,
    }


def _time(decision: Decision) -> datetime:
    return datetime.fromtimestamp(decision.timestamp, UTC)
