"""The documented history of decisions over `components/hybrid/decision_history.py`."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from os.path import expanduser
from pathlib import Path
from typing import Any, SupportsFloat

from components.errors import ConfigurationError
from components.hybrid.arbitration import Actor
from components.hybrid.decision_history import Decision, DecisionHistory
from components.hybrid.errors import HistoryUnusable
from components.hybrid.game_facts import NUM_ACTIONS
from components.hybrid.history_lessons import HistoryLessons, learn_from_history
from components.hybrid.patterns import Gram, PatternReport
from components.machine.closeable import Closeable
from components.mathematics.intervals import wilson_interval
from components.text.suggestions import suggest
from flows.api.fields import AnyPath, Count, check_arguments
from flows.api.hybrid.core.exceptions import DecisionValidationError
from flows.api.hybrid.core.game_state_analyzer import GameStateAnalysis

_FILTERS = ("phase", "state_hash", "action", "type")
_AS_THEY_ARE = ("state_hash", "action", "reasoning", "confidence", "outcome_reward", "step_number")
_Z = 1.96
_LOOK_EVERY = 8
"""Recordings, of an episode each, after which the history is looked at anew for what it teaches."""


class DecisionHistoryAnalyzer(Closeable):
    """Decisions in the SQLite file `db_path`, which is made with its folders if missing; ":memory:" keeps none.

    A path that cannot be opened is a ConfigurationError. Raises the errors of `components/hybrid/errors.py`: HistoryLocked,
    HistoryCorrupt, HistoryOfOtherVersion, and HistoryUnusable where the file cannot be written.

    **Example**

        with DecisionHistoryAnalyzer("decisions.db") as history:
            history.record_decision(GameStateAnalysis({"x": 4}), 4, "the door is north", 0.8, 1.0)
            history.get_recent_decisions(1)[0]["reasoning"]
    """

    @check_arguments
    def __init__(self, db_path: AnyPath = "decisions.db") -> None:
        path = None if db_path == ":memory:" else Path(expanduser(db_path))
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self.history = DecisionHistory(path)
        except (OSError, HistoryUnusable) as error:
            raise ConfigurationError(f"decision_db_path {db_path}: {error}; use another file") from error
        self._num_new = 0
        self._lessons: HistoryLessons | None = None

    def record_decision(
        self, game_state: GameStateAnalysis, action_taken: int, reasoning: str, confidence: float, outcome_reward: float
    ) -> None:
        """Store a decision as an episode of its own. An outcome above 0 is a success.

        Trainers and agents store their decisions by themselves, whole episodes at once, each credited with the rewards of eight
        steps. Raises DecisionValidationError for an action or a confidence that is none.
        """
        if not isinstance(game_state, GameStateAnalysis):
            raise DecisionValidationError(f"game_state {game_state!r}: give GameStateAnalysis(info['facts'])")
        if isinstance(action_taken, bool) or action_taken not in range(NUM_ACTIONS):
            raise DecisionValidationError(f"action_taken {action_taken!r}: use 0 to {NUM_ACTIONS - 1}")
        try:
            decision = Decision(
                episode_id=0,
                step_number=0,
                state_hash=game_state.state_hash,
                action=int(action_taken),
                source="manual",
                is_success=isinstance(outcome_reward, SupportsFloat) and float(outcome_reward) > 0,
                outcome_reward=outcome_reward,
                confidence=confidence,
                phase=game_state.phase,
                reasoning=reasoning,
                timestamp=time.time(),
                is_last=True,
            )
        except ValueError as error:
            raise DecisionValidationError(str(error)) from error
        self.record([decision])

    def record(self, decisions: Sequence[Decision]) -> int:
        """The number of decisions stored: those of whole episodes, which get the next free numbers.

        So trainers may share a file, and decisions by hand come between.
        """
        self.history.record_as_new(decisions)
        self._num_new += 1
        return len(decisions)

    @check_arguments
    def analyze_patterns(
        self, min_frequency: Count = 3, context_filter: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """What was done in a state `min_frequency` times or more, in episodes that have ended: up to three actions each.

        `type` is "helps" or "hurts" where they did better or worse than the state's others by an exact test that is corrected
        for all that was looked at, most certain first; of all others, the most frequent first, it is "unclear".
        `context_filter` keeps those of a `phase`, `state_hash`, `type` or first `action`; another key is a ConfigurationError.
        """
        wanted = dict(context_filter or {})
        if unknown := next((name for name in wanted if name not in _FILTERS), None):
            raise ConfigurationError(f"context_filter.{unknown}: no such criterion; {suggest(unknown, _FILTERS)}")
        self.history.analyse()
        report = self.history.patterns(minimum_seen=min_frequency)
        places = {(each.state_hash, each.actions): place for place, each in enumerate(report.patterns)}
        grams = sorted(
            (
                (places.get((each.state_hash, each.actions)), each)
                for each in self.history.grams(minimum_seen=min_frequency)
            ),
            key=lambda pair: (len(places) if pair[0] is None else pair[0], -pair[1].seen, pair[1].first_seen),
        )
        found = [self._describe(gram, report, place) for place, gram in grams]
        return [each for each in found if all(_read_criterion(each, name) == value for name, value in wanted.items())]

    @check_arguments
    def get_recent_decisions(self, limit: Count = 100) -> list[dict[str, Any]]:
        """The last decisions, newest first, each with the nine documented keys."""
        return [_describe_decision(each) for each in self.history.recent_decisions(limit)]

    def better_actor(self, phase: str = "") -> Actor | None:
        """Who succeeds more often in a phase of the game, or in all (""), by the last thousand decisions and at 95%; else None.

        **Example** of 40 decisions each, 35 successes of the language model and 5 of the policy: the language model.
        """
        return self._learn().better.get(phase)

    def note_on(self, state_hash: int) -> str:
        """A sentence on what has helped and hurt in a state, by `analyze_patterns`; "" where nothing is certain.

        **Example** "Here Up helped before; Down, Down hurt. ".
        """
        return self._learn().notes.get(state_hash, "")

    def close(self) -> None:
        """Close the file."""
        self.history.close()

    def _learn(self) -> HistoryLessons:
        if self._lessons is None or self._num_new >= _LOOK_EVERY:
            self._num_new, self._lessons = 0, learn_from_history(self.history)
        return self._lessons

    def _describe(self, gram: Gram, report: PatternReport, place: int | None) -> dict[str, Any]:
        """A gram, and what the report says of it at this place; None: nothing."""
        tested = None if place is None else report.patterns[place]
        first = self.history.decision(gram.first_seen)
        assert first is not None, f"decision {gram.first_seen} was counted"
        last = self.history.decision(gram.last_seen) or first
        return {
            "pattern_id": f"{gram.state_hash}:{','.join(map(str, gram.actions))}",
            "type": "unclear" if tested is None else tested.effect,
            "action_sequence": list(gram.actions),
            "context": {"state_hash": gram.state_hash, "phase": first.phase},
            "frequency": gram.seen,
            "success_rate": gram.won / gram.seen,
            "bounds": wilson_interval(gram.won, gram.seen, _Z),
            "base_rate": gram.base_rate,
            "confidence": 0.0 if tested is None else 1.0 - min(1.0, 2 * report.num_tested * tested.p_value),
            "first_seen": _time(first),
            "last_seen": _time(last),
        }


def _read_criterion(pattern: Mapping[str, Any], name: str) -> Any:
    if name == "action":
        return pattern["action_sequence"][0]
    return pattern["type"] if name == "type" else pattern["context"][name]


def _describe_decision(decision: Decision) -> dict[str, Any]:
    return {
        "id": f"{decision.episode_id}.{decision.step_number}",
        "timestamp": _time(decision),
        "episode_id": str(decision.episode_id),
        **{name: getattr(decision, name) for name in _AS_THEY_ARE},
    }


def _time(decision: Decision) -> datetime:
    return datetime.fromtimestamp(decision.timestamp, UTC)
