"""From options to questions, passages and a retriever; each is built once per process."""

from functools import lru_cache
from pathlib import Path

from components.environments.base import Retriever, Split
from components.environments.search.bm25 import Bm25Retriever
from components.environments.search.corpus import read_corpus
from components.environments.search.http import HttpRetriever
from components.environments.search.hub_rows import QuestionsAndPassages, read_rows
from components.environments.search.invented_world import procedural_questions
from components.environments.search.options import USUAL_COPIES, SearchOptions
from components.environments.search.questions import QuestionSet
from components.environments.shared.dataset_rows import DatasetSource, load_rows
from components.environments.shared.splits import train_without_test
from components.errors import ConfigurationError

_Origin = tuple[int, int] | tuple[DatasetSource | None, DatasetSource | None]
"""Level and seed of an invented world, or the sources of the train and test questions (None for a split without any)."""


def question_set(options: SearchOptions) -> QuestionSet:
    """The questions of both splits. Raises ConfigurationError if a dataset cannot be read."""
    return _questions(_origin(options))


def retriever_for(options: SearchOptions) -> Retriever:
    """The retriever or corpus named in the options, or an index of the passages that came with the questions.

    Raises ConfigurationError if there are none.
    """
    if options.retriever_url is not None:
        return _remote(options.retriever_url, options.retriever_corpus, options.retriever_timeout_seconds)
    if options.corpus is not None:
        return _local_file(options.corpus, _file_state(options.corpus))
    if not question_set(options).passages:
        names = sorted({options.dataset, options.dataset_of("test")})
        raise ConfigurationError(
            f"environment.options.dataset {' and '.join(map(repr, names))}: not all of its questions come with passages; set "
            "environment.options.corpus to a .jsonl file of passages, or environment.options.retriever_url to a running "
            "retriever"
        )
    return _index(_origin(options))


def _origin(options: SearchOptions) -> _Origin:
    if options.dataset == "procedural":
        return options.chosen_level, options.world_seed
    train, test = (USUAL_COPIES.get((options.dataset_of(split), split)) for split in ("train", "test"))
    return options.train or train, options.test or test


@lru_cache(maxsize=4)
def _questions(origin: _Origin) -> QuestionSet:
    match origin:
        case int(level), int(world_seed):
            return procedural_questions(level, world_seed)
        case train_source, test_source:
            assert not isinstance(train_source, int), origin
            assert not isinstance(test_source, int), origin
    train, train_passages = _rows(train_source, "train")
    test, test_passages = _rows(test_source, "test")
    kept = train_without_test(*([question.content for question in questions] for questions in (train, test)))
    is_complete = all(passages for questions, passages in ((train, train_passages), (test, test_passages)) if questions)
    return QuestionSet(
        train=tuple(train[position] for position in kept),
        test=test,
        passages=tuple(dict.fromkeys((*train_passages, *test_passages))) if is_complete else (),
    )


def _rows(source: DatasetSource | None, split: Split) -> QuestionsAndPassages:
    field = f"environment.options.{split}"
    return read_rows(() if source is None else load_rows(source, field), field=field)


@lru_cache(maxsize=8)
def _remote(url: str, corpus_name: str, timeout_seconds: float) -> Retriever:
    return HttpRetriever(url, corpus_name=corpus_name, timeout_seconds=timeout_seconds)


@lru_cache(maxsize=2)
def _local_file(path: str, _state: tuple[int, int]) -> Retriever:
    return Bm25Retriever(read_corpus(path))


def _file_state(path: str) -> tuple[int, int]:
    """Size and modification time: a changed file under the same path is another corpus."""
    try:
        found = Path(path).stat()
    except OSError:
        return (0, 0)
    return (found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=4)
def _index(origin: _Origin) -> Retriever:
    return Bm25Retriever(_questions(origin).passages)
