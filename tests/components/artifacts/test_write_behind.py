"""A store that is written behind: in order, visible here at once, and no failure of it is lost."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from components.artifacts import payloads
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef
from components.artifacts.write_behind import MAX_PENDING_COMMITS, WriteBehindStore
from components.errors import StageOvertaken, StoreUnavailable
from components.identity import StageKey
from components.runs.stage_protocol import manifest_key, num_attempts, read_committed, read_manifest, run_stage
from components.schema import ScoredShard

T = TypeVar("T")


def key(step: int) -> StageKey:
    return StageKey(run_id="r", step=step, stage="compute_rewards", version=1, part="0", lineage=0, depends_on="00ff")


def make_score(step: int) -> ScoredShard:
    return ScoredShard(step=step, shard=0, rewards_E_N_K=(((float(step),),),))


class Held(LocalArtifactStore):
    """A local store that stops before each write until it is let through, notes their order, and may fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Semaphore(0)
        self.written_keys: list[str] = []
        self.failures: list[BaseException] = []

    def open(self, num_writes: int = 1000) -> None:
        self.gate.release(num_writes)

    def create(self, key: str, content: bytes) -> bool:
        return self._passed(key, lambda: super(Held, self).create(key, content))

    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        self._passed(key, lambda: super(Held, self)._upload(key, source, sha256, num_bytes))

    def _passed(self, key: str, write: Callable[[], T]) -> T:
        assert self.gate.acquire(timeout=30)
        if self.failures:
            raise self.failures.pop(0)
        self.written_keys.append(key)
        return write()


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[Held]:
    held = Held(tmp_path / "store")
    yield held
    held.open()


@pytest.fixture
def store(inner: Held) -> WriteBehindStore:
    return WriteBehindStore(inner)


def compute(store: WriteBehindStore, step: int) -> ArtifactRef:
    """A stage that nobody has computed, as an iteration computes it."""
    return run_stage(
        store, key(step), lambda: payloads.put(store, make_score(step)), ArtifactRef, attempts_so_far=0
    ).output


def test_a_stage_returns_before_its_result_is_durable_and_reads_it_at_once(
    store: WriteBehindStore, inner: Held
) -> None:
    ref = compute(store, 0)
    assert inner.written_keys == []
    assert payloads.get(store, ref, ScoredShard) == make_score(0)
    assert read_committed(store, key(0), ArtifactRef) == ref
    assert list(store.list("runs/r/")) == [manifest_key(key(0))]
    inner.open()
    store.flush()
    assert payloads.get(inner, ref, ScoredShard) == make_score(0)
    assert read_committed(inner, key(0), ArtifactRef) == ref
    assert num_attempts(inner, key(0)) == 1


def test_attempt_payload_and_manifest_are_written_in_this_order(store: WriteBehindStore, inner: Held) -> None:
    inner.open()
    refs = [compute(store, step) for step in range(5)]
    store.flush()
    expected = []
    for step, ref in enumerate(refs):
        expected += [f"{key(step).path}/attempts/0001.json", ref.key, manifest_key(key(step))]
    assert inner.written_keys == expected


def test_no_more_commits_than_allowed_are_pending(store: WriteBehindStore, inner: Held) -> None:
    for step in range(MAX_PENDING_COMMITS):
        compute(store, step)
    thread = threading.Thread(target=compute, args=(store, MAX_PENDING_COMMITS))
    thread.start()
    inner.open(2)  # the attempt and the payload of the first
    thread.join(0.3)
    assert thread.is_alive()
    assert read_manifest(inner, key(0)) is None
    inner.open(1)
    thread.join(30)
    assert not thread.is_alive()
    assert read_manifest(inner, key(0)) is not None
    assert read_manifest(inner, key(1)) is None


