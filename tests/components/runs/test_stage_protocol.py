"""The stage protocol: computed until committed, committed once, and then only read."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from components.artifacts import payloads
from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.artifacts.s3 import S3ArtifactStore
from components.errors import ArtifactCorrupt
from components.identity import StageKey
from components.runs.stage_protocol import manifest_key, num_attempts, read_committed, read_manifest, run_stage
from components.schema import IterationReport, ScoredShard

KEY = StageKey(run_id="r", step=3, stage="compute_rewards", version=1, part="shard-000", lineage=0, depends_on="00ff")
ROOT = Path(__file__).parents[3]
WRITER = ROOT / "tests" / "components" / "runs" / "stage_writer.py"


def make_score(step: int) -> ScoredShard:
    return ScoredShard(step=step, shard=0, rewards_E_N_K=(((0.5, None),),))


def never() -> ArtifactRef:
    raise AssertionError("computed again")


def manifests(store: ArtifactStore) -> list[str]:
    return [key for key in store.list("runs/") if key.endswith("/manifest.json")]


def test_a_committed_stage_is_not_computed_again(store: ArtifactStore) -> None:
    first = run_stage(store, KEY, lambda: payloads.put(store, make_score(3)), ArtifactRef)
    second = run_stage(store, KEY, never, ArtifactRef)
    assert (first.reused, second.reused) == (False, True)
    assert first.output == second.output == read_committed(store, KEY, ArtifactRef)
    assert first.manifest == second.manifest
    assert payloads.get(store, second.output, ScoredShard) == make_score(3)
    assert num_attempts(store, KEY) == 1


def test_another_key_is_another_piece_of_work(store: ArtifactStore) -> None:
    run_stage(store, KEY, lambda: 1, int)
    for other in (replace(KEY, lineage=1), replace(KEY, depends_on="11"), replace(KEY, version=2)):
        assert read_committed(store, other, int) is None
        assert not run_stage(store, other, lambda: 2, int).reused
    assert read_committed(store, KEY, int) == 1


def test_a_failure_leaves_an_attempt_and_no_manifest(store: ArtifactStore) -> None:
    with pytest.raises(ZeroDivisionError):
        run_stage(store, KEY, lambda: 1 // 0, int)
    assert read_committed(store, KEY, int) is None
    assert run_stage(store, KEY, lambda: 7, int).manifest.attempt == 2
    assert num_attempts(store, KEY) == 2
    attempt = json.loads(store.read(f"{KEY.path}/attempts/0001.json") or b"")
    assert attempt["pid"] == os.getpid()
    assert datetime.fromisoformat(attempt["started_at"]).tzinfo is not None


def test_the_manifest_tells_how_long_it_took(store: ArtifactStore) -> None:
    begin = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ticks = iter([begin, begin + timedelta(seconds=2.5)])
    manifest = run_stage(store, KEY, lambda: 1, int, clock=lambda: next(ticks)).manifest
    assert (manifest.seconds, manifest.finished_at) == (2.5, "2026-01-02T03:04:07.500000+00:00")
    assert (manifest.stage, manifest.key) == ("compute_rewards", KEY.path)
    assert read_manifest(store, KEY) == manifest


def test_outputs_of_any_declared_type_come_back(store: ArtifactStore) -> None:
    folder = ArtifactRef(kind="folder", key="folders/x", sha256="x", num_bytes=2, files={"a/b": ("y", 2)})
    checkpoint = CheckpointRef(policy="main", step=3, folder=folder, weights_digest="w", optimizer_digest="o")
    report = IterationReport(
        run_id="r",
        step=3,
        metrics={"m": float("inf")},
        timings={},
        checkpoint_digest={"main": "d"},
        optimizer_digest={},
    )
    for part, output, as_type in (
        ("a", {"main": checkpoint}, dict[str, CheckpointRef]),
        ("b", report, IterationReport),
        ("c", (folder, folder), tuple[ArtifactRef, ...]),
        ("d", None, type(None)),
    ):
        key = replace(KEY, part=part)
        made = run_stage(store, key, lambda output=output: output, as_type).output
        assert made == output == run_stage(store, key, never, as_type).output


def test_the_loser_of_a_race_returns_what_the_winner_committed(plain_store: ArtifactStore) -> None:
    gate = threading.Barrier(4)

    def attempt(writer: int) -> tuple[int, bool]:
        def compute() -> int:
            gate.wait()
            return writer

        result = run_stage(plain_store, KEY, compute, int)
        return result.output, result.reused

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(attempt, range(4)))
    assert len({output for output, _ in results}) == 1
    assert sorted(reused for _, reused in results) == [False, True, True, True]
    assert len(manifests(plain_store)) == 1
    assert num_attempts(plain_store, KEY) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"stage": "x"}'])
def test_a_damaged_manifest_is_named(store: ArtifactStore, content: bytes) -> None:
    store.create(manifest_key(KEY), content)
    with pytest.raises(ArtifactCorrupt, match="manifest"):
        run_stage(store, KEY, never, ArtifactRef)


def test_a_manifest_under_the_wrong_key_is_refused(store: ArtifactStore) -> None:
    run_stage(store, KEY, lambda: 1, int)
    moved = replace(KEY, step=4)
    store.create(manifest_key(moved), store.read(manifest_key(KEY)) or b"")
    with pytest.raises(ArtifactCorrupt, match="is the manifest of"):
        read_committed(store, moved, int)


def test_an_output_of_another_type_is_refused(store: ArtifactStore) -> None:
    run_stage(store, KEY, lambda: 1, int)
    with pytest.raises(ArtifactCorrupt, match="committed output"):
        read_committed(store, KEY, ArtifactRef)


def test_a_payload_of_another_kind_is_refused(store: ArtifactStore) -> None:
    ref = payloads.put(store, make_score(1))
    with pytest.raises(ArtifactCorrupt, match="holds a ScoredShard, not a IterationReport"):
        payloads.get(store, ref, IterationReport)
    with pytest.raises(ArtifactCorrupt, match="schema version 9"):
        payloads.get(store, ref.model_copy(update={"schema_version": 9}), ScoredShard)


def spawn_writer(store: ArtifactStore, stop_at: str, name: str) -> subprocess.Popen[str]:
    """A process that runs the stage and stops itself (SIGKILL or SIGSTOP) at a point of it."""
    endpoint = store.endpoint_url if isinstance(store, S3ArtifactStore) else ""
    return subprocess.Popen(
        [sys.executable, str(WRITER), store.uri, endpoint or "", stop_at, name],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def run_writer(store: ArtifactStore, stop_at: str, name: str) -> tuple[int, Mapping[str, object]]:
    process = spawn_writer(store, stop_at, name)
    printed, _ = process.communicate(timeout=60)
    return process.returncode, json.loads(printed) if printed else {}


@pytest.mark.parametrize(
    ("stop_at", "was_committed"),
    [("kill:before-payload", False), ("kill:after-payload", False), ("kill:after-manifest", True)],
)
def test_a_writer_killed_anywhere_leaves_one_commit_after_the_next_run(
    store: ArtifactStore, stop_at: str, was_committed: bool
) -> None:
    status, _ = run_writer(store, stop_at, "first")
    assert status == -signal.SIGKILL
    assert len(manifests(store)) == int(was_committed)
    status, printed = run_writer(store, "never", "second")
    assert (status, printed["reused"]) == (0, was_committed)
    assert printed["writer"] == ("first" if was_committed else "second")
    assert len(manifests(store)) == 1
    assert num_attempts(store, _writer_key()) == (1 if was_committed else 2)


def test_a_stopped_and_continued_late_writer_returns_the_winners_output(store: ArtifactStore) -> None:
    late = spawn_writer(store, "stop:after-payload", "late")
    try:
        _wait_until_stopped(late.pid)
        _, winner = run_writer(store, "never", "winner")
        assert (winner["writer"], winner["reused"]) == ("winner", False)
        os.kill(late.pid, signal.SIGCONT)
        printed = json.loads(late.communicate(timeout=60)[0])
    finally:
        late.kill()
        late.wait()
    assert (printed["writer"], printed["reused"]) == ("winner", True)
    assert len(manifests(store)) == 1
    assert num_attempts(store, _writer_key()) == 2


def _writer_key() -> StageKey:
    return replace(KEY, run_id="writers")


def _wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, "the writer never came to its stop"
        time.sleep(0.02)
