"""From options to questions, passages and a retriever; each is built once per process."""

from functools import lru_cache
from pathlib import Path

from components.environments.base import Retriever, Split
from components.environments.search.bm25 import Bm25Retriever
from components.environments.search.corpus import corpus_of, read_corpus
from components.environments.search.http import HttpRetriever
from components.environments.search.hub_rows import ReadRows, read_rows
from components.environments.search.invented_world import procedural_questions
from components.environments.search.options import USUAL_COPIES, SearchOptions
from components.environments.search.questions import QuestionSet
from components.environments.shared.dataset_rows import DatasetSource, load_rows
from components.environments.shared.splits import train_without_test
from components.errors import ConfigurationError

_NO_ROWS = ReadRows(questions=(), passages=())


def question_set(options: SearchOptions) -> QuestionSet:
    """The questions of both splits. Raises ConfigurationError when a data set cannot be read."""
    if options.dataset == "procedural":
        return _procedural(options.chosen_level, options.world_seed)
    return _read(_source(options, "train"), _source(options, "test"))


@lru_cache(maxsize=4)
def _procedural(level: int, world_seed: int) -> QuestionSet:
    return procedural_questions(level, world_seed)


@lru_cache(maxsize=2)
def _read(train_source: DatasetSource | None, test_source: DatasetSource | None) -> QuestionSet:
    train, test = _rows(train_source, "train"), _rows(test_source, "test")
    kept = train_without_test(*([question.content for question in side.questions] for side in (train, test)))
    bring_passages = all(side.passages for side in (train, test) if side.questions)
    return QuestionSet(
        train=tuple(train.questions[position] for position in kept),
        test=test.questions,
        passages=tuple(dict.fromkeys((*train.passages, *test.passages))) if bring_passages else (),
    )


def _rows(source: DatasetSource | None, split: Split) -> ReadRows:
    field = f"environment.options.{split}"
    return _NO_ROWS if source is None else read_rows(load_rows(source, field=field), field=field)


def _source(options: SearchOptions, split: Split) -> DatasetSource | None:
    """Where the questions of a split lie; None for a data set that has none."""
    given = options.train if split == "train" else options.test
    return given or USUAL_COPIES.get((options.dataset_of(split), split))


def retriever_for(options: SearchOptions) -> Retriever:
    """What answers the queries: the server or the corpus that the options name, or the passages that came with the
    questions. Raises ConfigurationError when there are none."""
    if options.retriever_url is not None:
        return _remote(options.retriever_url, options.retriever_corpus, options.retriever_timeout_seconds)
    if options.corpus is not None:
        return _local_file(options.corpus, _state_of(options.corpus))
    if options.dataset == "procedural":
        return _invented(options.chosen_level, options.world_seed)
    if not question_set(options).passages:
        names = sorted({options.dataset, options.dataset_of("test")})
        raise ConfigurationError(
            f"environment.options.dataset {' and '.join(map(repr, names))}: not all of its questions bring passages; set "
            "environment.options.corpus to a .jsonl file of passages, or environment.options.retriever_url to a running "
            "retriever"
        )
    return _brought(_source(options, "train"), _source(options, "test"))


@lru_cache(maxsize=8)
def _remote(url: str, corpus_name: str, timeout_seconds: float) -> Retriever:
    return HttpRetriever(url, corpus_name=corpus_name, timeout_seconds=timeout_seconds)


@lru_cache(maxsize=2)
def _local_file(path: str, _state: tuple[int, int]) -> Retriever:
    return Bm25Retriever(read_corpus(path))


def _state_of(path: str) -> tuple[int, int]:
    """Size and time of change: another file under the same path is another corpus."""
    try:
        found = Path(path).stat()
    except OSError:
        return (0, 0)
    return (found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=4)
def _invented(level: int, world_seed: int) -> Retriever:
    return Bm25Retriever(corpus_of(_procedural(level, world_seed).passages))


@lru_cache(maxsize=2)
def _brought(train_source: DatasetSource | None, test_source: DatasetSource | None) -> Retriever:
    return Bm25Retriever(corpus_of(_read(train_source, test_source).passages))
