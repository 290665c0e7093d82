"""Environments of `search` with the real ledger between them and a retriever, and retrievers that tests can steer."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.environments.base import Retriever, Split
from components.environments.family import Family
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.environments.search.options import SearchOptions
from components.environments.search.questions import Hop, Question
from components.environments.search.sizes import SIZES_BY_LEVEL, Sizes
from components.errors import RetrieverUnavailable
from components.schema import Limits, Passage, Problem, Query
from components.tool_calls.ledger import ExecutionLedger, ToolSources

SEARCHER, REASONER = "searcher", "reasoner"
CHAIN = Question(
    text="birthplace of the author of Moby?",
    answers=("Kesson", "Town of Kesson"),
    hops=(
        Hop(title="Moby", names=("Moby",), question="author of Moby", answer="Ann Toval"),
        Hop(title="Ann Toval", names=("Ann Toval",), question="birthplace of Ann Toval", answer="Kesson"),
    ),
)
SHELF = (
    ("Moby", "Moby is a book by Ann Toval."),
    ("Ann Toval", "Ann Toval was born in Kesson."),
    ("Kesson", "Kesson is a town. Ann Toval lives elsewhere."),
)


class Shelf:
    """A retriever that brings every passage whose title stands in the query, in the order of the shelf."""

    digest = "shelf"

    def __init__(self, passages: Sequence[tuple[str, str]] = SHELF, *, away: bool = False) -> None:
        self.passages = passages
        self.away = away
        self.queries: list[Query] = []

    def search(self, query: Query) -> tuple[Passage, ...]:
        self.queries.append(query)
        if self.away:
            raise RetrieverUnavailable("nobody home")
        hits = [Passage(title=title, text=text, score=1.0) for title, text in self.passages if title in query.text]
        return tuple(hits[: query.num_passages])


def no_sandbox() -> Any:
    raise AssertionError("search runs no programs")


def tools_of(retriever: Retriever | None) -> ExecutionLedger:
    return ExecutionLedger(ToolSources(sandbox=no_sandbox, retriever=lambda: retriever, limits=Limits()))


def observation_characters(sizes: Sizes) -> int:
    """No observation is longer."""
    sub_question = len("#99  = \n") + 2 * sizes.line_characters
    return (
        len("Q \nS!>") + sizes.question_characters + sizes.num_sub_questions * sub_question + sizes.evidence_characters
    )


def table(question: Question = CHAIN, *, shelf: Shelf | None = None, sizes: Sizes = SIZES_BY_LEVEL[1]) -> Playthrough:
    payload = {**question.model_dump(mode="json", by_alias=True), "sizes": sizes.model_dump()}
    problem = Problem(problem_id="search-table", environment="search", payload=payload)
    return the_family().build(problem, tools_of(shelf or Shelf()))


def the_family() -> Family:
    return family("search")


def options_of(**options: Any) -> SearchOptions:
    checked = family_options("search", options)
    assert isinstance(checked, SearchOptions)
    return checked


def open_play(
    options: Mapping[str, Any] | None = None, index: int = 0, split: Split = "train", seed: int = 7
) -> tuple[Family, Playthrough]:
    chosen, checked = the_family(), options_of(**(options or {}))
    problem = chosen.problem(checked, split=split, index=index, seed=seed)
    return chosen, chosen.build(problem, tools_of(chosen.retriever(checked)))
