"""From options to questions and a retriever: local files, split hygiene, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from components.environments.search.http import HttpRetriever
from components.environments.search.options import USUAL_COPIES
from components.environments.search.sources import question_set, retriever_for
from components.environments.shared.dataset_rows import DatasetSource
from components.errors import ConfigurationError, RetrieverUnavailable
from components.schema import Query
from tests.components.environments.search.layouts import Row, bamboogle, hotpotqa, musique, nq, two_wiki
from tests.components.environments.search.retrieval_server import running_server
from tests.components.environments.search.tables import options_of, the_family, tools_of


def write_rows(folder: Path, name: str, rows: Sequence[Row]) -> dict[str, str]:
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return {"path": str(path)}


def options_with(folder: Path, dataset: str, layout: Any, **more: Any) -> Any:
    return options_of(
        dataset=dataset,
        train=write_rows(folder, "train", [layout(number) for number in range(6)]),
        test=write_rows(folder, "test", [layout(number) for number in range(4, 8)]),
        **more,
    )


@pytest.mark.parametrize(("dataset", "layout"), [("hotpotqa", hotpotqa), ("2wiki", two_wiki), ("musique", musique)])
def test_a_local_file_is_played_over_its_own_paragraphs(tmp_path: Path, dataset: str, layout: Any) -> None:
    options = options_with(tmp_path, dataset, layout)
    chosen = the_family()
    retriever = chosen.retriever(options)
    assert retriever is chosen.retriever(options)
    for split in ("train", "test"):
        env = chosen.build(chosen.problem(options, split=split, index=0, seed=0), tools_of(retriever))
        for _ in range(3):
            for role in env.roles:
                assert env.apply(role, chosen.expert_action(env.position, role)).error is None
            if env.done:
                break
        assert env.success
        assert env.position.state.state.found == {0, 1}


def test_no_test_question_is_left_in_train_however_it_is_spelled(tmp_path: Path) -> None:
    train = [nq(0), nq(1), {**nq(1), "id": "again"}, {**nq(2), "question": "Who wrote the MOBY, 7?"}, nq(7)]
    options = options_of(
        dataset="nq",
        train=write_rows(tmp_path, "train", train),
        test=write_rows(tmp_path, "test", [nq(7), nq(8), {**nq(9), "golden_answers": []}]),
    )
    questions = question_set(options)
    assert [question.text for question in questions.train] == ["who wrote moby 0", "who wrote moby 1"]
    assert [question.text for question in questions.test] == ["who wrote moby 7", "who wrote moby 8"]


def test_questions_without_passages_need_a_corpus_or_a_retriever(tmp_path: Path) -> None:
    options = options_with(tmp_path, "nq", nq)
    with pytest.raises(ConfigurationError, match=r"'nq'.*set environment\.options\.corpus.*retriever_url"):
        retriever_for(options)
    corpus = write_rows(tmp_path, "corpus", [{"title": "Moby", "text": "by Ann Toval"}])["path"]
    found = retriever_for(options_with(tmp_path, "nq", nq, corpus=corpus))
    assert [passage.title for passage in found.search(Query(text="moby", num_passages=3))] == ["Moby"]


def test_a_test_set_without_passages_needs_a_corpus_even_when_train_brings_some(tmp_path: Path) -> None:
    options = options_of(
        dataset="hotpotqa",
        test_dataset="bamboogle",
        train=write_rows(tmp_path, "train", [hotpotqa()]),
        test=write_rows(tmp_path, "test", [bamboogle()]),
    )
    with pytest.raises(ConfigurationError, match="'bamboogle' and 'hotpotqa'"):
        retriever_for(options)


def test_another_file_under_the_same_name_is_another_corpus(tmp_path: Path) -> None:
    def find_retriever() -> Any:
        return retriever_for(options_of(corpus=str(tmp_path / "corpus.jsonl")))

    write_rows(tmp_path, "corpus", [{"title": "Moby", "text": "one"}])
    before = find_retriever()
    assert find_retriever() is before
    write_rows(tmp_path, "corpus", [{"title": "Moby", "text": "three"}])
    assert find_retriever().digest != before.digest


def test_bamboogle_has_no_train_questions(tmp_path: Path) -> None:
    options = options_of(dataset="bamboogle", test=write_rows(tmp_path, "test", [bamboogle(0), bamboogle(1)]))
    chosen = the_family()
    assert chosen.problem(options, split="test", index=1, seed=0).payload["answers"] == ["Bob Viso"]
    with pytest.raises(ConfigurationError, match=r"'bamboogle': no question for the train split"):
        chosen.problem(options, split="train", index=0, seed=0)


def test_a_running_retriever_is_asked_and_a_missing_one_is_an_error_never_a_made_up_answer() -> None:
    chosen = the_family()
    with running_server() as server:
        options = options_of(retriever_url=server.url, retriever_timeout_seconds=5)
        problem = chosen.problem(options, split="train", index=0, seed=0)
        env = chosen.build(problem, tools_of(chosen.retriever(options)))
        assert env.apply("searcher", "?Ann").error is None
        assert "+ Ann: Ann lives here." in env.observe("reasoner").state
    alone = chosen.build(problem, tools_of(HttpRetriever(server.url, pause=lambda seconds: None)))
    with pytest.raises(RetrieverUnavailable, match=server.url):
        alone.apply("searcher", "?Bob")


def test_accents_are_folded_and_answers_count_both_ways_where_ascii_alone_is_shown(tmp_path: Path) -> None:
    rows = [{**hotpotqa(), "answer": "Kessón", "question": "Where was Zoë born?"}]
    source = write_rows(tmp_path, "both", rows)
    for ascii_only, accepted in ((True, {"Kessón": True, "Kesson": True}), (False, {"Kessón": True, "Kesson": False})):
        options = options_of(dataset="hotpotqa", test=source, train=source, ascii_only=ascii_only)
        for answer, solves in accepted.items():
            chosen = the_family()
            env = chosen.build(chosen.problem(options, split="test", index=0, seed=0))
            assert env.observe("searcher").state.isascii() == ascii_only
            assert env.apply("reasoner", f"={answer}").solves == solves


def test_an_answer_of_which_no_ascii_is_left_is_not_won_by_an_answer_without_words(tmp_path: Path) -> None:
    source = write_rows(tmp_path, "both", [{**hotpotqa(), "answer": "\u6771\u4eac"}])
    chosen, options = the_family(), options_of(dataset="hotpotqa", test=source, train=source, ascii_only=True)
    problem = chosen.problem(options, split="test", index=0, seed=0)
    assert problem.payload["answers"] == ["\u6771\u4eac"]
    for answer in ("the", "??", "!"):
        assert not chosen.build(problem).apply("reasoner", f"={answer}").solves
    assert chosen.build(problem).apply("reasoner", "=\u6771\u4eac").solves


def test_every_usual_copy_names_a_split() -> None:
    assert {dataset for dataset, _ in USUAL_COPIES} == {"hotpotqa", "2wiki", "musique", "bamboogle", "nq"}
    for source in USUAL_COPIES.values():
        assert isinstance(source, DatasetSource)
        assert source.split is not None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"corpus": "x.jsonl", "retriever_url": "http://h/r"}, "set one of them"),
        ({"retriever_url": "127.0.0.1:8000"}, "http:// or https:// address"),
        ({"retriever_url": "http:///retrieve"}, "http:// or https:// address"),
        ({"retriever_url": "ftp://h/r"}, "http:// or https:// address"),
        ({"dataset": "hotpot"}, "dataset"),
        ({"train": {"path": "x.jsonl"}}, "set dataset to the file's layout"),
        ({"test_dataset": "nq"}, "shares no corpus"),
        ({"level": 3}, "level"),
        ({"num_passage": 3}, "did you mean 'num_passages'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        options_of(**options)
