"""Public datasets: their place on the hub, and their columns."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from components.environments.base import Split
from components.environments.math.normalization import MAX_FINAL_CHARACTERS, plain
from components.environments.shared.custom_rows import CustomRow, make_row_reader
from components.environments.shared.dataset_rows import DatasetSource, load_rows

DatasetName = Literal[
    "procedural", "polaris", "dapo_math", "aime_past", "aime24", "aime25", "olympiadbench", "gsm8k", "custom"
]
"""procedural problems are drawn by rule; every other name is a dataset of `LAYOUTS`."""

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


MAX_STATEMENT_CHARACTERS = 20_000


class CustomQuestion(CustomRow):
    """One line: a question and its final answer, text or a number, without the solution.

    **Example** `{"question": "What is half of 14?", "answer": 7}`.
    """

    question: Annotated[str, Field(max_length=MAX_STATEMENT_CHARACTERS)]
    answer: str

    @field_validator("question")
    @classmethod
    def _asks_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("empty")
        return value

    @field_validator("answer", mode="before")
    @classmethod
    def _is_a_final_answer(cls, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{type(value).__name__} instead of text or a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no answer")
        answer = " ".join(str(value).split())
        if not answer:
            raise ValueError("empty")
        if len(answer) > MAX_FINAL_CHARACTERS:
            raise ValueError(
                f"{len(answer)} characters, of at most {MAX_FINAL_CHARACTERS}; write the final answer alone, not the way to it"
            )
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One row: the problem, its reference answer, and the year of the contest if known."""

    statement: str
    answer: str
    year: int | None = None

    @property
    def content(self) -> str:
        r"""The letters, digits and signs, which are equal for two spellings of one problem.

        **Example** `Find $x^{2}$ if  $x \leq 3$.` and `find \(x^2\), if x \le 3` have one content.
        """
        text = plain(self.statement)
        for command, short in _FINAL_COMMANDS:
            text = text.replace(command, short)
        return _NO_LETTERS.sub("", text.casefold())


@dataclass(frozen=True, slots=True)
class Layout:
    """One dataset."""

    path: str | None
    """Its place on the hub; None if a source must be configured."""
    statement: str
    """The column of the problem."""
    answer: str
    """The column of its answer."""
    _: KW_ONLY
    name: str | None = None
    """The configuration of the dataset on the hub."""
    test_split: str = "train"
    """Its split for tests; a single split serves both."""
    year: str | int | None = None
    """The column of the contest's year, which a copy may lack, or the year of all rows."""
    required: tuple[str, ...] = ()
    """Other columns that a copy must have."""
    cleaned: Callable[[Any, Any], tuple[Any, Any]] = lambda statement, answer: (statement, answer)
    """Extracts the problem and its answer from the cells of the two columns."""
    load: Callable[[DatasetSource, str], Sequence[Mapping[str, Any]]] = load_rows
    """(source, option) -> the rows of a source. Raises ConfigurationError naming the option."""

    def source(self, split: Split) -> DatasetSource | None:
        """Where the rows of `split` lie unless configured."""
        part = self.test_split if split == "test" else "train"
        return None if self.path is None else DatasetSource(path=self.path, name=self.name, split=part)

    @property
    def columns(self) -> tuple[str, ...]:
        """The required columns."""
        return (self.statement, self.answer, *self.required)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns that make a question."""
        return (*self.columns, self.year) if isinstance(self.year, str) else self.columns

    def question(self, row: Mapping[str, Any]) -> Question | None:
        """The question of a row with these columns; None if its statement or its answer is missing or too long."""
        cells = self.cleaned(row[self.statement], row[self.answer])
        statement, answer = map(_text, cells)
        answer = " ".join(answer.split())
        if (
            len(statement) > MAX_STATEMENT_CHARACTERS
            or not statement.strip()
            or not 0 < len(answer) <= MAX_FINAL_CHARACTERS
        ):
            return None
        found = _YEAR.search(str(row.get(self.year) if isinstance(self.year, str) else self.year))
        return Question(statement=statement.strip(), answer=answer, year=int(found[0]) if found else None)


def _gsm8k(statement: Any, answer: Any) -> tuple[Any, str]:
    """The answer follows a mark after the solution."""
    _, mark, final = str(answer).rpartition("####")
    return statement, final if mark else ""


def _dapo(prompt: Sequence[Mapping[str, str]], reward_model: Mapping[str, Any]) -> tuple[str, Any]:
    asked = [message["content"] for message in prompt if message["role"] == "user"]
    return _DAPO_WRAPPING.sub("", asked[-1] if asked else ""), reward_model["ground_truth"]


def _olympiadbench(statement: Any, answers: Sequence[Any] | str | None) -> tuple[Any, str]:
    if isinstance(answers, str):  # of rows in the user's own file
        return statement, answers
    return statement, ", ".join(_text(answer).strip() for answer in answers or ())


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


LAYOUTS: Mapping[DatasetName, Layout] = {
    "polaris": Layout("POLARIS-Project/Polaris-Dataset-53K", "problem", "answer", year="year"),
    "dapo_math": Layout("BytedTsinghua-SIA/DAPO-Math-17k", "prompt", "reward_model", cleaned=_dapo),
    "aime_past": Layout("gneubig/aime-1983-2024", "Question", "Answer", year="Year", required=("Year",)),
    "aime24": Layout("Maxwell-Jia/AIME_2024", "Problem", "Answer", year=2024),
    "aime25": Layout("yentinglin/aime_2025", "problem", "answer", year=2025),
    "olympiadbench": Layout(
        "Hothan/OlympiadBench", "question", "final_answer", name="OE_TO_maths_en_COMP", cleaned=_olympiadbench
    ),
    "gsm8k": Layout("openai/gsm8k", "question", "answer", name="main", test_split="test", cleaned=_gsm8k),
    "custom": Layout(None, "question", "answer", load=make_row_reader(CustomQuestion)),
}
