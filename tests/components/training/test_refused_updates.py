"""What a refused update leaves behind: nothing. The next update of any policy ends where it would have ended."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from components.artifacts.codec import encode
from components.config import TrainingConfig
from components.errors import ArtifactCorrupt, LogprobMismatch, UpdateFailed
from components.schema import TrainBatch
from components.training.base import UpdateJob, UpdateResult
from components.training.trainer import DeepSpeedTrainer
from tests.components.training.test_specialisation import Team
from tests.sections import choose_loss

NOT_A_NUMBER = float("nan")


def make_mismatched(job: UpdateJob) -> UpdateJob:
    """The job with a tolerance that its batch exceeds: it is refused with its first gradient in place."""
    return job.model_copy(update={"loss": choose_loss(mismatch_tolerance=1e-6)})


def broken(job: UpdateJob, groups: list[Any]) -> UpdateJob:
    """The job over a batch without numbers: it is refused after all its optimizer steps."""
    nowhere = [replace(group, advantages_K=(NOT_A_NUMBER,) * len(group.advantages_K)) for group in groups]
    batch_file = job.batch_file.with_suffix(".broken")
    batch = TrainBatch(policy=job.policy, step=job.step, groups=tuple(nowhere), num_groups_without_signal=0)
    batch_file.write_bytes(encode(batch))
    return job.model_copy(update={"batch_file": batch_file})


def ends(trainer: DeepSpeedTrainer, job: UpdateJob, output: Path) -> UpdateResult:
    return trainer.update(job.model_copy(update={"output_folder": output}))


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("stage", "num_ranks"),
    [(0, 1), (3, 1), *(pytest.param(*each, marks=pytest.mark.long) for each in ((1, 1), (2, 2)))],
)
def test_a_refused_update_changes_no_later_one(
    stage: int,
    num_ranks: int,
    tmp_path: Path,
    make_trainer: Callable[[TrainingConfig], DeepSpeedTrainer],
    make_model: Callable[..., Any],
    make_groups: Callable[..., list[Any]],
) -> None:
    """Two adapters on one base in one worker; gradients are clipped, so that a foreign one would show in the weights."""
    training = TrainingConfig(
        learning_rate=1e-2,
        tokens_per_micro_batch=64,
        num_minibatches=1,
        max_grad_norm=0.01,
        zero_stage=stage,
        num_ranks=num_ranks,
    )
    team = Team(tmp_path, "L2", 2, make_model)
    groups = {policy: make_groups(3, seed=number) for number, policy in enumerate(team.policies)}
    jobs = {policy: team.job(policy, groups[policy], tmp_path / policy, training) for policy in team.policies}
    first, other = team.policies
    trainer = make_trainer(training)
    try:
        wanted = {policy: ends(trainer, job, tmp_path / f"{policy}-wanted") for policy, job in jobs.items()}
        assert all(result.metrics["grad_norm"] > training.max_grad_norm for result in wanted.values())
        corrupt = jobs[first].model_copy(update={"weights_digest": "0" * 64})
        cases = [
            (make_mismatched(jobs[first]), LogprobMismatch, (other, first)),
            (make_mismatched(jobs[first]), LogprobMismatch, (first, other)),
            (broken(jobs[first], groups[first]), UpdateFailed, (other, first)),
            (corrupt, ArtifactCorrupt, (first, other)),
        ]
        if num_ranks > 1:
            cases = cases[:2]  # after the others several ranks end, and new ones begin with nothing
        for number, (refused, error, following) in enumerate(cases):
            with pytest.raises(error):
                ends(trainer, refused, tmp_path / f"{number}-refused")
            for policy in following:
                assert ends(trainer, jobs[policy], tmp_path / f"{number}-{policy}") == wanted[policy]
    finally:
        trainer.close()


def test_whatever_ends_an_update_nothing_is_held_after_it(monkeypatch: pytest.MonkeyPatch, make_job: Any) -> None:
    """Every error, also one that nobody foresaw, in the process that trains: learners, digests and the base are let go."""
    from components.training import worker

    class Learner:
        num_destroyed = 0

        def destroy(self) -> None:
            Learner.num_destroyed += 1

    def failing(job: UpdateJob) -> UpdateResult:
        raise error

    holder = worker.Worker.__new__(worker.Worker)
    for error in (LogprobMismatch("x"), ValueError("x"), KeyboardInterrupt()):
        holder._learners, holder._held, holder._base = {"a": Learner(), "b": Learner()}, {"b": ("w", "o")}, ("d", None)  # type: ignore[assignment]
        monkeypatch.setattr(holder, "_update", failing)
        with pytest.raises(type(error)):
            holder.update(make_job())
        assert (holder._learners, holder._held, holder._base) == ({}, {}, None)
    assert Learner.num_destroyed == 6


def test_an_operator_that_cannot_repeat_is_told_in_the_metrics_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, make_job: Any
) -> None:
    """PyTorch's own refusal, by an operator that has none but this kind: the update starts anew from its checkpoint."""
    from components.training import worker

    result = UpdateResult.model_construct(manifest=None, metrics={"loss": 1.0})
    strict: list[bool] = []

    def uses_put(job: UpdateJob) -> UpdateResult:
        strict.append(not torch.is_deterministic_algorithms_warn_only_enabled())
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
        return result

    holder = worker.Worker.__new__(worker.Worker)
    holder._learners, holder._held, holder._base = {}, {"b": ("w", "o")}, None
    monkeypatch.setattr(holder, "_update", uses_put)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
            first = holder.update(make_job())
        with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
            second = holder.update(make_job())
    finally:
        torch.use_deterministic_algorithms(False)
    assert first.metrics == second.metrics == {"loss": 1.0, "repeatable": 0.0}
    assert strict == [True, False, False]
    assert holder._held == {}
    assert holder.update(make_job()) is result
