"""The HTTP retriever against a server that speaks the protocol, is away, is slow, or answers something else."""

import json
import socket
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import zstandard

from components.environments.search.http import HttpRetriever
from components.errors import PermanentError, RetrieverIncompatible, RetrieverUnavailable, TransientError
from components.schema import Passage, Query
from tests.components.environments.search.retrieval_server import Reply, RetrievalServer, running_server

QUERY = Query(text="who is Ann?", num_passages=2)
ANN = Passage(title="Ann", text="Ann lives here.", score=1.0)
BOB = Passage(title="Bob", text="Bob lives there.", score=0.5)


@pytest.fixture(scope="module")
def running() -> Iterator[RetrievalServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(running: RetrievalServer) -> RetrievalServer:
    running.replies, running.requests = [], []
    return running


@contextmanager
def retriever_at(url: str, **settings: Any) -> Iterator[tuple[HttpRetriever, list[float]]]:
    pauses: list[float] = []
    retriever = HttpRetriever(url, pause=pauses.append, **{"timeout_seconds": 5.0, **settings})
    try:
        yield retriever, pauses
    finally:
        retriever.close()


def test_it_asks_and_reads_as_the_protocol_says(server: RetrievalServer) -> None:
    with retriever_at(server.url) as (retriever, pauses):
        assert retriever.search(QUERY) == (ANN, BOB)
    assert server.requests == [{"path": "/retrieve", "queries": ["who is Ann?"], "topk": 2, "return_scores": True}]
    assert pauses == []


def test_no_more_passages_are_taken_than_were_asked_for(server: RetrievalServer) -> None:
    generous = [{"document": {"contents": f'"T{n}"\ntext'}, "score": 3 - n} for n in range(3)]
    server.replies = [("body", json.dumps({"result": [generous]}).encode()), ("body", b'{"result": [[]]}')]
    with retriever_at(server.url) as (retriever, _):
        assert [passage.title for passage in retriever.search(QUERY)] == ["T0", "T1"]
        assert retriever.search(QUERY) == ()


@pytest.mark.parametrize(
    "reply",
    [
        ("status", 503),
        ("status", 500),
        ("status", 429),
        ("truncated", None),
        ("cut_chunk", None),
        ("reset", None),
        ("slow", 0.6),
        ("drip", 4.0),
    ],
)
def test_what_may_pass_is_tried_again(server: RetrievalServer, reply: Reply) -> None:
    server.replies = [reply, reply]
    started = time.monotonic()
    with retriever_at(server.url, timeout_seconds=0.3) as (retriever, pauses):
        assert retriever.search(QUERY) == (ANN, BOB)
    assert time.monotonic() - started < 4.0
    assert pauses == [0.5, 1.0]
    assert len(server.requests) == 3


@pytest.mark.parametrize("reply", [("status", 503), ("truncated", None), ("reset", None)])
def test_what_does_not_pass_is_a_transient_error_that_names_address_and_remedy(
    server: RetrievalServer, reply: Reply
) -> None:
    server.replies = [reply] * 4
    with retriever_at(server.url) as (retriever, pauses), pytest.raises(RetrieverUnavailable) as raised:
        retriever.search(QUERY)
    assert isinstance(raised.value, TransientError)
    assert server.url in str(raised.value)
    assert "retrieval_server.py" in str(raised.value)
    assert pauses == [0.5, 1.0, 2.0]
    assert len(server.requests) == 4


def test_nobody_at_the_address_is_a_transient_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/retrieve"
        with (
            retriever_at(url) as (retriever, pauses),
            pytest.raises(RetrieverUnavailable, match=r"did not answer in 4 attempts"),
        ):
            retriever.search(QUERY)
    assert len(pauses) == 3


BROKEN = (
    b"",
    b"hello",
    b'{"result": [[',
    b"\xff\xfe",
    b"[" * 50_000,
    b"null",
    b"[]",
    b"{}",
    b'{"result": null}',
    b'{"result": []}',
    b'{"result": [[], []]}',
    b'{"result": {"0": []}}',
    b'{"result": ["Ann"]}',
    b'{"result": [["Ann"]]}',
    b'{"result": [[{"contents": "no document", "score": 1}]]}',
    b'{"result": [[{"document": {"contents": "no score"}}]]}',
    b'{"result": [[{"document": {"contents": "x"}, "score": "high"}]]}',
    b'{"result": [[{"document": {"contents": "x"}, "score": true}]]}',
    b'{"result": [[{"document": {"contents": "x"}, "score": NaN}]]}',
    b'{"result": [[{"document": {"contents": "x"}, "score": 1' + b"0" * 400 + b"}]]}",
    b'{"result": [[{"document": {"contents": null}, "score": 1}]]}',
    b'{"result": [[{"document": null, "score": 1}]]}',
)


@pytest.mark.parametrize("body", BROKEN, ids=[str(number) for number in range(len(BROKEN))])
def test_an_answer_that_breaks_the_protocol_is_a_permanent_error_at_once(server: RetrievalServer, body: bytes) -> None:
    server.replies = [("body", body)]
    with retriever_at(server.url) as (retriever, pauses), pytest.raises(RetrieverIncompatible) as raised:
        retriever.search(QUERY)
    assert isinstance(raised.value, PermanentError)
    assert server.url in str(raised.value)
    assert len(str(raised.value)) < 600
    assert pauses == []
    assert len(server.requests) == 1


def test_an_answer_without_end_is_a_permanent_error_before_it_fills_the_memory(server: RetrievalServer) -> None:
    server.replies = [("huge", 200)]
    tracemalloc.start()
    try:
        with (
            retriever_at(server.url) as (retriever, _),
            pytest.raises(RetrieverIncompatible, match="more than 4 MiB"),
        ):
            retriever.search(QUERY)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert len(server.requests) == 1


def zeros(encoding: str, num_mib: int) -> bytes:
    """MiB of zeros in a few bytes."""
    makers = {"zstd": zstandard.ZstdCompressor().compressobj, "gzip": lambda: zlib.compressobj(wbits=31)}
    compressor, piece = makers[encoding](), bytes(1 << 20)
    return b"".join([*(compressor.compress(piece) for _ in range(num_mib)), compressor.flush()])


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_a_packed_answer_is_a_permanent_error_and_never_unpacked(server: RetrievalServer, encoding: str) -> None:
    server.replies = [("packed", (encoding, zeros(encoding, 256)))]

    def expect_refusal() -> None:
        with (
            retriever_at(server.url) as (retriever, _),
            pytest.raises(RetrieverIncompatible, match=f"'{encoding}', un"),
        ):
            retriever.search(QUERY)

    expect_refusal()
    server.replies = [("packed", (encoding, zeros(encoding, 256)))]
    tracemalloc.start()
    try:
        expect_refusal()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert [request["queries"] for request in server.requests] == [[QUERY.text]] * 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * 100_000, "nested too deep"),
        (b"[" + b"[]," * 1_200_000 + b"0]", "at most 500000 are read"),
        (b'{"result": [[{"document": {"contents": "' + b"x" * 100_001 + b'"}, "score": 1}]]}', "of at most 100000"),
        (b'{"result": [[' + b"[" * 900 + b"]" * 900 + b"]]}", "valid dictionary"),
    ],
    ids=["deep", "many", "passage", "nest"],
)
def test_an_answer_that_would_take_long_is_a_permanent_error(server: RetrievalServer, body: bytes, words: str) -> None:
    server.replies = [("body", body)]
    with retriever_at(server.url) as (retriever, _), pytest.raises(RetrieverIncompatible, match=words) as raised:
        retriever.search(QUERY)
    assert len(str(raised.value)) < 700


