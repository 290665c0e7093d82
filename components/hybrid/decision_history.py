"""Who decided what, in which state, and what came of it: decisions in SQLite, safe against kills, locks and damage.

WAL with `synchronous=NORMAL`: a killed process loses what it has not committed, a power failure at most the last commits. One
object belongs to one thread; several, also of several processes, may open the same file.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from math import isfinite
from operator import attrgetter, index
from pathlib import Path
from types import TracebackType
from typing import Any, Self, SupportsFloat, cast

from components.hybrid.errors import (
    DecisionConflict,
    HistoryCorrupt,
    HistoryLocked,
    HistoryOfOtherVersion,
    HistoryUnusable,
)
from components.hybrid.patterns import (
    TABLES,
    DecisionCount,
    Gram,
    Over,
    PatternReport,
    count_closed_episodes,
    count_decisions,
    find_patterns,
    read_grams,
)
from components.identity import fingerprint, seed_for

SCHEMA_VERSION = 2
_APPLICATION_ID = 0x54524F55
"""The letters TROU: the mark of our files among those of other programs."""
_SCHEMA = (
    "CREATE TABLE decisions(number INTEGER PRIMARY KEY, episode_id INTEGER NOT NULL, step_number INTEGER NOT NULL,"
    " state_hash INTEGER NOT NULL, action INTEGER NOT NULL, source TEXT NOT NULL, is_success INTEGER NOT NULL,"
    " outcome_reward REAL NOT NULL, confidence REAL NOT NULL CHECK(confidence BETWEEN 0 AND 1), phase TEXT NOT NULL,"
    " strategy TEXT NOT NULL, reasoning TEXT NOT NULL, timestamp REAL NOT NULL, is_last INTEGER NOT NULL,"
    " UNIQUE(episode_id, step_number))",
    "CREATE INDEX last_decisions ON decisions(number) WHERE is_last",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    "CREATE TABLE steps(step INTEGER PRIMARY KEY, digest TEXT NOT NULL)",
    *TABLES,
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One action of one step, and its outcome.

    `outcome_reward` is the credit of the decision, for example the return of the next steps; `is_success` says whether that
    counts as a success when patterns are looked for. `source` is who acted, `confidence` is the actor's own, from 0 to 1.
    `timestamp` is in seconds since 1970; it does not count when decisions are compared. `is_last` closes the episode.
    """

    episode_id: int
    step_number: int
    state_hash: int
    action: int
    source: str
    is_success: bool
    outcome_reward: float = 0.0
    confidence: float = 1.0
    phase: str = ""
    strategy: str = ""
    reasoning: str = ""
    timestamp: float = 0.0
    is_last: bool = False

    def __post_init__(self) -> None:
        for name, kind in _KINDS:
            value = getattr(self, name)
            if type(value) is not kind or kind is str:
                object.__setattr__(self, name, _plain(name, value, kind))
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"confidence {self.confidence}: give a number from 0 to 1")
        if not isfinite(self.outcome_reward):
            raise ValueError(f"outcome_reward {self.outcome_reward}: give a finite number")
        if not 0 <= self.state_hash < 1 << 63:
            raise ValueError(f"state_hash {self.state_hash}: give a number of 63 bits, as `state_hash` returns")


_FIELDS = tuple(field.name for field in fields(Decision))
_KINDS = tuple((field.name, cast("type", field.type)) for field in fields(Decision))
_WANTED = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}


def _plain(name: str, value: Any, kind: type) -> Any:
    """The value as Python's own kind, which is what SQLite stores: NumPy's scalars are numbers, too.

    What no UTF-8 can write is a "?". Raises ValueError for another kind.
    """
    with suppress(TypeError, ValueError, OverflowError):
        if kind is str and isinstance(value, str):
            return value.encode(errors="replace").decode()
        if kind is int:
            return index(value)
        if (kind is float and isinstance(value, SupportsFloat)) or (kind is bool and value in (0, 1)):
            return kind(value)
    raise ValueError(f"{name} {value!r}: give {_WANTED[kind]}")


_row = attrgetter(*_FIELDS)
_IDENTITY = attrgetter(*(name for name in _FIELDS if name != "timestamp"))
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM decisions"
_INSERT = f"INSERT INTO decisions({', '.join(_FIELDS)}) VALUES ({', '.join('?' * len(_FIELDS))})"