def test_a_failed_write_is_the_error_of_the_next_stage_and_is_tried_again_with_its_retry(
    store: WriteBehindStore, inner: Held
) -> None:
    ref = compute(store, 0)
    inner.failures = [StoreUnavailable("away"), StoreUnavailable("still away")]
    inner.open()
    for told in ("away", "still away"):
        with pytest.raises(StoreUnavailable, match=told):
            run_stage(store, key(1), lambda: 1, int)  # records its attempt at once, which waits
    assert run_stage(store, key(1), lambda: 1, int).output == 1
    store.flush()
    assert read_committed(inner, key(0), ArtifactRef) == ref
    assert payloads.get(inner, ref, ScoredShard) == make_score(0)


def test_a_rival_with_the_same_result_changes_nothing(store: WriteBehindStore, inner: Held) -> None:
    rival = LocalArtifactStore(Path(inner.uri.removeprefix("file://")))
    ref = compute(store, 0)
    run_stage(rival, key(0), lambda: payloads.put(rival, make_score(0)), ArtifactRef)
    kept = rival.read(manifest_key(key(0)))
    inner.open()
    assert compute(store, 1) != ref
    store.flush()
    assert rival.read(manifest_key(key(0))) == kept
    assert num_attempts(rival, key(0)) == 2


def test_a_rival_with_another_result_ends_the_work_and_his_stands(store: WriteBehindStore, inner: Held) -> None:
    rival = LocalArtifactStore(Path(inner.uri.removeprefix("file://")))
    compute(store, 0)
    theirs = run_stage(rival, key(0), lambda: payloads.put(rival, make_score(7)), ArtifactRef).output
    inner.open()
    with suppress(StageOvertaken):  # as soon as it is known
        compute(store, 1)
    for _ in range(2):
        with pytest.raises(StageOvertaken, match=r"another process works on this run") as caught:
            store.flush()
        assert manifest_key(key(0)) in str(caught.value)
    store.close()
    assert read_committed(store, key(0), ArtifactRef) == theirs
    assert read_manifest(inner, key(1)) is None


def test_a_folder_is_read_from_its_files_until_it_is_written(
    store: WriteBehindStore, inner: Held, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights").write_bytes(b"weights")
    (folder / "manifest.json").write_bytes(b"{}")
    ref = store.put_folder(folder)
    assert list(store.list(ref.key)) == [f"{ref.key}/manifest.json", f"{ref.key}/model/weights"]
    assert store.read(f"{ref.key}/model/weights") == b"weights"
    inner.open()
    copy = store.get_folder(ref, tmp_path / "copy")
    assert (copy / "model" / "weights").read_bytes() == b"weights"
    assert inner.put_folder(folder) == ref


def test_other_verbs_wait_for_what_is_under_way(store: WriteBehindStore, inner: Held) -> None:
    compute(store, 0)
    inner.open()
    assert store.create("runs/r/after.json", b"{}")
    assert inner.written_keys[-2:] == [manifest_key(key(0)), "runs/r/after.json"]
    compute(store, 1)
    assert manifest_key(key(1)) in {found.key for found in store.scan("runs/r/")}
    compute(store, 2)
    store.delete(manifest_key(key(2)))
    assert read_manifest(inner, key(2)) is None


def test_work_for_later_comes_after_what_was_written_before(store: WriteBehindStore, inner: Held) -> None:
    seen = []
    compute(store, 0)
    store.after_writes(lambda: seen.append(read_manifest(store.durable, key(0)) is not None))
    assert seen == []
    inner.open()
    store.flush()
    assert seen == [True]


def test_the_end_waits_for_what_succeeds_and_gives_up_what_fails(store: WriteBehindStore, inner: Held) -> None:
    compute(store, 0)
    threading.Timer(0.2, inner.open, (3,)).start()
    store.close()
    assert read_manifest(inner, key(0)) is not None
    compute(store, 1)
    inner.failures = [StoreUnavailable("away")]
    inner.open()
    store.close()
    assert read_manifest(store, key(1)) is None
    compute(store, 2)
    store.flush()
    assert read_manifest(inner, key(2)) is not None


def test_the_end_of_an_interrupted_run_does_not_wait_for_ever(store: WriteBehindStore, inner: Held) -> None:
    compute(store, 0)
    store.close(timeout_seconds=0.1)
    inner.open()
    store.flush()
    assert read_manifest(inner, key(0)) is None
