"""The questions of a split of a dataset: read in its layout, without repetitions, and without test problems in train."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from components.environments.base import Split
from components.environments.math.layouts import LAYOUTS, Layout, Question
from components.environments.math.options import MathOptions
from components.environments.shared.dataset_rows import DatasetSource, Hygiene, train_without_test
from components.environments.shared.splits import split_of
from components.errors import ConfigurationError

TEST_YEARS = frozenset({2024, 2025})
"""AIME problems of these years are what the field tests on: they are never trained on, whatever the test split is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSplit:
    """The questions of one split and what was left out on the way.

    `num_unusable` rows have no statement or no short answer, `num_test_year` belong to a test year.
    """

    questions: tuple[Question, ...]
    hygiene: Hygiene
    num_unusable: int
    num_test_year: int


def questions_of(options: MathOptions, split: Split) -> QuestionSplit:
    """The questions of `split`, which is drawn from a dataset and not from a generator. Loaded once a process.

    Two splits of one source are told apart by content, one question in five for tests.
    Raises ConfigurationError when the dataset cannot be read, lacks its columns, or no question is left.
    """
    return _questions_of(options, split)


@lru_cache(maxsize=8)
def _questions_of(options: MathOptions, split: Split) -> QuestionSplit:
    source = _source(options, split)
    shared = _is_shared(options)
    read = _read(options, split)
    questions = read.questions
    if shared:
        questions = tuple(question for question in questions if split_of({"statement": question.content}) == split)
    if split == "test":
        kept, hygiene = train_without_test([_id(question) for question in questions], ())
        num_test_year = 0
    else:
        recent = [question for question in questions if question.year in TEST_YEARS]
        num_test_year = len(recent)
        questions = tuple(question for question in questions if question.year not in TEST_YEARS)
        kept, hygiene = train_without_test([_id(question) for question in questions], _test_ids(options, shared))
    if not kept:
        raise ConfigurationError(
            f"{_field(options, split)} {source.path!r}: no question is left for the {split} split of {read.num_rows} rows "
            f"({read.num_unusable} without a short answer, {num_test_year} of the test years "
            f"{sorted(TEST_YEARS)}, {hygiene.num_dropped} also in the test split); choose another dataset"
        )
    return QuestionSplit(
        questions=tuple(questions[position] for position in kept),
        hygiene=hygiene,
        num_unusable=read.num_unusable,
        num_test_year=num_test_year,
    )


def _is_shared(options: MathOptions) -> bool:
    """Whether both splits are drawn from one source."""
    one_dataset = options.dataset_of("train") == options.dataset_of("test")
    return one_dataset and _source(options, "train") == _source(options, "test")


def _test_ids(options: MathOptions, shared: bool) -> tuple[str, ...]:
    """The ids of the test questions that might be train rows too."""
    if options.dataset_of("test") == "procedural" or shared:
        return ()
    return tuple(_id(question) for question in questions_of(options, "test").questions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    questions: tuple[Question, ...]
    num_rows: int
    num_unusable: int


def _read(options: MathOptions, split: Split) -> _Read:
    name, source = options.dataset_of(split), _source(options, split)
    layout, field = LAYOUTS[name], _field(options, split)
    rows = layout.load(source, field)
    missing = [column for column in layout.columns if len(rows) and column not in rows[0]]
    if missing:
        raise ConfigurationError(
            f"{field}.path {source.path!r}: has no column {', '.join(missing)}, as {name} has; it has {sorted(rows[0])}"
        )
    questions, seen, num_unusable = list[Question](), set[str](), 0
    question_of = _tolerant(layout, field, source)
    for row in rows:
        question = question_of(row)
        if question is None:
            num_unusable += 1
        elif question.statement not in seen:
            seen.add(question.statement)
            questions.append(question)
    return _Read(questions=tuple(questions), num_rows=len(rows), num_unusable=num_unusable)


def _tolerant(layout: Layout, field: str, source: DatasetSource) -> Callable[[Mapping[str, Any]], Question | None]:
    def question(row: Mapping[str, Any]) -> Question | None:
        try:
            return layout.question(row)
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{field}.path {source.path!r}: a row does not have the layout: {type(error).__name__}: {error}"
            ) from error

    return question


def _source(options: MathOptions, split: Split) -> DatasetSource:
    given = options.source(split)
    if given is not None:
        return given
    layout = LAYOUTS[options.dataset_of(split)]
    place = layout.train if split == "train" else layout.test
    assert place is not None, f"{options.dataset_of(split)} without its source"
    return place


def _field(options: MathOptions, split: Split) -> str:
    return f"environment.options.{split}_source"


def _id(question: Question) -> str:
    return sha256(question.content.encode()).hexdigest()[:16]
