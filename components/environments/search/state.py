"""The state of one episode of `search`: small and immutable, so it is its own snapshot."""

from dataclasses import dataclass, replace

from components.environments.search.grading import NOTHING, Verdict
from components.environments.search.questions import Text

_NUM_KEPT = 24
"""Passages kept; more are never shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubQuestion:
    """A sub-question of the reasoner with the searcher's answer, None while it is open."""

    text: str
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """`found` and `asked` (numbers of hops) and `noted` (normalised answers) are what has already been rewarded.

    `evidence` lists passages, newest first. `refused` names the roles whose newest answer was malformed. `num_reasoned` counts
    the reasoner's answers, malformed ones too.
    """

    sub_questions: tuple[SubQuestion, ...] = ()
    evidence: tuple[Text, ...] = ()
    found: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    noted: frozenset[str] = frozenset()
    answer: str | None = None
    verdict: Verdict = NOTHING
    refused: frozenset[str] = frozenset()
    num_reasoned: int = 0

    @property
    def answers(self) -> tuple[str | None, ...]:
        """The noted answer of each sub-question."""
        return tuple(each.answer for each in self.sub_questions)

    def with_note(self, number: int, text: str) -> "SearchState":
        """The state with an answer to sub-question `number`, counted from 1."""
        noted = replace(self.sub_questions[number - 1], answer=text)
        return replace(self, sub_questions=(*self.sub_questions[: number - 1], noted, *self.sub_questions[number:]))

    def with_evidence(self, passages: tuple[Text, ...]) -> "SearchState":
        """The state with `passages` before all others, without duplicates."""
        return replace(self, evidence=tuple(dict.fromkeys((*passages, *self.evidence)))[:_NUM_KEPT])
