"""BM25 against the formula written out, ties, digests, and threads."""

import math
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_EN
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.search.bm25 import Bm25Retriever, best_places
from components.schema import Query

VOCABULARY = ("cats", "cat", "dog", "dogs", "river", "rivers", "town", "mayor", "the", "of", "kozu", "nali", "É", "42")


def texts(rng: random.Random, longest: int) -> str:
    return " ".join(rng.choices(VOCABULARY, k=rng.randint(0, longest)))


def some_passages(count: int, seed: int) -> tuple[tuple[str, str], ...]:
    rng = random.Random(seed)
    return tuple((f"{texts(rng, 2)} {number}", texts(rng, 12)) for number in range(count))


def oracle_scores(passages: tuple[tuple[str, str], ...], query: str) -> list[float]:
    """Lucene's BM25 written out word by word, titles counted twice."""
    stem = Stemmer.Stemmer("english").stemWord

    def words(text: str) -> list[str]:
        return [stem(word) for word in re.findall(r"\w+", text.lower()) if word not in STOPWORDS_EN]

    documents = [Counter(words(f"{title} {title} {text}")) for title, text in passages]
    average = sum(document.total() for document in documents) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for word in words(query):
            holding = sum(word in other for other in documents)
            if word in document:
                idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
                saturation = document[word] + 1.5 * (1 - 0.75 + 0.75 * document.total() / average)
                score += idf * document[word] / saturation
        scores.append(score)
    return scores


@pytest.mark.parametrize("seed", range(3))
def test_passages_come_in_the_order_of_the_formula_with_its_scores(seed: int) -> None:
    passages = some_passages(40, seed)
    retriever = Bm25Retriever(passages)
    rng = random.Random(seed)
    for _ in range(20):
        query = texts(rng, 5)
        expected = oracle_scores(passages, query)
        found = retriever.search(Query(text=query, num_passages=5))
        wanted = [score for score in sorted(expected, reverse=True)[:5] if score > 0]
        assert [passage.score for passage in found] == pytest.approx(wanted, rel=1e-4)
        for passage in found:
            assert passage.score == pytest.approx(expected[passages.index((passage.title, passage.text))], rel=1e-4)


def test_equally_good_passages_come_in_the_order_of_the_corpus() -> None:
    passages = [(f"title{number}", "kozu and a dog") for number in range(200)]
    retriever = Bm25Retriever(passages)
    found = retriever.search(Query(text="kozu", num_passages=4))
    assert [passage.title for passage in found] == ["title0", "title1", "title2", "title3"]


def test_the_passage_about_somebody_comes_before_those_that_mention_them() -> None:
    corpus = [("Viso", "home Timo, friend Nali"), ("Nali", "home Rado, friend Viso"), ("Rado", "mayor Nali")]
    found = Bm25Retriever(corpus).search(Query(text="friend of Nali", num_passages=1))
    assert found[0].title == "Nali"


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), max_size=30), st.integers(1, 8))
@settings(deadline=None)
def test_best_places_agrees_with_sorting(scores: list[float], count: int) -> None:
    ranked = sorted(
        (place for place, score in enumerate(scores) if score > 0), key=lambda place: (-scores[place], place)
    )
    assert best_places(np.array(scores, dtype=np.float32), count) == ranked[:count]


@pytest.mark.parametrize("text", ["", "the of", "zzzz", "?!", "\ud800", "東京"])
def test_a_query_without_a_known_word_finds_nothing(text: str) -> None:
    retriever = Bm25Retriever(some_passages(10, 0))
    assert retriever.search(Query(text=text, num_passages=3)) == ()


def test_the_digest_names_the_passages_and_their_order() -> None:
    passages = some_passages(10, 0)
    digests = [Bm25Retriever(each).digest for each in (passages, passages, passages[::-1], passages[:9])]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_threads_get_the_answers_that_one_thread_gets() -> None:
    retriever = Bm25Retriever(some_passages(300, 1))
    rng = random.Random(1)
    queries = [Query(text=texts(rng, 6), num_passages=3) for _ in range(200)]
    alone = [retriever.search(query) for query in queries]
    with ThreadPoolExecutor(8) as crew:
        assert list(crew.map(retriever.search, queries)) == alone


def test_nothing_is_printed_while_an_index_is_built(capfd: pytest.CaptureFixture[str]) -> None:
    Bm25Retriever(some_passages(50, 0)).search(Query(text="kozu", num_passages=3))
    assert capfd.readouterr() == ("", "")
