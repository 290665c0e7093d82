"""The trainer with a real worker: processes of its own, a socket, checkpoints on disk, and every way for it to die."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from components.config import TrainingConfig
from components.errors import ArtifactCorrupt, LogprobMismatch, UpdateFailed, WorkerDied
from components.machine.child_environment import filter_environment
from components.models.digests import model_digest
from components.reporting.progress_share import share_listener
from components.training.base import MODEL_FOLDER, TRAINING_FOLDER
from components.training.checkpoint import NO_OPTIMIZER, load_model, read_manifest
from tests.processes import alive
from tests.sections import choose_loss

ROOT = Path(__file__).resolve().parents[3]
OPTIMIZER_FILE = "optimizer-00000-of-00001.safetensors"


def _pids(trainer) -> list[int]:
    return [p.pid for p in psutil.process_iter() if _in_session(p.pid, trainer._processes.ranks[0].pid)]


def _in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session and alive(pid)
    except ProcessLookupError:
        return False


def _wait_until_gone(pids: list[int], seconds: float) -> None:
    start = time.monotonic()
    while any(map(alive, pids)):
        assert time.monotonic() - start < seconds, "processes were left behind"
        time.sleep(0.05)


def test_an_update_leaves_a_whole_checkpoint(trainer, jobs, make_groups) -> None:
    job = jobs.first(make_groups(6))
    heard: list[float] = []
    with share_listener(heard.append):
        result = trainer.update(job)
    assert heard == sorted(heard)
    assert 0 < heard[0] <= heard[-1] <= 1, "the worker tells how much of the update is done"
    manifest = read_manifest(job.output_folder)
    assert manifest == result.manifest
    assert (manifest.policy, manifest.step) == ("p", 1)
    assert manifest.weights_digest == model_digest(load_model(job.output_folder / MODEL_FOLDER)) != job.weights_digest
    assert manifest.optimizer_digest != NO_OPTIMIZER
    assert (job.output_folder / MODEL_FOLDER / "tokenizer.json").read_text() == "{}"
    assert [part.name for part in (job.output_folder / TRAINING_FOLDER).iterdir()] == [OPTIMIZER_FILE]
    assert result.metrics["num_updates"] == 2


def test_the_update_is_torchs_adamw(trainer, jobs, make_groups, make_model, make_job) -> None:
    """One minibatch of one epoch, by hand: gradient of the packed loss, clip by norm, one AdamW step."""
    import torch

    from components.algorithms.losses import minibatch_loss
    from components.training.packing import pack_groups
    from components.training.rank_batches import minibatch_size
    from components.training.reference_logprobs import Recorded, loss_inputs

    groups = make_groups(1)
    job = jobs.first(groups)
    trainer.update(job)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.0)
    (batch,) = pack_groups(groups, tokens_per_micro_batch=256, share_prompts=True)
    minibatch_loss(loss_inputs(model, batch, job, Recorded()), job.loss, size=minibatch_size(groups)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    found = load_model(job.output_folder / MODEL_FOLDER)
    for mine, theirs in zip(model.parameters(), found.parameters(), strict=True):
        assert (mine - theirs).abs().max() < 1e-6


def test_a_cold_worker_ends_where_a_warm_one_does(trainer, jobs, make_groups) -> None:
    first = jobs.first(make_groups(6))
    second = jobs.after(first, warm := trainer.update(first), make_groups(6, seed=1))
    warm_second = trainer.update(second)
    trainer.close()
    again = second.model_copy(update={"output_folder": second.output_folder.with_name("cold")})
    cold_second = trainer.update(again)
    assert cold_second == warm_second
    assert warm_second.manifest.weights_digest != warm.manifest.weights_digest


def test_a_warm_worker_that_holds_another_state_loads_the_one_that_is_named(trainer, jobs, make_groups) -> None:
    groups = make_groups(6)
    first = jobs.first(groups)
    result = trainer.update(first)
    assert trainer.update(jobs.first(groups)) == result


def test_an_empty_batch_changes_nothing(trainer, jobs, make_groups) -> None:
    first = jobs.first([])
    result = trainer.update(first)
    assert result.metrics == dict.fromkeys(("num_updates", "num_tokens", "num_rows", "num_rows_with_signal"), 0.0)
    assert result.manifest.step == 1
    assert result.manifest.weights_digest == first.weights_digest
    assert result.manifest.optimizer_digest == NO_OPTIMIZER
    assert not (first.output_folder / TRAINING_FOLDER).exists()
    second = jobs.after(first, result, make_groups(6))
    trained = trainer.update(second)
    third = trainer.update(jobs.after(second, trained, []))
    assert third.manifest.weights_digest == trained.manifest.weights_digest
    assert third.manifest.optimizer_digest == trained.manifest.optimizer_digest


def test_a_stale_sampler_crosses_as_itself_and_the_worker_goes_on(
    trainer, jobs, make_groups, make_model, score_groups
) -> None:
    groups = make_groups(6)
    stale = jobs.first(score_groups(make_model(seed=1), groups), loss=choose_loss(mismatch_tolerance=1e-3))
    trainer.start()
    with pytest.raises(LogprobMismatch, match="mismatch_tolerance"):
        trainer.update(stale)
    assert not stale.output_folder.exists()
    before = trainer._processes.ranks[0].pid
    fresh = jobs.first(score_groups(make_model(), groups), loss=choose_loss(mismatch_tolerance=1e-3))
    assert trainer.update(fresh).metrics["mismatch_max_abs"] < 1e-5
    assert trainer._processes.ranks[0].pid == before


def test_a_reference_is_loaded_and_reported(trainer, jobs, make_groups, initial) -> None:
    loss = choose_loss(kl_coefficient=0.1, mismatch_tolerance=None)
    first = jobs.first(make_groups(6), loss=loss, reference_folder=initial[0])
    result = trainer.update(first)
    second = jobs.after(first, result, make_groups(6), loss=loss, reference_folder=initial[0])
    assert trainer.update(second).metrics["reference_kl"] > result.metrics["reference_kl"] > 0


@pytest.mark.parametrize("damage", ["weights", "optimizer", "cut optimizer", "no training folder"])
def test_a_damaged_checkpoint_is_named_before_anything_changes(trainer, jobs, make_groups, tmp_path, damage) -> None:
    first = jobs.first(make_groups(6))
    result = trainer.update(first)
    folder = shutil.copytree(first.output_folder, tmp_path / "damaged")
    if damage == "weights":
        _flip(folder / MODEL_FOLDER / "model.safetensors", -1)
    elif damage == "optimizer":
        _flip(folder / TRAINING_FOLDER / OPTIMIZER_FILE, -1)
    elif damage == "cut optimizer":
        path = folder / TRAINING_FOLDER / OPTIMIZER_FILE
        path.write_bytes(path.read_bytes()[:-2000])
    else:
        shutil.rmtree(folder / TRAINING_FOLDER)
    # The worker is warm with this very state; another job first makes it load from the folder.
    trainer.update(jobs.first(make_groups(2)))
    job = jobs.after(first, result, make_groups(6), checkpoint_folder=folder)
    with pytest.raises(ArtifactCorrupt, match="damaged"):
        trainer.update(job)
    assert not job.output_folder.exists()


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def test_an_error_of_the_worker_brings_its_traceback(trainer, jobs, make_groups) -> None:
    job = jobs.first(make_groups(2))
    job.batch_file.unlink()
    with pytest.raises(UpdateFailed, match=r"(?s)FileNotFoundError: rank 0.*Traceback.*batch-"):
        trainer.update(job)


def jobs_training(**changes) -> TrainingConfig:
    return TrainingConfig(**{"learning_rate": 1e-2, "tokens_per_micro_batch": 256, **changes})


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_an_update_is_replaced(make_trainer, jobs, make_groups) -> None:
    training = jobs_training(num_epochs=12)
    trainer = make_trainer(training)
    groups = make_groups(150, group_size=8)
    try:
        undisturbed = trainer.update(jobs.first(groups, training=training))
        job = jobs.first(groups, training=training)
        (rank,) = (p for p in _pids(trainer) if "components.training" in psutil.Process(p).cmdline())
        threading.Timer(0.7, os.kill, (rank, signal.SIGKILL)).start()
        with pytest.raises(WorkerDied, match="training worker ended"):
            trainer.update(job)
        assert trainer._processes is None
        assert not (job.output_folder / "checkpoint.json").exists()
        again = job.model_copy(update={"output_folder": job.output_folder.with_name("again")})
        assert trainer.update(again) == undisturbed
        pids = _pids(trainer)
    finally:
        trainer.close()
    assert pids
    _wait_until_gone(pids, 10.0)


_PARENT = """
import os, sys, time
from pathlib import Path
from components.training.base import UpdateJob
from components.training.trainer import DeepSpeedTrainer
job = UpdateJob.model_validate_json(Path(sys.argv[1]).read_text())
trainer = DeepSpeedTrainer(
    job.training, deepspeed_config=Path(sys.argv[2]), run_label="orphans", environment=dict(os.environ)
)
trainer.start()
print(*[rank.pid for rank in trainer._processes.ranks], trainer._processes.folder, flush=True)
trainer.update(job) if sys.argv[3] == "updates" else (trainer._processes._connect(), time.sleep(600))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("num_ranks", "state"), [(1, "idle"), (2, "updates")])
def test_no_process_outlives_a_killed_parent(jobs, make_groups, tmp_path, num_ranks, state) -> None:
    training = jobs_training(num_epochs=200, num_ranks=num_ranks)
    job = jobs.first(make_groups(400, group_size=8), training=training)
    (tmp_path / "job.json").write_text(job.model_dump_json())
    files = (tmp_path / "job.json", ROOT / "infra/deepspeed/zero0.json")
    command = [sys.executable, "-c", _PARENT, *map(str, files), state]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        *sessions, folder = parent.stdout.readline().split()
        log = Path(folder) / "worker.log"
        while "is ready" not in log.read_text():
            assert parent.poll() is None
            time.sleep(0.1)
        time.sleep(2.0)
        pids = [p.pid for p in psutil.process_iter() if any(_in_session(p.pid, int(each)) for each in sessions)]
        assert len(pids) >= num_ranks
        assert not job.output_folder.exists()
        parent.kill()
    _wait_until_gone(pids, 10.0)
    assert not Path(folder).exists()