def state_hash(facts: Mapping[str, Any]) -> int:
    """A number of 63 bits for a state, equal in every process and on every machine.

    **Example** `state_hash({"x": 4, "y": 5})` is that of `{"y": 5, "x": 4}`, and another than that of `{"x": 5, "y": 4}`.
    """
    return seed_for(0, "state", fingerprint(facts))


class DecisionHistory:
    """The decisions in the file `path`, which is created if it does not exist; in memory without a path.

    `patience_seconds` is how long a call waits for another process that writes. Every call may raise HistoryLocked,
    HistoryCorrupt and HistoryUnusable; opening also HistoryOfOtherVersion.
    """

    def __init__(self, path: Path | None = None, *, patience_seconds: float = 5.0) -> None:
        self._path = path
        with self._translate_errors():
            self._connection = sqlite3.connect(path or ":memory:", timeout=patience_seconds, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def record(self, decisions: Sequence[Decision]) -> int:
        """The number of decisions stored, all in one transaction: those that were not stored before.

        The decisions of an episode come in order from step 0. What is already stored may come again, as after a resume, and
        must be equal. Raises DecisionConflict for anything else; then nothing of the batch is stored.

        **Example** steps 0 to 4 are stored; recording steps 3 to 6 stores 2.
        """
        with self._transaction():
            return self._store(decisions)

    def record_step(self, step: int, digest: str, decisions: Sequence[Decision]) -> int:
        """The number of decisions stored, as `record` does, with the step that they are of, and counted as `analyse` does: all
        in one transaction. `digest` is of what they were read from.
        """
        with self._transaction():
            num_added = self._store(decisions)
            self._connection.execute("INSERT INTO steps VALUES (?, ?)", (step, digest))
            count_closed_episodes(self._connection)
            return num_added

    def steps(self) -> list[str]:
        """The digests of the steps whose decisions are stored, in their order."""
        with self._translate_errors():
            return [str(digest) for (digest,) in self._connection.execute("SELECT digest FROM steps ORDER BY step")]

    def record_as_new(self, decisions: Sequence[Decision]) -> int:
        """The number that the first episode got: each is stored under the next free one, whatever it had, also beside others.

        The decisions of an episode come in order from step 0, all in one transaction. Raises DecisionConflict for a gap.

        **Example** episodes 0 to 6 are stored; recording episodes 0 and 3 stores them as 7 and 8.
        """
        with self._transaction():
            first, numbers = self.next_episode(), dict[int, int]()
            for each in decisions:
                numbers.setdefault(each.episode_id, first + len(numbers))
            self._store([replace(each, episode_id=numbers[each.episode_id]) for each in decisions])
        return first

    def recent_decisions(self, count: int = 100) -> list[Decision]:
        """The last `count` decisions, newest first."""
        with self._translate_errors():
            rows = self._connection.execute(f"{_SELECT} ORDER BY number DESC LIMIT ?", (count,)).fetchall()
        return [_decision(row) for row in rows]

    def last_episodes(self, count: int = 8) -> list[list[Decision]]:
        """The decisions of the last `count` episodes that ended, the newest episode first."""
        ended = "SELECT episode_id FROM decisions WHERE is_last ORDER BY number DESC LIMIT ?"
        with self._translate_errors():
            ids = [int(episode) for (episode,) in self._connection.execute(ended, (count,))]
            where = "WHERE episode_id = ? ORDER BY step_number"
            return [
                [_decision(row) for row in self._connection.execute(f"{_SELECT} {where}", (episode,))]
                for episode in ids
            ]

    def counts(self, over: Over, num_parts: int) -> list[DecisionCount]:
        """The decisions by part, phase, strategy and actor: see `count_decisions`."""
        with self._translate_errors():
            return count_decisions(self._connection, over, num_parts)

    def phase_of(self, state_hash: int) -> str:
        """The phase of the game that a state is in, as it was last recorded; "" for an unknown state."""
        select = "SELECT phase FROM decisions WHERE state_hash = ? ORDER BY number DESC LIMIT 1"
        with self._translate_errors():
            row = self._connection.execute(select, (state_hash,)).fetchone()
        return "" if row is None else str(row[0])

    def num_decisions(self) -> int:
        """The number of decisions stored."""
        with self._translate_errors():
            (number,) = self._connection.execute("SELECT count(*) FROM decisions").fetchone()
        return int(number)

    def decision(self, number: int) -> Decision | None:
        """The decision of a number, as patterns name those where they were seen; None if there is none."""
        return self._find("WHERE number = ?", number)

    def next_episode(self) -> int:
        """The first number of an episode above all that are stored. **Example** 0 of an empty history."""
        with self._translate_errors():
            (last,) = self._connection.execute("SELECT max(episode_id) FROM decisions").fetchone()
        return 0 if last is None else int(last) + 1

    def analyse(self) -> int:
        """The number of episodes counted now for `patterns`: those closed since the last call.

        **Example** of 16 parallel episodes 3 have ended: 3; the other 13 count when their last decision is recorded.
        """
        with self._transaction():
            return count_closed_episodes(self._connection)

    def patterns(self, *, minimum_seen: int = 5, family_error: float = 0.05) -> PatternReport:
        """The patterns of all episodes that `analyse` has counted; see `find_patterns` for the test and an example."""
        with self._translate_errors():
            return find_patterns(self._connection, minimum_seen, family_error)

    def grams(self, *, minimum_seen: int = 1) -> list[Gram]:
        """All that `analyse` has counted so often: see `read_grams`."""
        with self._translate_errors():
            return read_grams(self._connection, minimum_seen)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        connection = self._connection
        if self._is_new():
            connection.execute("PRAGMA journal_mode = WAL")
            with self._transaction():
                if self._is_new():  # another process may have been faster
                    for statement in _SCHEMA:
                        connection.execute(statement)
        connection.execute("PRAGMA synchronous = NORMAL")
        found = self._version()
        if found != (_APPLICATION_ID, SCHEMA_VERSION):
            written_by = f"version {found[1]} of the schema" if found[0] == _APPLICATION_ID else "another program"
            raise HistoryOfOtherVersion(
                f"{self._path} was written by {written_by}; this is version {SCHEMA_VERSION}: name another file"
            )

    def _is_new(self) -> bool:
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return self._version() == (0, 0) and tables == 0

    def _version(self) -> tuple[int, int]:
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return application, version

    def _store(self, decisions: Sequence[Decision]) -> int:
        fresh = self._fresh(decisions)
        self._connection.executemany(_INSERT, map(_row, fresh))
        return len(fresh)

    def _fresh(self, decisions: Sequence[Decision]) -> list[Decision]:
        """The decisions that are not stored yet. Raises DecisionConflict where they contradict what is."""
        stored: dict[int, Decision | None] = {}
        fresh = []
        for decision in decisions:
            episode, step = decision.episode_id, decision.step_number
            if episode not in stored:
                stored[episode] = self._find("WHERE episode_id = ? ORDER BY step_number DESC LIMIT 1", episode)
            last = stored[episode]
            if last is not None and step <= last.step_number:
                known = self._find("WHERE episode_id = ? AND step_number = ?", episode, step)
                if known is not None and _IDENTITY(known) == _IDENTITY(decision):
                    continue
                raise DecisionConflict(f"episode {episode}, step {step}: {known} is stored, {decision} was to be")
            if last is not None and last.is_last:
                raise DecisionConflict(
                    f"episode {episode} ended with step {last.step_number}; step {step} came after it"
                )
            expected = 0 if last is None else last.step_number + 1
            if step != expected:
                raise DecisionConflict(f"episode {episode}: step {expected} comes before step {step}; record it first")
            stored[episode] = decision
            fresh.append(decision)
        return fresh

    def _find(self, where: str, *values: int) -> Decision | None:
        row = self._connection.execute(f"{_SELECT} {where}", values).fetchone()
        return None if row is None else _decision(row)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translate_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Errors of SQLite become those of `errors.py`, with the remedy."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise HistoryLocked(
                    f"{self._path}: another process is writing it; try again, or end that process"
                ) from error
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise HistoryCorrupt(
                    f"{self._path} is damaged ({error}): move it and its -wal and -shm away and restore the copy of a"
                    f" checkpoint, or start without one; `sqlite3 {self._path} .recover` reads what is left"
                ) from error
            if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
                raise HistoryUnusable(f"{self._path}: the history is closed; open it again") from error
            if isinstance(error, sqlite3.OperationalError):
                raise HistoryUnusable(
                    f"{self._path}: {error}; check that its folder exists, can be written and has space"
                ) from error
            raise


def _decision(row: tuple[Any, ...]) -> Decision:
    values = dict(zip(_FIELDS, row, strict=True))
    return Decision(**values | {"is_success": bool(values["is_success"]), "is_last": bool(values["is_last"])})
