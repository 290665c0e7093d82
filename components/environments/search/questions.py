"""A question with its gold answers and the chain of passages that leads to them, whatever data set it came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.artifacts.refs import Frozen
from components.environments.search.judges import mentions, normalized


class Hop(Frozen):
    """One link of the chain: a passage that is needed, and what the data say about it.

    A passage is the one meant when its title is `title` and its text holds `snippet` (empty: any text). A sub-question
    asks for it when it mentions one of `names`. `question` and `answer` are empty where the data do not spell them.
    """

    title: str
    snippet: str = ""
    names: tuple[str, ...] = ()
    question: str = ""
    answer: str = ""

    def is_in(self, title: str, text: str) -> bool:
        """Whether the passage `title`, `text` is the one that this hop needs."""
        if normalized(title) != normalized(self.title):
            return False
        return not self.snippet or normalized(self.snippet) in normalized(text)

    def is_asked_by(self, text: str) -> bool:
        """Whether `text` names what this hop is about."""
        return any(mentions(text, name) for name in self.names)


class Question(Frozen):
    """`hops` lie in the order in which they can be walked; none where the data name no passages."""

    text: str
    answers: tuple[str, ...]
    hops: tuple[Hop, ...] = ()

    @property
    def content(self) -> str:
        """Equal for questions that differ only in case, punctuation, articles and spaces."""
        return normalized(self.text)

    def as_payload(self) -> dict[str, Any]:
        """This question as plain JSON."""
        return {
            "question": self.text,
            "answers": list(self.answers),
            "hops": [hop.model_dump(mode="json") for hop in self.hops],
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> "Question":
        """The question that `as_payload` spelled."""
        return cls(text=payload["question"], answers=payload["answers"], hops=payload["hops"])


Text = tuple[str, str]
"""One passage of a corpus: title, text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """The questions of both splits, none of test in train, and the passages that came with them."""

    train: tuple[Question, ...]
    test: tuple[Question, ...]
    passages: tuple[Text, ...]
