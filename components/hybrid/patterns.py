"""Which actions in which state do better or worse than what else was done there: counted as decisions come, tested exactly.

A *gram* is the state of a decision and the 1 to `LONGEST` actions from it on. Only the first visit of a state in an episode
counts, as in first-visit Monte Carlo (Sutton and Barto, 2018, section 5.1): the visits of one state are then in different
episodes and independent, while a wall that is bumped into fifty times is one fact. A gram is compared with first visits of its
own state that have as many decisions left: a state near the goal makes no action good. And with those of its own time alone,
in blocks of `_VISITS` that followed each other: while a policy learns, an action that it chooses ever more often succeeds ever
more often without any merit.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import comb
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from components.mathematics.intervals import wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Trials that are alike but for what is tested: `drawn` of `population`, of which `successes` succeeded."""

    drawn: int
    successes: int
    population: int


def chance_of_at_least(successes: int, blocks: Iterable[Block]) -> float:
    """The probability that trials drawn at random in each block hold `successes` or more together.

    The exact one-sided test of a 2 x 2 table (R. A. Fisher, "The logic of inductive inference", 1935), over several tables
    with the distribution of their sum (Cochran, 1954; Mantel and Haenszel, 1959). It needs no estimate of a rate, so that it
    holds for small histories and for rates that differ from block to block. A z-score is not enough: the level of one test
    among thousands is about 1e-5, and that far out the normal curve is wrong. With a rate of .05 and 20 trials, 6 successes
    exceed Wilson's lower bound at 1.3e-5 but have a probability of 3.3e-4, so that random play would show patterns.

    **Example** 4 of 4 draws succeed where 5 of 10 trials do: 5/10 * 4/9 * 3/8 * 2/7 = 1/42, about .0238.
    """
    certain, chances = 0, np.ones(1)
    for block in blocks:
        least, chances_X = _hypergeometric(block)
        certain, chances = certain + least, np.convolve(chances, chances_X)
    return min(1.0, float(chances[max(0, successes - certain) :].sum()))


@lru_cache(maxsize=4096)
def _hypergeometric(block: Block) -> tuple[int, NDArray[np.float64]]:
    """The least number of successes among the drawn of a block, and the probabilities of that number and those above it."""
    drawn, successes, population = block.drawn, block.successes, block.population
    assert 0 <= drawn <= population, f"{drawn} drawn of {population}"
    assert 0 <= successes <= population, f"{successes} successes in {population}"
    least, most = max(0, drawn + successes - population), min(drawn, successes)
    ways = [comb(successes, count) * comb(population - successes, drawn - count) for count in range(least, most + 1)]
    return least, np.array([each / comb(population, drawn) for each in ways])


