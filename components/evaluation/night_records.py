"""The nights of evaluations in a store: one record a suite and night, and another for each time that a night is run again."""

from typing import Any

from pydantic import ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import make_damage_error, read_as, with_digest
from components.evaluation.nightly import SuiteNight, night_document, night_from
from components.frozen import Frozen


class _NightRecord(Frozen):
    night: dict[str, Any]


def read_nights(store: ArtifactStore, name: str, *, before: str, most: int = 30) -> list[SuiteNight]:
    """The newest `most` nights of a suite before the date `before`, the newest last; of a night that was run again the last
    record. Raises ArtifactCorrupt."""
    newest: dict[str, str] = {}
    for key in store.list(_folder(name)):
        newest[_date(key)] = key  # in lexical order, so the last of a night wins
    dates = sorted(date for date in newest if date < before)[-most:]
    return [_read(store, newest[date]) for date in dates]


def keep_night(store: ArtifactStore, night: SuiteNight) -> str:
    """Record a night; the key of its record. A night that was run before gets one record more."""
    number = sum(_date(key) == night.night for key in store.list(_folder(night.name))) + 1
    content = with_digest({"night": night_document(night)})
    while not store.create(key := f"{_folder(night.name)}{night.night}-{number:04d}.json", content):
        number += 1
    return key


def _folder(name: str) -> str:
    return f"nights/{name}/"


def _date(key: str) -> str:
    """**Example** "nights/plan-path/2026-11-25-0001.json" is of "2026-11-25"."""
    return key.rpartition("/")[2][:10]


def _read(store: ArtifactStore, key: str) -> SuiteNight:
    content = store.read(key)
    assert content is not None, f"{key} is listed and cannot be read"
    try:
        return night_from(read_as(key, content, _NightRecord).night)
    except ValidationError as error:
        raise make_damage_error(key, "is no night of this version of Troupe") from error
