"""A question with its gold answers and the chain of passages that leads to them."""

from dataclasses import dataclass

from pydantic import ConfigDict, Field

from components.environments.search.grading import mentions, normalize
from components.frozen import Frozen

Text = tuple[str, str]
"""One passage of a corpus: title, text."""


class Hop(Frozen):
    """One link of the chain: a passage that is needed, and its sub-question with the answer (empty if unknown).

    The passage is the one titled `title` whose text contains `snippet` (empty: any text). A sub-question asks for it if it
    mentions one of `names`.
    """

    title: str
    snippet: str = ""
    names: tuple[str, ...] = ()
    question: str = ""
    answer: str = ""

    def is_in(self, title: str, text: str) -> bool:
        """Whether the passage `title`, `text` is the one that this hop needs."""
        return normalize(title) == normalize(self.title) and normalize(self.snippet) in normalize(text)

    def is_asked_by(self, text: str) -> bool:
        """Whether `text` mentions one of the hop's names."""
        return any(mentions(text, name) for name in self.names)


class Question(Frozen):
    """`hops` are in the order in which they can be followed; empty if the dataset names no passages."""

    model_config = ConfigDict(populate_by_name=True)

    text: str = Field(alias="question")
    answers: tuple[str, ...]
    hops: tuple[Hop, ...] = ()

    @property
    def content(self) -> str:
        """Equal for questions that differ only in case, punctuation, articles and spaces."""
        return normalize(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """The questions of both splits, without test questions in train, and the passages that came with them."""

    train: tuple[Question, ...]
    test: tuple[Question, ...]
    passages: tuple[Text, ...]
