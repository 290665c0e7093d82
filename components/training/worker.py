"""One rank of a training worker. Between updates its learners are only caches of checkpoints."""

import logging
import re
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from components.algorithms.loss_registry import policy_loss
from components.artifacts.codec import decode
from components.config import TrainingConfig
from components.models.adapters import (
    ADAPTER_FOLDER,
    adapter_tensors,
    base_alone,
    has_adapter,
    read_stored_adapter,
    use_adapter,
)
from components.models.buffers import cast
from components.models.value_head import use_value_head
from components.schema import TrainBatch
from components.training.base import MODEL_FOLDER, UpdateJob, UpdateResult
from components.training.checkpoint import load_model
from components.training.learner_state import DeepSpeed, load_base, load_learner, save_learner, seed_everything
from components.training.ranks import Ranks
from components.training.update import Update
from components.user_code import is_custom, make_findable

LOGGER = "troupe.training"
_log = logging.getLogger(LOGGER)
_CANNOT_REPEAT = re.compile(r"does not have a deterministic implementation|this operation is not deterministic")
"""How PyTorch refuses an operator under `use_deterministic_algorithms(True)`."""


class Worker:
    """One rank with a learner per policy, and the digests that identify its state.

    A policy with full weights has a worker to itself. Adapters on one base share a worker and the base in it; under ZeRO 3,
    which partitions the base, the worker holds one adapter at a time.
    """

    def __init__(
        self, training: TrainingConfig, ranks: Ranks, deepspeed: DeepSpeed, *, own_code_folder: Path | None = None
    ) -> None:
        """`own_code_folder` may contain user-defined losses."""
        self._deepspeed = deepspeed
        self._ranks = ranks
        self._shares_base = training.zero_stage < 3
        self._own_code_folder = own_code_folder
        self._learners: dict[str, Any] = {}
        self._held: dict[str, tuple[str, str]] = {}
        self._base: tuple[str, nn.Module] | None = None
        self._reference: tuple[Path, nn.Module] | None = None
        self._past_adapter: tuple[Path, dict[str, Tensor]] | None = None

    def update(self, job: UpdateJob) -> UpdateResult:
        """Run one update. After an error no learner is kept, so that the next update starts from its checkpoint.

        Where an operator of the model cannot repeat its result on this device, updates run without that demand from then
        on, and their metrics say `repeatable` 0. Every rank runs the same operators, so all come to the same decision.
        """
        try:
            done = self._update_or_release(job)
        except RuntimeError as error:
            if not _CANNOT_REPEAT.search(str(error)):
                raise
            _log.warning("updates do not repeat bit for bit on this device: %s", error)
            torch.use_deterministic_algorithms(True, warn_only=True)
            done = self._update_or_release(job)
        if torch.is_deterministic_algorithms_warn_only_enabled():
            return done.model_copy(update={"metrics": {**done.metrics, "repeatable": 0.0}})
        return done

    def _update_or_release(self, job: UpdateJob) -> UpdateResult:
        try:
            return self._update(job)
        except BaseException:
            # A gradient of the refused update would remain in the base, which other policies share.
            self._release_all()
            raise

    def _update(self, job: UpdateJob) -> UpdateResult:
        clock = [time.perf_counter()]
        if is_custom(job.loss.policy_loss) and self._own_code_folder is not None:
            make_findable(job.loss.policy_loss.partition(":")[0], self._own_code_folder)
        policy_loss(job.loss)  # an unusable own loss fails before any work
        learner = self._learner(job)
        self._held.pop(job.policy, None)
        batch = decode(job.batch_file.read_bytes(), TrainBatch)
        reference = self._reference_model(job, learner) if job.loss.kl_coefficient else None
        seed_everything(job)
        clock.append(time.perf_counter())
        update = Update(learner=learner, job=job, batch=batch, ranks=self._ranks, reference=reference)
        metrics = update.run()
        clock.append(time.perf_counter())
        manifest = save_learner(self._deepspeed, learner, job, self._ranks)
        clock.append(time.perf_counter())
        self._held[job.policy] = (manifest.weights_digest, manifest.optimizer_digest)
        spans = [f"{end - start:.3f}" for start, end in pairwise(clock)]
        _log.info("%s step %d: load %s s, update %s s, save %s s", job.policy, job.step, *spans)
        return UpdateResult(manifest=manifest, metrics=metrics)

    def _learner(self, job: UpdateJob) -> Any:
        """The policy's learner in the state that the job identifies, with its adapter active."""
        if self._held.get(job.policy) != (job.weights_digest, job.optimizer_digest):
            self._held.pop(job.policy, None)
            base = self._find_shared_base(job)
            if base is None:
                self._release_all()
            elif job.policy in self._learners:
                self._learners.pop(job.policy).destroy()
            self._learners[job.policy] = load_learner(self._deepspeed, job, self._ranks, base)
        learner = self._learners[job.policy]
        if has_adapter(learner.module, job.policy):
            # Activating another policy's adapter has disabled the gradients of this one's tensors.
            use_adapter(learner.module, job.policy)
        if job.critic is not None:
            use_value_head(learner.module, job.policy)
        return learner

    def _find_shared_base(self, job: UpdateJob) -> nn.Module | None:
        """The base shared by the learners of several adapters; None for a policy with full weights."""
        digest = job.base_digest
        if digest is None or not self._shares_base:
            return None
        if self._base is None or self._base[0] != digest:
            self._release_all()
            self._base = (digest, load_base(job))
        return self._base[1]

    def _release_all(self) -> None:
        while self._learners:
            _, learner = self._learners.popitem()
            learner.destroy()
        self._held.clear()
        self._base = None

    def _reference_model(self, job: UpdateJob, learner: Any) -> nn.Module:
        adapts = has_adapter(learner.module, job.policy)
        if adapts and job.reference_step == 0:
            return BaseAlone(learner)  # an adapter starts as the identity
        assert job.reference_folder is not None, "loss.kl_coefficient is set and the job has no reference"
        if adapts:
            if self._past_adapter is None or self._past_adapter[0] != job.reference_folder:
                self._past_adapter = job.reference_folder, read_stored_adapter(job.reference_folder / ADAPTER_FOLDER)
            return PastAdapter(learner, adapter_tensors(learner.module, job.policy), self._past_adapter[1])
        if self._reference is None or self._reference[0] != job.reference_folder:
            self._reference = None  # before the next one needs its memory
            model = cast(load_model(job.reference_folder / MODEL_FOLDER), getattr(torch, job.training.dtype))
            self._reference = (job.reference_folder, model.to(learner.device).requires_grad_(False))
        return self._reference[1]


