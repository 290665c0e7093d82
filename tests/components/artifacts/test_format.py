"""A store records its format, and a Troupe that does not know it refuses the store."""

import json

import pytest

from components.artifacts.base import ArtifactStore
from components.artifacts.format import FORMAT, check_format, ensure_format
from components.errors import StoreRefused


def test_a_store_without_a_record_is_read_and_left_as_it_is(store: ArtifactStore) -> None:
    check_format(store)
    assert store.read("format.json") is None


def test_the_format_is_recorded_once(store: ArtifactStore) -> None:
    for _ in range(2):
        ensure_format(store)
    assert json.loads(store.read("format.json") or b"") == {"format": FORMAT}
    check_format(store)


@pytest.mark.parametrize("other", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused_for_reading_and_writing(store: ArtifactStore, other: int) -> None:
    store.create("format.json", json.dumps({"format": other, "new": "field"}).encode())
    for look in (check_format, ensure_format):
        with pytest.raises(StoreRefused, match=f"of format {other}, and this Troupe knows format {FORMAT}"):
            look(store)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "1"}', b'{"format": true}', b'{"format": null}'])
def test_a_damaged_record_is_refused_with_what_it_should_be(store: ArtifactStore, content: bytes) -> None:
    store.create("format.json", content)
    with pytest.raises(StoreRefused, match=r"format\.json is damaged: it should be"):
        check_format(store)
