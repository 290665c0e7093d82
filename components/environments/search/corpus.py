"""The passages of a local index, and a digest of their content."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from components.environments.search.questions import Text
from components.environments.shared.custom_rows import json_lines
from components.errors import ConfigurationError

_FIELD = "environment.options.corpus"


def corpus_digest(passages: Iterable[Text]) -> str:
    """Equal digests mean equal passages in equal order."""
    digest = hashlib.sha256()
    for title, text in passages:
        digest.update(json.dumps([title, text]).encode())
    return digest.hexdigest()[:16]


def read_corpus(path: str) -> tuple[Text, ...]:
    """The passages in a .jsonl file with `{"title", "text"}` or `{"contents"}` on each line, without duplicates.
    Further keys are ignored.

    `contents` is the title on its first line, optionally in quotes, then the text, as in the corpora of FlashRAG and
    Search-R1. Raises ConfigurationError naming file, line and remedy.
    """
    found = tuple(dict.fromkeys(_passages(path)))
    if not found:
        raise ConfigurationError(f"{_FIELD} {path!r}: no passages; name a .jsonl file of passages")
    return found


def passage_of(document: Any) -> Text | None:
    """Title and text of a document with `title` and `text`, or with both in `contents`; None for anything else.

    **Example** `{"contents": '"Ann"\\nAnn lives here.'}` is `("Ann", "Ann lives here.")`.
    """
    if not isinstance(document, dict):
        return None
    title, text, contents = document.get("title"), document.get("text"), document.get("contents")
    if isinstance(text, str):
        return (title if isinstance(title, str) else "", text)
    if not isinstance(contents, str):
        return None
    if isinstance(title, str):
        return (title, contents)
    first, _, rest = contents.partition("\n")
    return (first.strip().strip('"'), rest) if rest else ("", contents)


def _passages(path: str) -> Iterator[Text]:
    for place, document in json_lines(Path(path), f"{_FIELD} {path!r}"):
        passage = passage_of(document)
        if passage is None:
            raise ConfigurationError(
                f'{place}: not a passage; write {{"title": ..., "text": ...}} or {{"contents": ...}}'
            )
        yield passage
