"""Problems read from datasets: the table of each split, without test problems among the train problems."""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from random import Random

from components.environments.base import Split
from components.environments.code.layouts.apps import APPS
from components.environments.code.layouts.code_contests import CODE_CONTESTS
from components.environments.code.layouts.custom import CUSTOM
from components.environments.code.layouts.humaneval import HUMANEVAL, humaneval_rows
from components.environments.code.layouts.layout import Layout, Row, Unusable
from components.environments.code.layouts.livecodebench import LIVECODEBENCH
from components.environments.code.options import CodeOptions, Dataset
from components.environments.code.problem import CodeProblem
from components.environments.shared.dataset_rows import DatasetSource, columns_of
from components.environments.shared.splits import divide_rows, shuffle_index, train_without_test
from components.environments.shared.text import shorten
from components.errors import ConfigurationError
from components.identity import seed_for

LAYOUTS: Mapping[Dataset, Layout] = {
    "humaneval": HUMANEVAL,
    "apps": APPS,
    "code_contests": CODE_CONTESTS,
    "livecodebench": LIVECODEBENCH,
    "custom": CUSTOM,
}
_MAX_REPLACEMENTS = 1000
_WORD = re.compile(r"[^\W_]+")
_WORD_OR_BRACKET = re.compile(r"[^\W_]+|[<>()\[\]{}]")
_log = logging.getLogger("troupe.environments.data")
_FAULTS = (KeyError, TypeError, AttributeError, ValueError, RecursionError)
"""Raised by rows in another layout. Such rows are skipped, unless no row makes a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One dataset and its source; None for a dataset without one."""

    dataset: Dataset
    source: DatasetSource | None
    field: str
    """The option of the source, for error messages."""
    window: tuple[date | None, date | None] = (None, None)
    """The first and the last contest day; None: no limit."""

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.dataset]

    @property
    def named(self) -> str:
        return f"{self.field} {self.source.path!r}" if self.source is not None else f"{self.field} (the package)"

    @property
    def rows(self) -> Sequence[Row]:
        return humaneval_rows() if self.source is None else self.layout.load(self.source, self.field)


def tables(options: CodeOptions) -> Mapping[Split, Table]:
    """The table of each split; the same one twice if it is to be divided by content."""
    train = _table(options, options.dataset, options.source, "train")
    if options.test_dataset is None and options.test_source is None and options.source is not None:
        return {"train": train, "test": train}
    dataset = options.test_dataset or options.dataset
    test = _table(options, dataset, options.test_source, "test")
    same = (train.dataset, train.source) == (test.dataset, test.source)
    return {"train": train, "test": train if same else test}


def _table(options: CodeOptions, dataset: Dataset, source: DatasetSource | None, split: Split) -> Table:
    field = "environment.options.source" if split == "train" else "environment.options.test_source"
    if dataset in ("procedural", "humaneval"):
        if source is not None:
            raise ConfigurationError(f"{field} {source.path!r}: {dataset} has no source; leave it out")
        return Table(dataset=dataset, source=None, field=field)
    places = LAYOUTS[dataset].places
    if source is None and not places:
        raise ConfigurationError(f"{field}: put your own problems in a file and name it, as mine.jsonl")
    source = source or places.get(split) or next(iter(places.values()))
    if dataset != "livecodebench":
        return Table(dataset=dataset, source=source, field=field)
    if options.release is not None:
        source = _of_release(source, options.release, field)
    return Table(dataset=dataset, source=source, field=field, window=(options.from_date, options.to_date))


def _of_release(source: DatasetSource, release: str, field: str) -> DatasetSource:
    """The configuration of `source` with the problems of a release."""
    if source.is_file:
        raise ConfigurationError(
            f"environment.options.release {release!r}: {field} {source.path!r} is one file, whose problems are its own; "
            "leave release out, or name the hub's dataset or a folder of it"
        )
    return source.model_copy(update={"name": release})