@pytest.mark.slow
def test_an_update_that_takes_too_long_is_ended(make_trainer, jobs, make_groups) -> None:
    training = jobs_training(num_epochs=500, update_timeout_seconds=2.0)
    trainer = make_trainer(training)
    job = jobs.first(make_groups(400, group_size=8), training=training)
    with pytest.raises(WorkerDied, match=r"training\.update_timeout_seconds"):
        trainer.update(job)
    assert trainer._processes is None


def test_a_worker_that_cannot_start_shows_its_log(make_trainer, jobs, make_groups) -> None:
    from components.training.trainer import DeepSpeedTrainer

    training = jobs_training()
    broken = {"zero_optimization": {"stage": 0}, "optimizer": {"type": "NoSuch"}, "fp16": {"enabled": "perhaps"}}
    environment = filter_environment(os.environ)
    trainer = DeepSpeedTrainer(training, deepspeed_config=broken, run_label="tests", environment=environment)
    with pytest.raises((WorkerDied, UpdateFailed)):
        trainer.update(jobs.first(make_groups(2), training=training))
    trainer.close()


@pytest.mark.parametrize(("num_ranks", "wish"), [(1, None), (2, "active")])
def test_the_worker_inherits_no_account_of_the_user(make_trainer, monkeypatch, num_ranks, wish) -> None:
    monkeypatch.setenv("CANARY_API_KEY", "canary")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if wish:
        monkeypatch.setenv("OMP_WAIT_POLICY", wish)
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    trainer = make_trainer(jobs_training(num_ranks=num_ranks))
    trainer.start()
    try:
        process = psutil.Process(trainer._processes.ranks[0].pid)
        while "TROUPE_RUN" not in (found := process.environ()):  # /usr/bin/env has not become Python yet
            time.sleep(0.01)
        assert "CANARY_API_KEY" not in found
        assert (found["NCCL_DEBUG"], found["PATH"]) == ("WARN", os.environ["PATH"])
        assert found["OMP_WAIT_POLICY"] == (wish or "passive")
    finally:
        trainer.close()


def test_close_leaves_nothing_and_may_be_repeated(make_trainer) -> None:
    trainer = make_trainer(jobs_training())
    trainer.start()
    pids, folder = _pids(trainer), trainer._processes.folder
    assert (folder / "handover.json").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    deadline = time.monotonic() + 5.0
    while not all("TROUPE_RUN=tests" in Path(f"/proc/{pid}/environ").read_text() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    trainer.close()
    trainer.close()
    _wait_until_gone(pids, 5.0)
    assert not folder.exists()