@pytest.mark.parametrize("status", [400, 404, 422, 301])
def test_a_refusal_is_a_permanent_error_that_names_the_status(server: RetrievalServer, status: int) -> None:
    server.replies = [("status", status)]
    with retriever_at(server.url) as (retriever, _), pytest.raises(RetrieverIncompatible, match=f"HTTP {status}"):
        retriever.search(QUERY)
    assert len(server.requests) == 1


def test_one_retriever_serves_many_threads(server: RetrievalServer) -> None:
    with retriever_at(server.url) as (retriever, _), ThreadPoolExecutor(8) as crew:
        answers = list(crew.map(retriever.search, [QUERY] * 64))
    assert answers == [(ANN, BOB)] * 64


def test_a_query_of_any_text_can_be_sent(server: RetrievalServer) -> None:
    with retriever_at(server.url) as (retriever, _):
        for text in ("東京 é", "a\ud800b", '"\\\n'):
            retriever.search(Query(text=text, num_passages=1))
    assert [request["queries"] for request in server.requests] == [["東京 é"], ["a\ud800b"], ['"\\\n']]


def test_the_digest_names_address_and_corpus() -> None:
    retrievers = [
        HttpRetriever(url, corpus_name=name) for url in ("http://a/r", "http://b/r") for name in ("", "wiki18")
    ]
    assert len({retriever.digest for retriever in retrievers}) == 4
    for retriever in retrievers:
        retriever.close()
