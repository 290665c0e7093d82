"""Problems read from datasets: the table of each split, without test problems among the train problems."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from components.environments.base import Split
from components.environments.code.layouts.apps import APPS
from components.environments.code.layouts.code_contests import CODE_CONTESTS
from components.environments.code.layouts.humaneval import HUMANEVAL, humaneval_rows
from components.environments.code.layouts.layout import Layout, Row, Unusable
from components.environments.code.layouts.livecodebench import LIVECODEBENCH
from components.environments.code.layouts.own import OWN
from components.environments.code.options import CodeOptions, Dataset
from components.environments.code.problem import CodeProblem
from components.environments.shared.dataset_rows import DatasetSource
from components.environments.shared.splits import divided, shuffled_index, train_without_test
from components.errors import ConfigurationError

LAYOUTS: Mapping[Dataset, Layout] = {
    "humaneval": HUMANEVAL,
    "apps": APPS,
    "code_contests": CODE_CONTESTS,
    "livecodebench": LIVECODEBENCH,
    "own": OWN,
}
_MAX_SKIPPED = 1000
_FAULTS = (KeyError, TypeError, AttributeError, ValueError, RecursionError)
"""Raised by rows in another layout. Such rows are skipped, unless no row makes a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One dataset and its source; None for a dataset without one."""

    dataset: Dataset
    source: DatasetSource | None
    field: str
    """The option of the source, for error messages."""

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
    train = _table(options.dataset, options.source, "train", "environment.options.source")
    if options.test_dataset is None and options.test_source is None and options.source is not None:
        return {"train": train, "test": train}
    dataset = options.test_dataset or options.dataset
    test = _table(dataset, options.test_source, "test", "environment.options.test_source")
    same = (train.dataset, train.source) == (test.dataset, test.source)
    return {"train": train, "test": train if same else test}


def _table(dataset: Dataset, source: DatasetSource | None, split: Split, field: str) -> Table:
    if dataset in ("procedural", "humaneval"):
        if source is not None:
            raise ConfigurationError(f"{field} {source.path!r}: {dataset} has no source; leave it out")
        return Table(dataset=dataset, source=None, field=field)
    places = LAYOUTS[dataset].places
    if source is None and not places:
        raise ConfigurationError(
            f"{field}: problems of one's own are read from a file; name it, as {{path: mine.jsonl}}"
        )
    return Table(dataset=dataset, source=source or places.get(split) or next(iter(places.values())), field=field)


def table_problem(options: CodeOptions, *, split: Split, index: int, seed: int) -> CodeProblem:
    """Problem `index` of an endless walk over the split's rows, each once per epoch; rows that make no problem are skipped.

    Raises ConfigurationError if the dataset cannot be read, or has no row of this split that makes a problem.
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
    for step in range(min(2 * len(positions), _MAX_SKIPPED)):  # the rest of this epoch and the whole next one
        place = shuffled_index(index + step, num_rows=len(positions), seed=seed, split=split)
        try:
            return table.layout.problem(rows[positions[place]], options)
        except Unusable as reason:
            reasons.add(str(reason))
        except _FAULTS as fault:
            reasons.add(f"a row not in the layout of {table.dataset} ({type(fault).__name__}: {fault})")
    raise ConfigurationError(
        f"{table.named}: no row of {table.dataset} makes a problem: "
        f"{'; '.join(sorted(reasons)[:3])}; raise max_test_characters, correct the dataset, or use another file"
    )


def statement_id(statement: str) -> str:
    """Equal for statements that differ only in case, punctuation and white space."""
    words = " ".join(re.findall(r"[^\W_]+", statement.casefold()))
    return hashlib.sha256(words.encode()).hexdigest()


@lru_cache(maxsize=8)
def _positions(train: Table, test: Table, split: Split) -> Sequence[int]:
    """The rows of a split, found once per process."""
    if train == test:
        return divided(_ids(train))[split]
    return train_without_test(_ids(train), _ids(test)) if split == "train" else range(len(_ids(test)))


@lru_cache(maxsize=4)
def _ids(table: Table) -> Sequence[str]:
    """The statement id of each row; empty for a procedural table."""
    if table.dataset == "procedural":
        return ()
    try:
        return tuple(statement_id(str(row[table.layout.statement])) for row in table.rows)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{table.named}: rows not in the layout of {table.dataset} "
            f"({type(error).__name__}: {error}); correct the dataset or the path"
        ) from error
