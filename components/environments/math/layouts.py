"""The datasets of the field: where each lies on the hub, and which of its columns hold what."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from components.environments.math.own_questions import MAX_STATEMENT_CHARACTERS, OwnQuestion
from components.environments.math.spelling import MAX_FINAL_CHARACTERS, plain
from components.environments.shared.dataset_rows import DatasetSource, load_rows
from components.environments.shared.own_rows import own_rows_as

DatasetName = Literal[
    "procedural", "polaris", "dapo_math", "aime_past", "aime24", "aime25", "olympiadbench", "gsm8k", "own"
]
"""procedural problems are made here; every other name is a dataset of `LAYOUTS`."""

_NO_LETTERS = re.compile(r"[^\w+\-*/^=<>]|_")
_FINAL_COMMANDS = (
    (r"\leq", r"\le"),
    (r"\geq", r"\ge"),
    (r"\cdot", "*"),
    (r"\times", "*"),
    (r"\ldots", ""),
    (r"\dots", ""),
)
_DAPO_WRAPPING = re.compile(
    r"\A\s*Solve the following math problem step by step\..*?is the answer to the problem\.\s*"
    r'|(?<!\s)\s*Remember to put your answer on its own line after "Answer:"\.\s*\Z',
    re.DOTALL,
)
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One row: the problem, its reference answer, and the year of the contest where the row tells it."""

    statement: str
    answer: str
    year: int | None = None

    @property
    def content(self) -> str:
        r"""What decides whether two statements are one problem: letters, digits and signs, whatever the spelling.

        **Example** `Find $x^{2}$ if  $x \leq 3$.` and `find \(x^2\), if x \le 3` have one content.
        """
        text = plain(self.statement)
        for command, short in _FINAL_COMMANDS:
            text = text.replace(command, short)
        return _NO_LETTERS.sub("", text.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One dataset. `train` and `test` are equal where it has a single split, and None where a source must be given."""

    train: DatasetSource | None
    test: DatasetSource | None
    columns: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], tuple[str, str, Any]]
    """A row's statement, answer, and whatever names its year."""
    load: Callable[[DatasetSource, str], Sequence[Mapping[str, Any]]] = load_rows
    """The rows of a source, which the option of that name gives. Raises ConfigurationError."""

    def question(self, row: Mapping[str, Any]) -> Question | None:
        """The question of a row that has these columns; None for one without a statement or a short answer.

        A statement that no contest would print is none, and no answer is longer than the longest.
        """
        statement, answer, year = self.read(row)
        answer = " ".join(answer.split())
        if (
            len(statement) > MAX_STATEMENT_CHARACTERS
            or not statement.strip()
            or not 0 < len(answer) <= MAX_FINAL_CHARACTERS
        ):
            return None
        found = _YEAR.search(str(year)) if year is not None else None
        return Question(statement=statement.strip(), answer=answer, year=int(found[0]) if found else None)


def _gsm8k(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    _, mark, answer = _text(row["answer"]).rpartition("####")
    return _text(row["question"]), answer if mark else "", None


def _polaris(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    return _text(row["problem"]), _text(row["answer"]), row.get("year")


def _dapo(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    asked = [message["content"] for message in row["prompt"] if message["role"] == "user"]
    return _DAPO_WRAPPING.sub("", asked[-1] if asked else ""), _text(row["reward_model"]["ground_truth"]), None


def _aime_past(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    return _text(row["Question"]), _text(row["Answer"]), row["Year"]


def _aime24(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    return _text(row["Problem"]), _text(row["Answer"]), 2024


def _aime25(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    return _text(row["problem"]), _text(row["answer"]), 2025


def _olympiadbench(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    answers: Sequence[str] = row["final_answer"] or ()
    return _text(row["question"]), ", ".join(_text(answer).strip() for answer in answers), None


def _own(row: Mapping[str, Any]) -> tuple[str, str, Any]:
    return row["question"], row["answer"], None


def _text(value: Any) -> str:
    """A cell as text; an empty cell is no text, and so its row is left out."""
    return "" if value is None else str(value)


def _single(path: str, columns: tuple[str, ...], read: Callable[[Mapping[str, Any]], tuple[str, str, Any]]) -> Layout:
    source = DatasetSource(path=path, split="train")
    return Layout(train=source, test=source, columns=columns, read=read)


_OLYMPIAD = DatasetSource(path="Hothan/OlympiadBench", name="OE_TO_maths_en_COMP", split="train")
LAYOUTS: Mapping[DatasetName, Layout] = {
    "polaris": _single("POLARIS-Project/Polaris-Dataset-53K", ("problem", "answer"), _polaris),
    "dapo_math": _single("BytedTsinghua-SIA/DAPO-Math-17k", ("prompt", "reward_model"), _dapo),
    "aime_past": _single("gneubig/aime-1983-2024", ("Question", "Answer", "Year"), _aime_past),
    "aime24": _single("Maxwell-Jia/AIME_2024", ("Problem", "Answer"), _aime24),
    "aime25": _single("yentinglin/aime_2025", ("problem", "answer"), _aime25),
    "olympiadbench": Layout(train=_OLYMPIAD, test=_OLYMPIAD, columns=("question", "final_answer"), read=_olympiadbench),
    "gsm8k": Layout(
        train=DatasetSource(path="openai/gsm8k", name="main", split="train"),
        test=DatasetSource(path="openai/gsm8k", name="main", split="test"),
        columns=("question", "answer"),
        read=_gsm8k,
    ),
    "own": Layout(train=None, test=None, columns=(), read=_own, load=own_rows_as(OwnQuestion)),
}
