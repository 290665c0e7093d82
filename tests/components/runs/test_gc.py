"""Garbage collection removes what nothing needs, and never what a remaining manifest refers to."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.artifacts import payloads
from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.layout import folder_ref
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.artifacts.s3 import S3ArtifactStore
from components.errors import ConfigurationError, StoreRefused
from components.identity import StageKey, config_key
from components.runs.gc import collect_garbage, list_objects
from components.runs.lineages import freeze_config, start_lineage
from components.runs.stage_protocol import run_stage
from components.schema import Problem
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.artifacts.faulty_proxy import FaultyProxy
from tests.components.runs.test_lineages import config

REFERENCE = re.compile(r"payloads/[0-9a-f]{2}/[0-9a-f]{64}|folders/[0-9a-f]{64}")


def key(stage: str, step: int, *, part: str = "main", lineage: int = 0, run_id: str = "r1") -> StageKey:
    return StageKey(run_id=run_id, step=step, stage=stage, version=1, part=part, lineage=lineage, depends_on="00")


@pytest.fixture
def store(plain_store: ArtifactStore) -> ArtifactStore:
    return plain_store


def put_checkpoint(store: ArtifactStore, folder: Path, at: StageKey) -> CheckpointRef:
    folder.mkdir(exist_ok=True, parents=True)
    for name in ("weights.bin", "config.json"):
        (folder / name).write_text(f"{name} {at.path}")

    def compute() -> CheckpointRef:
        ref = store.put_folder(folder)
        return CheckpointRef(policy=at.part, step=at.step + 1, folder=ref, weights_digest="w", optimizer_digest="o")

    return run_stage(store, at, compute, CheckpointRef).output


def put_batch(store: ArtifactStore, at: StageKey) -> ArtifactRef:
    problem = Problem(problem_id=at.path, environment="none", payload={})
    return run_stage(store, at, lambda: payloads.put(store, problem), ArtifactRef).output


def finish_step(store: ArtifactStore, checkpoint: CheckpointRef) -> None:
    """The records of a finished step that keep no files."""
    told = f'{{"report": {{"folder_uri": "{store.folder_uri(checkpoint.folder)}"}}}}'.encode()
    store.create(f"runs/r1/outbox/{checkpoint.step:06d}-checkpoint-{checkpoint.policy}-w.json", told)
    store.create(f"runs/r1/iterations/{checkpoint.step - 1:06d}-l0.json", checkpoint.model_dump_json().encode())


def dangling(store: ArtifactStore) -> list[str]:
    """References of remaining manifests to missing content."""
    keys = list(store.list(""))
    return [
        f"{found} -> {reference}"
        for found in keys
        if found.endswith("/manifest.json")
        for reference in REFERENCE.findall((store.read(found) or b"").decode())
        if not any(each == reference or each.startswith(f"{reference}/") for each in keys)
    ]


def test_old_checkpoints_go_and_new_ones_stay(store: ArtifactStore, tmp_path: Path) -> None:
    checkpoints = []
    for step in range(5):
        checkpoints.append(put_checkpoint(store, tmp_path / "c", key("update_policy", step)))
        finish_step(store, checkpoints[-1])
        put_batch(store, key("compute_advantages", step))
    report = collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    assert report.num_checkpoints == 3
    assert report.num_objects == 3 + 3 * 2
    for step, checkpoint in enumerate(checkpoints):
        assert bool(list(store.list(checkpoint.folder.key))) == (step >= 3)
    assert store.get_folder(checkpoints[4].folder, tmp_path / "into")
    assert dangling(store) == []
    assert len(list(store.list("runs/r1/iterations/"))) == 5
    again = collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    assert (again.num_objects, again.num_bytes, again.num_checkpoints) == (0, 0, 0)
    assert again.num_kept_objects == report.num_kept_objects + 1, "the record of what was removed"


def test_a_dry_run_tells_the_same_and_removes_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    for step in range(4):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))
    store.put_bytes(b"nobody refers to this", kind="bytes")
    before = list(store.list(""))
    told = collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=True)
    assert list(store.list("")) == before
    done = collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    assert told == done
    assert done.document()["num_objects"] == 2 + 4 + 1
    assert done.num_bytes > 0


def test_what_another_collection_has_removed_since_it_was_listed_is_no_damage(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(4):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))
        put_batch(store, key("compute_advantages", step))
    store.put_bytes(b"nobody refers to this", kind="bytes")

    def list_and_remove(store: ArtifactStore) -> tuple[list[StoredObject], list[StoredObject]]:
        found = list_objects(store)
        monkeypatch.undo()
        collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
        return found

    monkeypatch.setattr("components.runs.gc.list_objects", list_and_remove)
    report = collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    assert (report.damaged, report.num_checkpoints) == ({}, 0), "the other one removed two"
    assert dangling(store) == []
    told = collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=True)
    assert (told.num_objects, len(list(store.list("folders/")))) == (0, 2 * 2)


def test_what_is_young_is_spared(store: ArtifactStore, tmp_path: Path) -> None:
    ref = store.put_bytes(b"about to be committed", kind="bytes")
    for step in range(4):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))
    report = collect_garbage(store, keep_checkpoints=1, grace_seconds=3600, dry_run=False)
    assert (report.num_objects, report.num_checkpoints) == (0, 0)
    assert report.num_young_objects == 2 + 2 * 2 + 1
    assert 0 < report.num_young_bytes < report.num_kept_bytes
    assert store.get_bytes(ref) == b"about to be committed"


def test_orphans_of_a_crash_go(store: ArtifactStore, tmp_path: Path) -> None:
    orphan = store.put_bytes(b"written, never committed", kind="bytes")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "weights.bin").write_bytes(b"w")
    torn = store.put_folder(tmp_path / "torn")
    kept = put_batch(store, key("compute_rewards", 0))
    collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    assert list(store.list("payloads/")) == [kept.key]
    assert list(store.list(torn.key)) == []
    assert orphan.key not in list(store.list(""))


def test_a_reference_in_any_record_keeps_its_payload(store: ArtifactStore) -> None:
    ref = store.put_bytes(b"a journalled block", kind="bytes")
    store.create("runs/r1/steps/000000/collect_rollouts-v1/0/l0-00/blocks/000000.json", ref.model_dump_json().encode())
    execution = store.put_bytes(b"an execution", kind="bytes")
    store.create("executions/ab", f'{{"output": "{execution.key}"}}'.encode())
    collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    assert store.get_bytes(ref) == b"a journalled block"
    assert store.get_bytes(execution) == b"an execution"


def test_a_folder_that_two_manifests_name_stays_while_one_does(store: ArtifactStore, tmp_path: Path) -> None:
    shared = put_checkpoint(store, tmp_path / "c", key("update_policy", 0))
    for step in (1, 2):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))
    run_stage(store, key("warm_start", 0, run_id="_shared"), lambda: shared, CheckpointRef)
    report = collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    assert report.num_checkpoints == 1
    assert store.get_folder(shared.folder, tmp_path / "into")


def test_the_checkpoint_that_a_restart_begins_with_stays(store: ArtifactStore, tmp_path: Path) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    refs = [put_checkpoint(store, tmp_path / "c", key("update_policy", step)) for step in range(6)]
    start_lineage(
        store,
        "r1",
        from_step=2,
        from_stage="compute_rewards",
        repeats=PIPELINE.repeats("compute_rewards"),
        config=config(),
    )
    collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    remaining = [ref.step for ref in refs if list(store.list(ref.folder.key))]
    assert remaining == [2, 3, 5, 6]


def truncate(store: ArtifactStore, key: str, content: bytes = b'{"stage": "upd') -> None:
    store.delete(key)
    assert store.create(key, content)


@pytest.mark.parametrize(
    "damaged",
    [
        f"{key('update_policy', 4).path}/manifest.json",
        f"{key('compute_rewards', 4).path}/manifest.json",
        "runs/r1/config.json",
        "runs/r1/lineages/000001.json",
        "runs/r1/iterations/000004-l0.json",
    ],
)
@pytest.mark.parametrize("content", [b"", b'{"stage": "upd', b"[]", b"\xff"])
def test_a_run_with_a_record_that_cannot_be_read_is_left_alone(tmp_path: Path, damaged: str, content: bytes) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    refs = {}
    for run_id in ("r1", "r2"):
        freeze_config(store, run_id, config(), PIPELINE)
        for step in range(5):
            refs[run_id, step] = put_checkpoint(store, tmp_path / "c", key("update_policy", step, run_id=run_id))
    for step in range(5):
        finish_step(store, refs["r1", step])
        put_batch(store, key("compute_rewards", step))
    orphan = store.put_bytes(b"whose is this", kind="bytes")
    truncate(store, damaged, content)
    before = list(store.list("runs/r1/"))
    report = collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    assert list(report.damaged) == ["r1"]
    assert report.damaged["r1"].startswith(f"{damaged}: ")
    assert report.checkpoints == {"r2": (1, 2, 3)}
    assert report.num_objects == 3 + 3 * 2
    assert list(store.list("runs/r1/")) == before
    for step in range(5):
        assert list(store.list(refs["r1", step].folder.key)), "its newest checkpoint stays, and the others, too"
        assert bool(list(store.list(refs["r2", step].folder.key))) == (step >= 3)
    assert store.get_bytes(orphan) == b"whose is this"


def test_a_checkpoint_that_only_a_damaged_record_keeps_stays(store: ArtifactStore, tmp_path: Path) -> None:
    """Two runs of one configuration have equal weights, which are stored once."""
    shared = [put_checkpoint(store, tmp_path / "c", key("update_policy", step, run_id="r2")) for step in range(5)]
    run_stage(store, key("update_policy", 0), lambda: shared[0], CheckpointRef)
    finish_step(store, shared[0])
    truncate(store, f"{key('update_policy', 0).path}/manifest.json")
    report = collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    assert report.checkpoints == {"r2": (1, 2, 3)}
    assert store.get_folder(shared[0].folder, tmp_path / "into")
    assert list(store.list(shared[1].folder.key)) == []


def test_a_manifest_that_several_runs_share_is_no_runs_own(store: ArtifactStore, tmp_path: Path) -> None:
    warm = key("warm_start", 0, run_id="_shared")
    kept = put_checkpoint(store, tmp_path / "c", warm)
    truncate(store, f"{warm.path}/manifest.json")
    report = collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    assert list(report.damaged) == ["_shared"]
    assert store.get_folder(kept.folder, tmp_path / "into")


def test_a_damaged_cache_or_session_keeps_nothing_from_being_collected(store: ArtifactStore, tmp_path: Path) -> None:
    for step in range(4):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))
    block = f"{key('collect_rollouts', 0).path}/blocks/000000.json"
    for damaged in (block, "runs/r1/sessions/0001/end.json", "runs/r1/outbox/000001-iteration.json"):
        store.create(damaged, b"")
    for strange in (".ready", "probe/0a1b", "runs/notes.txt", "runs/r1/steps/000000/notes.txt", "index/runs/r1.json"):
        store.create(strange, b"\xff")
    report = collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    assert (report.damaged, report.checkpoints) == ({}, {"r1": (1, 2)})


class FullDisk(LocalArtifactStore):
    """A store on a full disk."""

    def create(self, key: str, content: bytes) -> bool:
        raise StoreRefused("no space left")

    def put_bytes(self, content: bytes, *, kind: str) -> ArtifactRef:
        raise StoreRefused("no space left")

    def probe(self) -> None:
        raise StoreRefused("no space left")


def test_a_full_disk_can_be_collected(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    for step in range(5):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))
    full = FullDisk(tmp_path / "store")
    assert collect_garbage(full, keep_checkpoints=2, grace_seconds=0, dry_run=False).num_checkpoints == 3


def test_many_objects_go_in_few_requests(proxied_store: S3ArtifactStore, proxy: FaultyProxy) -> None:
    for number in range(30):
        proxied_store.put_bytes(f"orphan {number}".encode(), kind="bytes")
    proxy.requests.clear()
    report = collect_garbage(proxied_store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    assert report.num_objects == 30
    assert list(proxied_store.list("")) == []
    assert sum(method in ("DELETE", "POST") for method, _ in proxy.requests) == 1


def test_keeping_no_checkpoint_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(ConfigurationError, match="keep_checkpoints 0"):
        collect_garbage(store, keep_checkpoints=0, grace_seconds=0, dry_run=True)


actions = st.lists(
    st.tuples(
        st.sampled_from(["update", "batch", "orphan", "torn", "evaluate", "restart"]),
        st.sampled_from(["r1", "r2"]),
        st.integers(0, 6),
        st.sampled_from(["a", "b"]),
        st.integers(0, 1),
    ),
    max_size=25,
)


@given(actions=actions, keep=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_after_collection_every_manifest_still_resolves(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, int, str, int]], keep: int
) -> None:
    root = tmp_path_factory.mktemp("gc")
    store = LocalArtifactStore(root / "store")
    newest: dict[tuple[str, str, int], int] = {}
    for action, run_id, step, part, lineage in actions:
        at = key("update_policy", step, part=part, lineage=lineage, run_id=run_id)
        if action == "update":
            put_checkpoint(store, root / "c", at)
            newest[run_id, part, lineage] = max(step, newest.get((run_id, part, lineage), 0))
        elif action == "batch":
            put_batch(store, replace(at, stage="compute_advantages"))
        elif action == "orphan":
            store.put_bytes(at.path.encode(), kind="bytes")
        elif action == "torn":
            torn = folder_ref({"a": ("0" * 64, 1), "b": ("1" * 64, step)})
            store.create(f"{torn.key}/a", b"x")
        elif action == "evaluate":
            run_stage(store, replace(at, stage="evaluate_policy"), lambda: 0.5, float)
        elif step < 6:
            begun = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
            record = f'{{"from_step": {step}, "started_at": "{begun}"}}'
            store.create(config_key(run_id, step + 1), record.encode())
    collect_garbage(store, keep_checkpoints=keep, grace_seconds=0, dry_run=False)
    assert dangling(store) == []
    kept = list(store.list("runs/"))
    for (run_id, part, lineage), step in newest.items():
        path = key("update_policy", step, part=part, lineage=lineage, run_id=run_id).path
        assert f"{path}/manifest.json" in kept
    again = collect_garbage(store, keep_checkpoints=keep, grace_seconds=0, dry_run=False)
    assert again.num_objects == 0
