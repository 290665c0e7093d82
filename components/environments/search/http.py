"""A retriever behind HTTP, in the protocol that the servers of Search-R1 and FlashRAG speak.

    POST /retrieve {"queries": ["..."], "topk": 3, "return_scores": true}
    {"result": [[{"document": {"contents": "\\"Title\\"\\ntext"}, "score": 0.8}, ...]]}

A document may also spell `title` and `text`.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from components.bounded_json import bounded_json
from components.environments.search.corpus import passage_of
from components.errors import RetrieverIncompatible, RetrieverUnavailable
from components.identity import fingerprint
from components.schema import Passage, Query

_MAX_SHOWN = 120
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
"""Nothing is unpacked here: a few compressed bytes would become any number of them."""
_TOO_MANY_REQUESTS = 429
MAX_BODY_BYTES = 4 << 20
"""Of one answer; twenty passages of Wikipedia are a hundredth of it."""
MAX_PASSAGE_CHARACTERS = 100_000
"""Of one title or text. Agents are shown some hundred characters of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """A whole answer of the server."""

    status: int
    content: bytes

    @property
    def start(self) -> str:
        """The beginning of the body, for messages."""
        return _start(self.content[: 4 * _MAX_SHOWN].decode("utf-8", "replace"))


class HttpRetriever:
    """A `Retriever` that asks a server at `url`, the whole address of its endpoint.

    A refused connection, a time-out, a broken answer and 429 or 5xx are tried again `num_attempts` times in all, with a pause
    that doubles from `first_pause_seconds`. `timeout_seconds` is for each wait of an attempt and for its whole answer too, so
    that a server which sends a byte now and then is slow, not endless. `corpus_name` says which corpus the server holds, as
    part of the digest: a server that changes its corpus under the same name breaks the promise that equal queries have equal
    answers. Safe to share between threads.
    """

    def __init__(
        self,
        url: str,
        *,
        corpus_name: str = "",
        timeout_seconds: float = 30.0,
        num_attempts: int = 4,
        first_pause_seconds: float = 0.5,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.digest = fingerprint(["http", url, corpus_name])
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._num_attempts = num_attempts
        self._first_pause_seconds = first_pause_seconds
        self._pause = pause
        self._client = httpx.Client(timeout=timeout_seconds, trust_env=False)

    def search(self, query: Query) -> tuple[Passage, ...]:
        """The server's passages, best first, at most as many as asked for.

        Raises RetrieverUnavailable when no attempt was answered, RetrieverIncompatible when an answer says something else
        than the protocol.
        """
        body = {"queries": [query.text], "topk": query.num_passages, "return_scores": True}
        answer = self._answer(body)
        return self._passages(answer)[: query.num_passages]

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def _answer(self, body: dict[str, Any]) -> _Reply:
        reason = ""
        for attempt in range(self._num_attempts):
            if attempt:
                self._pause(self._first_pause_seconds * 2 ** (attempt - 1))
            try:
                answer = self._posted(json.dumps(body).encode())
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            if 200 <= answer.status < 300:
                return answer
            reason = f"HTTP {answer.status}"
            if not (answer.status >= 500 or answer.status == _TOO_MANY_REQUESTS):
                raise self._incompatible(f"{reason}, {answer.start!r}")
        raise RetrieverUnavailable(
            f"the retriever at {self._url} did not answer in {self._num_attempts} attempts ({reason}). Start one there, for "
            "example Search-R1's `python search_r1/search/retrieval_server.py --index_path INDEX --corpus_path CORPUS "
            "--topk 3`, or set environment.options.retriever_url to where it runs, or environment.options.corpus to search a "
            "local file"
        )

    def _posted(self, body: bytes) -> _Reply:
        """One attempt, bounded in time and memory."""
        ends = time.monotonic() + self._timeout_seconds
        with self._client.stream("POST", self._url, content=body, headers=_HEADERS) as answer:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise self._incompatible(
                    f"a body in the encoding {_start(answer.headers['Content-Encoding'])!r}, unasked"
                )
            content = bytearray()
            for chunk in answer.iter_raw():
                content += chunk
                if len(content) > MAX_BODY_BYTES:
                    raise self._incompatible(f"more than {MAX_BODY_BYTES >> 20} MiB")
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout(f"the answer was not whole after {self._timeout_seconds:g} s")
            return _Reply(status=answer.status_code, content=bytes(content))

    def _passages(self, answer: _Reply) -> tuple[Passage, ...]:
        try:
            content = bounded_json(answer.content)
        except ValueError as error:
            raise self._incompatible(f"no JSON that can be read ({error}): {answer.start!r}") from error
        results = content.get("result") if isinstance(content, dict) else None
        if not isinstance(results, list) or len(results) != 1 or not isinstance(results[0], list):
            raise self._incompatible(f"not one list of passages under 'result': {answer.start!r}")
        return tuple(self._passage(entry) for entry in results[0])

    def _passage(self, entry: Any) -> Passage:
        spelled = passage_of(entry.get("document")) if isinstance(entry, dict) else None
        if spelled is None:
            raise self._incompatible(f"a passage without document, contents or text: {_shown(entry)}")
        if (longest := max(map(len, spelled))) > MAX_PASSAGE_CHARACTERS:
            raise self._incompatible(
                f"a passage of {longest} characters, of at most {MAX_PASSAGE_CHARACTERS}: split its corpus into passages"
            )
        score = _finite(entry.get("score"))
        if score is None:
            raise self._incompatible(f"a passage without a finite score: {_shown(entry)}")
        return Passage(title=spelled[0], text=spelled[1], score=score)

    def _incompatible(self, what: str) -> RetrieverIncompatible:
        return RetrieverIncompatible(
            f"the retriever at {self._url} answered with {what}; it must take POST {{queries, topk, return_scores}} and give "
            "{result: [[{document, score}]]} back"
        )


def _finite(score: Any) -> float | None:
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    try:
        number = float(score)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _shown(entry: Any) -> str:
    """A value of an answer for a message: short, and never deep."""
    return (
        f"an object with {_start(', '.join(map(repr, entry)))}"
        if isinstance(entry, dict)
        else f"a {type(entry).__name__}"
    )


def _start(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