class BaseAlone(nn.Module):
    """The base of a learner's adapters, with all adapters disabled."""

    def __init__(self, learner: Any) -> None:
        super().__init__()
        self._learner = learner

    @property
    def module(self) -> Any:
        """The model in the learner."""
        return self._learner.module

    def forward(self, **inputs: Any) -> Any:
        with base_alone(self.module):
            return self._learner(**inputs)


class PastAdapter(nn.Module):
    """A learner with the tensors of its adapter as they once were. Afterwards they are bit for bit what they are now.

    `live` and `past` are by the same names. Not for ZeRO 3, which partitions the live ones.
    """

    def __init__(self, learner: Any, live: Mapping[str, Tensor], past: Mapping[str, Tensor]) -> None:
        super().__init__()
        assert live.keys() == past.keys(), f"adapters of other layers: {sorted(live.keys() ^ past.keys())}"
        self._learner = learner
        self._live, self._past = live, past

    @property
    def module(self) -> Any:
        """The model in the learner."""
        return self._learner.module

    @torch.no_grad()
    def forward(self, **inputs: Any) -> Any:
        now = {name: tensor.clone() for name, tensor in self._live.items()}
        try:
            self._put(self._past)
            return self._learner(**inputs)
        finally:
            self._put(now)

    def _put(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in self._live.items():
            tensor.copy_(tensors[name])
