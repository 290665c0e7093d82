"""How decisions are shared out: by phase, strategy and actor, over the length of an episode or over the whole history."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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