def table_problem(options: CodeOptions, *, split: Split, index: int, seed: int) -> CodeProblem:
    """Problem `index` of an endless walk over the split's rows, each once per epoch.

    For a row that makes no problem stands another one, drawn at random. Raises ConfigurationError if the dataset cannot be
    read, or has no row of this split that makes a problem.
    """
    both = tables(options)
    table = both[split]
    positions = _positions(both["train"], both["test"], split)
    if not positions:
        raise ConfigurationError(
            f"{table.named}: {table.dataset} has no problem of the {split} split; "
            "use a larger file, or another one for each split (source, test_source)"
        )
    rows, reasons = table.rows, set[str]()
    for place in _places(index, num_rows=len(positions), seed=seed, split=split):
        row = rows[positions[place]]
        try:
            problem = table.layout.problem(row, options)
        except Unusable as unusable:
            reason = str(unusable)
        except _FAULTS as fault:
            reason = f"a row not in the layout of {table.dataset} ({type(fault).__name__}: {fault})"
        else:
            if problem.reference is None:
                _tell_of_missing_references(table)
            return problem
        reasons.add(reason)
        _tell_of_exclusion(table, positions[place], str(row[table.layout.statement]), reason)
    raise ConfigurationError(
        f"{table.named}: no row of {table.dataset} makes a problem: "
        f"{'; '.join(sorted(reasons)[:3])}; raise max_test_characters, correct the dataset, or use another file"
    )


def _places(index: int, *, num_rows: int, seed: int, split: Split) -> Iterator[int]:
    """Where to look for problem `index`: its place in the walk, then different places drawn for this index alone.

    The walk's next row would stand for each bad one before it, so that a row after many of them were trained on many times
    in one step.
    """
    yield shuffle_index(index, num_rows=num_rows, seed=seed, split=split)
    replacements = Random(seed_for(seed, "replacements", split, index))
    yield from replacements.sample(range(num_rows), min(num_rows, _MAX_REPLACEMENTS))


@cache
def _tell_of_exclusion(table: Table, position: int, statement: str, reason: str) -> None:
    """One line in the log per row that makes no problem, with their number in this process so far."""
    number = _tell_of_exclusion.cache_info().currsize + 1
    words = shorten(" ".join(statement.split()), 60)
    _log.warning("%s: row %d is left out (%d so far), %r: %s", table.named, position, number, words, reason)


@cache
def _tell_of_missing_references(table: Table) -> None:
    _log.warning(
        "%s: problems without a correct program: the tester's own rewards are known only for inputs of the dataset's tests, so "
        "it hardly learns here; procedural, humaneval, apps and code_contests have such programs",
        table.named,
    )


def statement_id(statement: str) -> str:
    """Equal for statements that differ only in case, punctuation and white space."""
    return _digest(_WORD.findall(statement.casefold()))


def _content_id(statement: str) -> str:
    """Equal for statements with equal `statement_id` and brackets: "(" and "<" are not the same problem."""
    return _digest(_WORD_OR_BRACKET.findall(statement.casefold()))


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


@lru_cache(maxsize=8)
def _positions(train: Table, test: Table, split: Split) -> Sequence[int]:
    """The rows of a split, found once per process."""
    if split == "test" and train != test:
        return list(_ids(test))
    places, both = list(_ids(train)), list(_ids(train).values())
    ids, contents = [each[0] for each in both], [each[1] for each in both]
    if train == test:
        kept = divide_rows(ids, contents)[split]
    else:
        kept = train_without_test(ids, [each for each, _ in _ids(test).values()])
    return [places[position] for position in kept]


@lru_cache(maxsize=4)
def _ids(table: Table) -> Mapping[int, tuple[str, str]]:
    """Row -> the ids of its statement and content, for the rows in the table's window; empty for a procedural table.

    Only the columns of statement and date are read.
    """
    if table.dataset == "procedural":
        return {}
    layout = table.layout
    names = [name for name in (layout.statement, layout.date) if name is not None]
    try:
        return {
            position: (statement_id(str(row[layout.statement])), _content_id(str(row[layout.statement])))
            for position, row in enumerate(columns_of(table.rows, names))
            if layout.date is None or _is_within(table.window, row, layout.date)
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{table.named}: rows not in the layout of {table.dataset} "
            f"({type(error).__name__}: {error}); correct the dataset or the path"
        ) from error


def _is_within(window: tuple[date | None, date | None], row: Row, column: str) -> bool:
    """Whether a row's contest day is in the window, both ends included. Without a window the day is not read."""
    first, last = window
    if first is None and last is None:
        return True
    day = date.fromisoformat(str(row[column])[:10])
    return (first is None or first <= day) and (last is None or day <= last)
