"""A retriever behind HTTP, in the protocol of the Search-R1 and FlashRAG servers.

    POST /retrieve {"queries": ["..."], "topk": 3, "return_scores": true}
    {"result": [[{"document": {"contents": "\\"Title\\"\\ntext"}, "score": 0.8}, ...]]}

A document may also have `title` and `text`.
"""

import json
import time
from collections.abc import Callable
from typing import Annotated, Any

import httpx
from pydantic import BaseModel, FailFast, Field, ValidationError

from components.environments.search.corpus import passage_of
from components.errors import RetrieverIncompatible, RetrieverUnavailable
from components.identity import fingerprint
from components.schema import Passage, Query
from components.text.bounded_json import parse_bounded_json

_MAX_SHOWN = 120
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
"""Replies are never decompressed: a few compressed bytes could expand without limit."""
_TOO_MANY_REQUESTS = 429
MAX_BODY_BYTES = 4 << 20
"""Limit of one reply; twenty passages of Wikipedia are a hundredth of it."""
MAX_PASSAGE_CHARACTERS = 100_000
"""Limit of one title or text. Agents see some hundred characters of it."""


class _Found(BaseModel):
    document: Any
    score: float = Field(strict=True, allow_inf_nan=False)


class _Result(BaseModel):
    """The body of a reply: one list of passages for one query."""

    result: Annotated[list[Annotated[list[_Found], FailFast()]], Field(min_length=1, max_length=1)]


class HttpRetriever:
    """A `Retriever` that asks a server at `url`, the whole address of its endpoint. Safe to share between threads.

    A refused connection, a time-out, a truncated reply and 429 or 5xx are tried `num_attempts` times, with pauses that double
    from `first_pause_seconds`. `timeout_seconds` limits each wait of an attempt and its whole duration, so a server that
    sends a byte now and then cannot stall. `corpus_name` names the server's corpus in the digest: change it with the corpus,
    because equal queries must have equal answers.
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
        """The server's passages, best first, at most as many as requested.

        Raises RetrieverUnavailable if every attempt failed, RetrieverIncompatible if a reply breaks the protocol.
        """
        body = {"queries": [query.text], "topk": query.num_passages, "return_scores": True}
        return self._passages(self._answer(json.dumps(body).encode()))[: query.num_passages]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _answer(self, body: bytes) -> bytes:
        reason = ""
        for attempt in range(self._num_attempts):
            if attempt:
                self._pause(self._first_pause_seconds * 2 ** (attempt - 1))
            try:
                status, content = self._post(body)
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            if 200 <= status < 300:
                return content
            reason = f"HTTP {status}"
            if status < 500 and status != _TOO_MANY_REQUESTS:
                raise self._incompatible(f"{reason}, {_start(content)!r}")
        raise RetrieverUnavailable(
            f"the retriever at {self._url} did not answer in {self._num_attempts} attempts ({reason}). Start one there, for "
            "example Search-R1's `python search_r1/search/retrieval_server.py --index_path INDEX --corpus_path CORPUS "
            "--topk 3`, or set environment.options.retriever_url to where it runs, or environment.options.corpus to search a "
            "local file"
        )

    def _post(self, body: bytes) -> tuple[int, bytes]:
        """Status and content of one attempt, bounded in time and memory."""
        ends = time.monotonic() + self._timeout_seconds
        with self._client.stream("POST", self._url, content=body, headers=_HEADERS) as answer:
            encoding = answer.headers.get("Content-Encoding", "identity")
            if encoding != "identity":
                raise self._incompatible(f"a body in the encoding {encoding[:_MAX_SHOWN]!r}, unasked")
            content = bytearray()
            for chunk in answer.iter_raw():
                content += chunk
                if len(content) > MAX_BODY_BYTES:
                    raise self._incompatible(f"more than {MAX_BODY_BYTES >> 20} MiB")
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout(f"the reply was incomplete after {self._timeout_seconds:g} s")
            return answer.status_code, bytes(content)

    def _passages(self, content: bytes) -> tuple[Passage, ...]:
        try:
            result = _Result.model_validate(parse_bounded_json(content)).result[0]
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, fault["loc"]))
            raise self._incompatible(f"{where}: {fault['msg']}: {_start(content)!r}") from error
        except ValueError as error:
            raise self._incompatible(f"unreadable JSON ({error}): {_start(content)!r}") from error
        return tuple(map(self._passage, result))

    def _passage(self, found: _Found) -> Passage:
        spelled = passage_of(found.document)
        if spelled is None:
            raise self._incompatible("a passage without document, contents or text")
        if (longest := max(map(len, spelled))) > MAX_PASSAGE_CHARACTERS:
            raise self._incompatible(
                f"a passage of {longest} characters, of at most {MAX_PASSAGE_CHARACTERS}: split its corpus into passages"
            )
        return Passage(title=spelled[0], text=spelled[1], score=found.score)

    def _incompatible(self, what: str) -> RetrieverIncompatible:
        return RetrieverIncompatible(
            f"the retriever at {self._url} answered with {what}; it must accept POST {{queries, topk, return_scores}} and "
            "return {result: [[{document, score}]]}"
        )


def _start(content: bytes) -> str:
    """The beginning of a body, for messages."""
    text = content[: 4 * _MAX_SHOWN].decode("utf-8", "replace")
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
