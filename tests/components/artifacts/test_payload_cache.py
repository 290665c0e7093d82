"""Values that are kept for the stage that reads them next: the same values, and no more of them than there is room for."""

from pathlib import Path

import pytest

from components.artifacts import payload_cache
from components.artifacts.local import LocalArtifactStore
from components.artifacts.payload_cache import KeptPayloads
from components.errors import ArtifactCorrupt
from components.schema import IterationReport, ScoredShard


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path)


def make_score(step: int) -> ScoredShard:
    return ScoredShard(step=step, shard=0, rewards_E_N_K=(((0.5, None),),))


def test_a_kept_value_is_given_back_itself_until_it_is_forgotten(store: LocalArtifactStore) -> None:
    keeping, value = KeptPayloads(store), make_score(1)
    ref = keeping.put(value)
    assert keeping.get(ref, ScoredShard) is value
    keeping.forget([ref])
    assert keeping.num_bytes == 0
    assert keeping.get(ref, ScoredShard) == value
    assert keeping.get(ref, ScoredShard) is not value


def test_who_keeps_nothing_reads_the_same_from_the_store(store: LocalArtifactStore) -> None:
    ref = KeptPayloads(store).put(make_score(2))
    assert KeptPayloads(store).get(ref, ScoredShard) == make_score(2)


def test_a_kept_value_of_another_type_is_refused_as_the_stored_one_is(store: LocalArtifactStore) -> None:
    keeping = KeptPayloads(store)
    with pytest.raises(ArtifactCorrupt, match="holds a ScoredShard"):
        keeping.get(keeping.put(make_score(3)), IterationReport)


def test_the_oldest_make_room_and_what_does_not_fit_is_not_kept(
    store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [make_score(step) for step in range(4, 8)]
    sizes = [KeptPayloads(store).put(value).num_bytes for value in values]
    monkeypatch.setattr(payload_cache, "KEPT_BYTES", sum(sizes[1:]))
    keeping = KeptPayloads(store)
    refs = [keeping.put(value) for value in values]
    assert keeping.num_bytes == sum(sizes[1:])
    assert [keeping.get(ref, ScoredShard) is value for ref, value in zip(refs, values, strict=True)] == [
        False, True, True, True
    ]  # fmt: skip
    monkeypatch.setattr(payload_cache, "KEPT_BYTES", min(sizes) - 1)
    assert keeping.get(keeping.put(values[0]), ScoredShard) is not values[0]
