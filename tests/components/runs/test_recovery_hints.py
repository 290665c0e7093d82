"""Errors about damage name the command that repairs it."""

import errno
from pathlib import Path

import pytest

from components.artifacts import codec
from components.artifacts.local import LocalArtifactStore
from components.artifacts.payloads import get, put
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused, StoreUnavailable, UpdateFailed
from components.runs.gc import collect_garbage
from components.runs.initial_checkpoints import initial_checkpoints
from components.runs.recovery_hints import with_recovery_hints
from components.runs.run import Run
from components.runs.stage_protocol import manifest_key, run_stage
from components.runs.steps import read_finished_step
from components.schema import Problem
from components.session.session import Session
from flows.presets import preset_config
from tasks.refresh_weights import refresh_weights
from tests.committed_runs import commit_step, stage_key
from tests.components.runs.whole_runs import whole_run


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    overrides = ["store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none"]
    return Run(run_id="r", config=preset_config("tiny", overrides))


def trained(store: LocalArtifactStore, run: Run, folder: Path, num_steps: int) -> list[ArtifactRef]:
    """The checkpoints of steps that are committed in order."""
    folder.mkdir()
    refs = []
    for step in range(num_steps):
        (folder / "weights.bin").write_text(f"weights {step}")
        refs.append(commit_step(store, run, step, checkpoint=folder)["team"].folder)
    return refs


def test_a_damaged_payload_is_raised_with_the_stage_that_made_it(
    store: LocalArtifactStore, run: Run, tmp_path: Path
) -> None:
    problem = Problem(problem_id="p", environment="none", payload={})
    for stage in ("collect_rollouts", "compute_rewards"):
        ref = run_stage(store, stage_key(run, 3, stage), lambda: put(store, problem), ArtifactRef).output
    (tmp_path / "store" / ref.key).write_bytes(b"flipped")
    with pytest.raises(ArtifactCorrupt) as caught, with_recovery_hints(store, run, 3):
        get(store, ref, Problem)
    assert str(caught.value).startswith(f"{ref.key}: ")
    # The earliest stage with this payload: later ones are recomputed too.
    assert str(caught.value).endswith("; `troupe resume r --from-stage collect_rollouts --step 3` computes it again")
    manifest = manifest_key(stage_key(run, 3, "collect_rollouts"))
    content = store.read(manifest) or b""
    store.delete(manifest)
    store.create(manifest, content.replace(b'"attempt": 1', b'"attempt": 2'))
    (tmp_path / "store" / ref.key).unlink()
    with (
        pytest.raises(ArtifactMissing, match="--from-stage collect_rollouts --step 3"),
        with_recovery_hints(store, run, 3),
    ):
        get(store, ref, Problem)


def test_a_payload_of_another_schema_is_refused_in_one_line_with_what_computes_it_again(
    store: LocalArtifactStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(problem_id="p", environment="none", payload={})
    with monkeypatch.context() as before:
        before.setattr(codec, "SCHEMA_VERSION", 1)
        ref = run_stage(store, stage_key(run, 3, "collect_rollouts"), lambda: put(store, problem), ArtifactRef).output
    with pytest.raises(ArtifactCorrupt) as caught, with_recovery_hints(store, run, 3):
        get(store, ref, Problem)
    assert str(caught.value) == (
        f"{ref.key}: schema version 1, this program reads 2; "
        "`troupe resume r --from-stage collect_rollouts --step 3` computes it again"
    )


def test_a_damaged_checkpoint_is_made_again_by_the_update_before(
    store: LocalArtifactStore, run: Run, tmp_path: Path
) -> None:
    refs = trained(store, run, tmp_path / "c", 3)
    (tmp_path / "store" / refs[1].key / "weights.bin").write_text("flipped")
    with (
        pytest.raises(ArtifactCorrupt, match="`troupe resume r --from-stage update_policy --step 1`"),
        with_recovery_hints(store, run, 2),
    ):
        store.get_folder(refs[1], tmp_path / "into")


def test_a_damaged_policy_before_training_names_its_manifest(tmp_path: Path) -> None:
    root = tmp_path / "store"
    run, store = whole_run(root, num_steps=1), LocalArtifactStore(root)
    [manifest] = [each for each in store.list("runs/_shared/") if each.endswith("/manifest.json")]
    base = initial_checkpoints(store, run)["team"].base
    assert base is not None
    with pytest.raises(ArtifactMissing) as caught, with_recovery_hints(store, run, 0):
        raise ArtifactMissing(base.key)
    assert str(caught.value) == f"{base.key}; delete {manifest} in {store.uri}, and `troupe resume r` makes it again"


def test_what_no_stage_nearby_has_made_is_told_by_verify(store: LocalArtifactStore, run: Run, tmp_path: Path) -> None:
    trained(store, run, tmp_path / "c", 8)
    collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    with pytest.raises(ArtifactMissing) as caught:
        refresh_weights.fn(Session(run), 5, read_finished_step(store, run, 4) or {})
    told = f"`troupe verify r --store {store.uri}` says what computes it again, or that `troupe gc` removed it"
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/tmp/there/weights.bin"),
        UpdateFailed("SafetensorError: I/O error: No space left on device (os error 28)"),
        RuntimeError("PytorchStreamWriter failed: No space left on device"),
    ],
)
def test_a_full_temporary_folder_is_named(run: Run, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp/there")
    with (
        pytest.raises(StoreRefused, match=r"no space left at /tmp/there.*set TMPDIR"),
        with_recovery_hints(store, run, 0),
    ):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        StoreRefused("no space left for /store: free some"),
        StoreUnavailable("503"),
        ArtifactCorrupt("runs/r/config.json: are no record; `troupe resume r` ..."),
        PermissionError(errno.EACCES, "Permission denied"),
        ZeroDivisionError("1/0"),
    ],
)
def test_other_errors_pass_as_they_are(run: Run, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, with_recovery_hints(store, run, 0):
        raise error
    assert caught.value is error
