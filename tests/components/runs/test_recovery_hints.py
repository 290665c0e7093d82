"""Errors about damage name the command that repairs it."""

import errno
from pathlib import Path

import pytest

from components.artifacts import codec
from components.artifacts.local import LocalArtifactStore
from components.artifacts.payloads import get, put
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused, StoreUnavailable, UpdateFailed
from components.runs.gc import collect_garbage
from components.runs.recovery_hints import with_recovery_hints
from components.runs.run import Run
from components.runs.steps import read_finished_step
from components.schema import Problem
from components.session.session import Session
from flows.presets import preset_config
from tasks.refresh_weights import refresh_weights
from tests.committed_runs import commit_step


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    overrides = ["store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none"]
    return Run(run_id="r", config=preset_config("tiny", overrides))


def test_damage_is_raised_with_the_command_that_knows_its_remedy(store: LocalArtifactStore, run: Run) -> None:
    refs = []
    for step in range(8):
        folder = Path(store.uri.removeprefix("file://")).parent / "c"
        folder.mkdir(exist_ok=True)
        (folder / "weights.bin").write_text(f"weights {step}")
        refs.append(commit_step(store, run, step, checkpoint=folder)["team"].folder)
    collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    with pytest.raises(ArtifactMissing) as caught:
        refresh_weights.fn(Session(run), 5, read_finished_step(store, run, 4) or {})
    told = f"`troupe verify r --store {store.uri}` says what makes it again, or that `troupe gc` removed it"
    assert str(caught.value) == f"{refs[4].key}/weights.bin: not in {store.uri}; {told}"


def test_a_payload_of_another_schema_is_refused_in_one_line_with_what_reads_it(
    store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(problem_id="p", environment="none", payload={})
    with monkeypatch.context() as before:
        before.setattr(codec, "SCHEMA_VERSION", 1)
        ref = put(store, problem)
    with pytest.raises(ArtifactCorrupt) as caught, with_recovery_hints(store, "r"):
        get(store, ref, Problem)
    told = "schema version 1, this program reads 2; use the version of Troupe that wrote it"
    assert str(caught.value) == f"{ref.key}: {told}"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/tmp/there/weights.bin"),
        UpdateFailed("SafetensorError: I/O error: No space left on device (os error 28)"),
        RuntimeError("PytorchStreamWriter failed: No space left on device"),
    ],
)
def test_a_full_temporary_folder_is_named(
    store: LocalArtifactStore, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp/there")
    with (
        pytest.raises(StoreRefused, match=r"no space left at /tmp/there.*set TMPDIR"),
        with_recovery_hints(store, "r"),
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
def test_other_errors_pass_as_they_are(store: LocalArtifactStore, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, with_recovery_hints(store, "r"):
        raise error
    assert caught.value is error
