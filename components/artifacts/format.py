"""The format version of a whole store: its layout and the meaning of its records."""

import json

from components.artifacts.base import ArtifactStore
from components.errors import StoreRefused

FORMAT = 2
"""Incremented when the layout or the meaning of records changes."""
_KEY = "format.json"


def check_format(store: ArtifactStore) -> None:
    """Raise StoreRefused unless the store is of this Troupe's format, or has none yet."""
    content = store.read(_KEY)
    if content is None:
        return
    try:
        number = json.loads(content)["format"]
    except (ValueError, KeyError, TypeError):
        number = None
    if not isinstance(number, int) or isinstance(number, bool):
        raise StoreRefused(f"{store.uri}/{_KEY} is damaged: it should be {_record(FORMAT).decode()} for this Troupe")
    if number != FORMAT:
        raise StoreRefused(
            f"{store.uri} is of format {number}, and this Troupe knows format {FORMAT}: use the Troupe that wrote it, or name "
            "another store with --store"
        )


def ensure_format(store: ArtifactStore) -> None:
    """Record the store's format unless it is recorded, then check it as `check_format` does."""
    store.create(_KEY, _record(FORMAT))
    check_format(store)


def _record(number: int) -> bytes:
    return json.dumps({"format": number}).encode()
