"""The questions of a split of a dataset, without repetitions, and without test problems in train."""

from functools import lru_cache

from components.environments.base import Split
from components.environments.math.layouts import LAYOUTS, Question
from components.environments.math.normalization import plain
from components.environments.math.options import MathOptions
from components.environments.shared.dataset_rows import DatasetSource, columns_of
from components.environments.shared.splits import divide_rows, tell_of_contradictions, train_without_test
from components.errors import ConfigurationError

TEST_YEARS = frozenset({2024, 2025})
"""AIME problems of these years are standard tests: they are never trained on, whatever the test split is."""


@lru_cache(maxsize=8)
def questions_of(options: MathOptions, split: Split) -> tuple[Question, ...]:
    """The questions of `split`, loaded from its dataset once per process.

    One source for both splits is divided by content, one question in five for tests.
    Raises ConfigurationError if the dataset cannot be read, lacks its columns, or no question is left.
    """
    read = _read(options, split)
    questions = [question for question in read if split == "test" or question.year not in TEST_YEARS]
    contents = [question.content for question in questions]
    if _source(options, "train") == _source(options, "test"):
        kept = divide_rows(contents)[split]
    else:
        trains_apart = split == "train" and options.dataset_of("test") != "procedural"
        held_out = [question.content for question in questions_of(options, "test")] if trains_apart else []
        kept = train_without_test(contents, held_out)
    if not kept:
        raise ConfigurationError(
            f"{_field(options, split)}: no question is left for the {split} split of {len(read)} with a short answer "
            f"({len(read) - len(questions)} of the test years {sorted(TEST_YEARS)}, {len(questions)} of the other split); "
            "choose another dataset"
        )
    return tuple(questions[position] for position in kept)


def _read(options: MathOptions, split: Split) -> list[Question]:
    """All usable questions, each statement once."""
    name, source = options.dataset_of(split), _source(options, split)
    assert source is not None, f"{name} without its source"
    layout, field = LAYOUTS[name], _field(options, split)
    rows = layout.load(source, f"environment.options.{options.source_field(split)}")
    missing = [column for column in layout.columns if len(rows) and column not in rows[0]]
    if missing:
        raise ConfigurationError(
            f"{field}: has no column {', '.join(missing)}, as {name} has; it has {sorted(rows[0])}"
        )
    questions: dict[str, Question] = {}
    told_twice: list[tuple[str, str]] = []
    for row in columns_of(rows, layout.read_columns):
        try:
            question = layout.question(row)
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{field}: a row does not have the layout: {type(error).__name__}: {error}"
            ) from error
        if question is not None:
            first = questions.setdefault(question.statement, question)
            if first.answer != question.answer:
                told_twice += [(each.statement, plain(each.answer)) for each in (first, question)]
    tell_of_contradictions(field, told_twice)
    return list(questions.values())


def _source(options: MathOptions, split: Split) -> DatasetSource | None:
    """The source of the rows of a split; None for problems drawn by rule."""
    given = options.source(split)
    if given is not None or options.dataset_of(split) == "procedural":
        return given
    return LAYOUTS[options.dataset_of(split)].source(split)


def _field(options: MathOptions, split: Split) -> str:
    source = _source(options, split)
    return f"environment.options.{options.source_field(split)}.path {source.path if source else None!r}"
