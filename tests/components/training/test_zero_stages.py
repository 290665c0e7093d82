"""Every ZeRO stage on one rank and on two: one result, and bit by bit the same one from a warm and from a cold worker."""

import os
import signal
import threading
from pathlib import Path

import psutil
import pytest
import torch

from components.config import TrainingConfig
from components.errors import WorkerDied
from components.training.base import MODEL_FOLDER
from components.training.checkpoint import load_model
from tests.sections import choose_loss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]

LOSS = choose_loss(mismatch_tolerance=None, entropy_coefficient=0.01, kl_coefficient=0.1, importance_cap=2.0)


def _training(stage: int, num_ranks: int) -> TrainingConfig:
    return TrainingConfig(
        learning_rate=1e-3,
        num_epochs=2,
        tokens_per_micro_batch=128,
        weight_decay=0.01,
        zero_stage=stage,
        num_ranks=num_ranks,
    )


def _two_updates(trainer, jobs, training, make_groups, initial):
    """Two chained updates; the second has fewer groups than there are ranks in one minibatch."""
    common = {"training": training, "loss": LOSS, "reference_folder": initial[0]}
    first = jobs.first(make_groups(9), **common)
    first_result = trainer.update(first)
    second = jobs.after(first, first_result, make_groups(3, seed=1), **common)
    return first, first_result, second, trainer.update(second)


def _weights(folder: Path) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in load_model(folder / MODEL_FOLDER).parameters()])


@pytest.fixture(scope="module")
def plain(make_trainer, make_jobs, make_groups, initial, tmp_path_factory):
    """Weights after two updates without ZeRO on one rank, and their metrics."""
    training = _training(0, 1)
    trainer = make_trainer(training)
    jobs = make_jobs(tmp_path_factory.mktemp("plain"))
    try:
        *_, second, result = _two_updates(trainer, jobs, training, make_groups, initial)
    finally:
        trainer.close()
    return _weights(second.output_folder), result.metrics


@pytest.mark.parametrize(
    ("stage", "num_ranks"),
    [
        (2, 2),  # stage 3 on two ranks is in test_several_ranks.py
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((1, 1), (2, 1), (3, 1), (0, 2), (1, 2), (3, 2))),
    ],
)
def test_stages_and_ranks_agree_and_repeat(make_trainer, jobs, make_groups, initial, plain, stage, num_ranks) -> None:
    training = _training(stage, num_ranks)
    trainer = make_trainer(training)
    try:
        first, first_result, second, result = _two_updates(trainer, jobs, training, make_groups, initial)
        weights, metrics = plain
        assert (_weights(second.output_folder) - weights).abs().max() < 1e-6
        assert result.metrics == pytest.approx(metrics, rel=1e-4, abs=1e-6)
        # The worker now holds the second state: both repetitions load their own from disk first.
        for job, wanted in ((second, result), (first, first_result)):
            again = job.model_copy(update={"output_folder": job.output_folder.with_name(f"again-{job.step}")})
            assert trainer.update(again) == wanted
        trainer.close()
        cold = second.model_copy(update={"output_folder": second.output_folder.with_name("cold")})
        assert trainer.update(cold) == result
    finally:
        trainer.close()


def _rank(trainer, rank: int) -> int:
    pid: int = trainer._processes.ranks[rank].pid
    assert psutil.Process(pid).environ()["RANK"] == str(rank)
    return pid


def test_a_lost_rank_ends_the_others_and_can_be_tried_again(make_trainer, jobs, make_groups) -> None:
    training = TrainingConfig(num_ranks=2, tokens_per_micro_batch=256, num_epochs=200)
    trainer = make_trainer(training)
    loss = choose_loss(mismatch_tolerance=None)
    small = jobs.first([], training=training, loss=loss)
    big = jobs.first(make_groups(400, group_size=8), training=training, loss=loss)
    try:
        trainer.update(small)
        threading.Timer(1.0, os.kill, (_rank(trainer, 1), signal.SIGKILL)).start()
        with pytest.raises(WorkerDied):
            trainer.update(big)
        again = small.model_copy(update={"output_folder": small.output_folder.with_name("again")})
        assert trainer.update(again).metrics["num_updates"] == 0
    finally:
        trainer.close()