LONGEST = 3
"""Actions in the longest gram. Another number means other counts: raise the schema version with it."""
ANY = ""
"""In place of the actions: all grams of a state and a length together, with which each of them is compared."""
_VISITS = 8
"""First visits of a state that are compared with each other. Fewer say less; in many, what drifts is taken for an effect."""
TABLES = (
    "CREATE TABLE grams(state_hash INTEGER, length INTEGER, actions TEXT, block INTEGER, seen INTEGER, won INTEGER,"
    " first_seen INTEGER, last_seen INTEGER, PRIMARY KEY(state_hash, length, actions, block)) WITHOUT ROWID",
    "CREATE TABLE counted(last_number INTEGER NOT NULL)",
    "INSERT INTO counted VALUES (0)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A gram whose success rate is not that of its state.

    `low` and `high` are Wilson's bounds of its rate at the corrected level; `base_rate` is that of its state at the times when
    it was played; `p_value` the exact one-sided probability before the correction; `first_seen` and `last_seen` are numbers of
    decisions.
    """

    state_hash: int
    actions: tuple[int, ...]
    effect: Literal["helps", "hurts"]
    seen: int
    won: int
    low: float
    high: float
    base_rate: float
    p_value: float
    first_seen: int
    last_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gram:
    """The actions from a state on: how often they were first visits of an episode, and how many of these were successes.

    `base_rate` is the rate of the state at those times; `first_seen` and `last_seen` are numbers of decisions.
    """

    state_hash: int
    actions: tuple[int, ...]
    seen: int
    won: int
    base_rate: float
    first_seen: int
    last_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternReport:
    """The patterns that were found, most certain first, among `num_tested` grams, each tested at `level` in both directions."""

    patterns: tuple[Pattern, ...]
    num_tested: int
    level: float


def count_closed_episodes(connection: sqlite3.Connection) -> int:
    """The number of episodes counted now: those closed since the last call. Inside the caller's transaction.

    The cost grows with their decisions, not with those of the history.

    **Example** an episode with states 7, 7, 8 and actions 4, 0, 0 counts the grams 7:4, 7:4,0, 7:4,0,0 and 8:0.
    """
    (mark,) = connection.execute("SELECT last_number FROM counted").fetchone()
    (last, episodes) = connection.execute(
        "SELECT max(number), count(*) FROM decisions WHERE is_last AND number > ?", (mark,)
    ).fetchone()
    if not episodes:
        return 0
    for length in range(1, LONGEST + 1):
        for actions in (_actions(length), f"'{ANY}'"):
            connection.execute(_COUNT.format(actions=actions, length=length), (mark, last))
    connection.execute("UPDATE counted SET last_number = ?", (last,))
    return int(episodes)


_COUNT = f"""
INSERT INTO grams SELECT state_hash, {{length}}, actions, (before + place - 1) / {_VISITS}, count(*), sum(is_success),
  min(number), max(number) FROM (
  SELECT number, state_hash, is_success, actions, row_number() OVER (PARTITION BY state_hash ORDER BY number) AS place,
    coalesce((SELECT block * {_VISITS} + seen FROM grams WHERE state_hash = visits.state_hash AND length = {{length}}
      AND actions = '{ANY}' ORDER BY block DESC LIMIT 1), 0) AS before FROM (
    SELECT number, state_hash, is_success, {{actions}} AS actions, LEAD(action, {{length}} - 1) OVER episode AS last_action,
      row_number() OVER (PARTITION BY episode_id, state_hash ORDER BY step_number) AS visit
    FROM decisions WHERE episode_id IN (SELECT episode_id FROM decisions WHERE is_last AND number > ? AND number <= ?)
    WINDOW episode AS (PARTITION BY episode_id ORDER BY step_number)
  ) AS visits WHERE visit = 1 AND last_action IS NOT NULL
) GROUP BY state_hash, actions, 4
ON CONFLICT DO UPDATE SET seen = seen + excluded.seen, won = won + excluded.won, last_seen = excluded.last_seen
"""
"""The blocks of a state are filled in the order of its visits; that of all grams together says how far."""


def _actions(length: int) -> str:
    """SQL for the actions of a gram of this length, as "4,0"."""
    return "action" + "".join(f" || ',' || LEAD(action, {ahead}) OVER episode" for ahead in range(1, length))


def find_patterns(connection: sqlite3.Connection, minimum_seen: int, family_error: float) -> PatternReport:
    """The grams that do better or worse than their state at their time, seen at least `minimum_seen` times.

    The probability that play without any pattern shows one or more is at most `family_error` in each call: every gram that
    is looked at is tested in two directions, each at `family_error / (2 * num_tested)` (Bonferroni). Found is what passes the
    exact test and whose Wilson bound at that level excludes the base rate. Policy and success may drift, as long as neither
    leaps within a block of visits together with the other, again and again.

    **Example** 2,000 grams at .05: each direction at 1.25e-5, z = 4.21. Action 4 in state 7, 24 times with 19 successes where
    the state has 261 in 870 visits all along: found.
    """
    assert 0 < family_error < 1, f"family_error {family_error}"
    grams = read_grams(connection, minimum_seen)
    level = family_error / (2 * max(1, len(grams)))
    found = [pattern for gram in grams for pattern in _patterns_in(connection, gram, level)]
    found.sort(key=lambda pattern: (pattern.p_value, pattern.state_hash, pattern.actions))
    return PatternReport(patterns=tuple(found), num_tested=len(grams), level=level)


def read_grams(connection: sqlite3.Connection, minimum_seen: int) -> list[Gram]:
    """All grams that were counted at least `minimum_seen` times, whether they help, hurt or neither."""
    assert minimum_seen >= 1, f"minimum_seen {minimum_seen}"
    rows = connection.execute(
        "SELECT g.state_hash, g.actions, sum(g.seen), sum(g.won), sum(g.seen * b.won * 1.0 / b.seen) / sum(g.seen),"
        " min(g.first_seen), max(g.last_seen) FROM grams g JOIN grams b USING (state_hash, length, block)"
        f" WHERE b.actions = '{ANY}' AND g.actions <> '{ANY}' GROUP BY 1, g.length, 2 HAVING sum(g.seen) >= ?",
        (minimum_seen,),
    )
    return [
        Gram(
            state_hash=state_hash,
            actions=tuple(map(int, actions.split(","))),
            seen=seen,
            won=won,
            base_rate=base_rate,
            first_seen=first_seen,
            last_seen=last_seen,
        )
        for state_hash, actions, seen, won, base_rate, first_seen, last_seen in rows
    ]


def _patterns_in(connection: sqlite3.Connection, gram: Gram, level: float) -> Iterator[Pattern]:
    """The gram as a pattern, if it passes the test in one direction."""
    low, high = wilson_interval(gram.won, gram.seen, NormalDist().inv_cdf(1 - level))
    if low <= gram.base_rate <= high:
        return
    helps = low > gram.base_rate
    blocks = connection.execute(
        "SELECT g.seen, b.won, b.seen FROM grams g JOIN grams b USING (state_hash, length, block)"
        f" WHERE state_hash = ? AND length = ? AND g.actions = ? AND b.actions = '{ANY}' ORDER BY block",
        (gram.state_hash, len(gram.actions), ",".join(map(str, gram.actions))),
    ).fetchall()
    p_value = chance_of_at_least(
        gram.won if helps else gram.seen - gram.won,
        (
            Block(drawn=drawn, successes=successes if helps else visits - successes, population=visits)
            for drawn, successes, visits in blocks
        ),
    )
    if p_value <= level:
        yield Pattern(**asdict(gram), effect="helps" if helps else "hurts", low=low, high=high, p_value=p_value)


Over = Literal["episode", "history"]
_PLACES = {
    "episode": ("step_number", "SELECT max(step_number) + 1 FROM decisions"),
    "history": ("(number - 1)", "SELECT max(number) FROM decisions"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCount:
    """So many decisions of one phase, strategy and actor in a part of the episode or of the history; parts count from 0."""

    part: int
    phase: str
    strategy: str
    source: str
    num_decisions: int
    mean_outcome: float


def count_decisions(connection: sqlite3.Connection, over: Over, num_parts: int) -> list[DecisionCount]:
    """The decisions in `num_parts` equal parts of the longest episode, or of the history as it was recorded.

    **Example** 2 episodes of 4 steps in 2 parts of the episode: steps 0 and 1 of both are part 0, 4 decisions.
    """
    assert num_parts >= 1, f"num_parts {num_parts}"
    place, length = _PLACES[over]
    rows = connection.execute(
        f"SELECT {place} * ? / ({length}) AS part, phase, strategy, source, count(*), avg(outcome_reward) FROM decisions"
        " GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
        (num_parts,),
    )
    return [
        DecisionCount(
            part=part, phase=phase, strategy=strategy, source=source, num_decisions=num_decisions, mean_outcome=outcome
        )
        for part, phase, strategy, source, num_decisions, outcome in rows
    ]


def llm_shares(counts: Sequence[DecisionCount], num_parts: int, llm: str) -> Iterator[tuple[int, float | None]]:
    """Of each part the number of decisions, and the share that the actor called `llm` had; None of no decisions.

    **Example** part 0 with 3 decisions of the language model and 1 of the policy: (4, .75).
    """
    for part in range(num_parts):
        total = sum(each.num_decisions for each in counts if each.part == part)
        led = sum(each.num_decisions for each in counts if each.part == part and each.source == llm)
        yield total, led / total if total else None
