"""The training worker: the process of one rank, alive between updates. The only module that imports DeepSpeed.

Several ranks are started by DeepSpeed's launcher, one by the trainer itself. Rank 0 takes jobs from a Unix socket and hands
them to the other ranks; all run the update; rank 0 answers. What a rank holds in memory is only a cache of a checkpoint: a
job names the state that it starts from, and a rank that holds another one loads it first. An error after which ranks may
disagree ends the process; the trainer starts a new one.
"""
# ruff: noqa: E402  the imports below the line about unused packages depend on it

import argparse
import datetime
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

# Seconds of imports for features that are not used: DeepSpeed's autotuner imports mlflow; Transformers imports Accelerate for
# device maps, and SciPy for losses on pictures. None makes an import fail at once, and the features count as not installed.
_UNUSED = ("mlflow", "accelerate", "scipy")
for _name in _UNUSED:
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]

import deepspeed
import torch
import torch.distributed as dist
import transformers
import transformers.modeling_utils
from torch import nn

for _name in _UNUSED[1:]:
    if sys.modules[_name] is None:
        del sys.modules[_name]  # PEFT needs Accelerate, where there are adapters

from components.algorithms.loss_registry import policy_loss
from components.artifacts.adapters import base_alone, has_adapter, use_adapter
from components.artifacts.codec import decode
from components.config import TrainingConfig
from components.errors import LogprobMismatch, TroupeError
from components.own_code import is_own, make_findable
from components.schema import TrainBatch
from components.training.base import MODEL_FOLDER, UpdateJob, UpdateResult
from components.training.buffers import computed_buffers, restore_buffers
from components.training.checkpoint import load_model, read_manifest
from components.training.deepspeed_config import engine_config
from components.training.handover import (
    MAX_MESSAGE_BYTES,
    SOCKET_FILE,
    Answer,
    Failure,
    Handover,
    read_handover,
    report_failure,
)
from components.training.learner_state import load_base, load_engine, save_engine, seed_everything
from components.training.optimizer_state import make_fresh
from components.training.ownership import Owner, end_with, end_with_input
from components.training.ranks import Ranks
from components.training.recomputation import recompute_activations
from components.training.update import Update

# DeepSpeed would compile an operator for collectives in shared memory, which needs a C++ compiler, takes half a minute the
# first time and leaves a lock that blocks every later start when it is killed meanwhile. gloo does without.
deepspeed.ops.__compatible_ops__ = {}

_log = logging.getLogger("troupe.training")
_FAILED_EXIT_CODE = 1
_WAIT_FOR_JOBS = datetime.timedelta(days=365)


class RealDeepSpeed:
    """DeepSpeed under one training configuration."""

    def __init__(self, training: TrainingConfig, base: dict[str, Any]) -> None:
        self._training = training
        self._config = engine_config(base, training)

    def engine(self, model: nn.Module, job: UpdateJob) -> Any:
        """A fresh engine with torch's AdamW, whose arithmetic is the same under every ZeRO stage."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(
            parameters,
            lr=job.training.learning_rate,
            betas=job.training.adam_betas,
            weight_decay=job.training.weight_decay,
        )
        engine, *_ = deepspeed.initialize(
            model=model, model_parameters=parameters, optimizer=optimizer, config=self._config
        )
        make_fresh(engine)
        # Dropout would make the trainer's log-probabilities differ from the sampler's.
        engine.module.eval()
        if self._training.gradient_checkpointing:
            recompute_activations(engine.module)
        return engine

    def whole(self, parameters: Sequence[nn.Parameter]) -> AbstractContextManager[None]:
        """Inside, parameters partitioned by ZeRO 3 hold all their values."""
        if self._training.zero_stage < 3:
            return nullcontext()
        context: AbstractContextManager[None] = deepspeed.zero.GatheredParameters(list(parameters))
        return context


class Worker:
    """One rank with the states it holds: an engine a policy, and the digests that name its state.

    Policies whose weights are their own have a worker each. Adapters on one base share a worker, and in it the base; ZeRO 3,
    which takes the base apart, holds one of them at a time.
    """

    def __init__(self, handover: Handover, ranks: Ranks) -> None:
        self._deepspeed = RealDeepSpeed(handover.training, dict(handover.deepspeed))
        self._ranks = ranks
        self._shares_base = handover.training.zero_stage < 3
        self._own_code_folder = handover.own_code_folder
        self._engines: dict[str, Any] = {}
        self._held: dict[str, tuple[str, str]] = {}
        self._base: tuple[str, nn.Module] | None = None
        self._reference: tuple[str, nn.Module] | None = None

    def update(self, job: UpdateJob) -> UpdateResult:
        """Run one update; after any error nothing is held, so that the next one starts from its checkpoint alone."""
        try:
            return self._updated(job)
        except BaseException:
            # A gradient of what was refused would stay in the model, in reach of every other policy on the same base.
            self._release_all()
            raise

    def _updated(self, job: UpdateJob) -> UpdateResult:
        clock = [time.perf_counter()]
        if is_own(job.loss.policy_loss) and self._own_code_folder is not None:
            make_findable(job.loss.policy_loss.partition(":")[0], self._own_code_folder)
        policy_loss(job.loss)  # own code that cannot be used is told before any work
        engine = self._engine(job)
        self._held.pop(job.policy, None)
        batch = decode(job.batch_file.read_bytes(), TrainBatch)
        reference = self._reference_model(job, engine) if job.loss.kl_coefficient else None
        seed_everything(job)
        clock.append(time.perf_counter())
        update = Update(engine=engine, job=job, batch=batch, ranks=self._ranks, reference=reference)
        metrics = update.run()
        clock.append(time.perf_counter())
        manifest = save_engine(self._deepspeed, engine, job, self._ranks)
        clock.append(time.perf_counter())
        self._held[job.policy] = (manifest.weights_digest, manifest.optimizer_digest)
        spans = [f"{end - start:.3f}" for start, end in pairwise(clock)]
        _log.info("%s step %d: load %s s, update %s s, save %s s", job.policy, job.step, *spans)
        return UpdateResult(manifest=manifest, metrics=metrics)

    def _engine(self, job: UpdateJob) -> Any:
        """The policy's engine, in the state that the job names, with its adapter in use."""
        if self._held.get(job.policy) != (job.weights_digest, job.optimizer_digest):
            self._held.pop(job.policy, None)
            base = self._shared_base(job)
            if base is None:
                self._release_all()
            elif job.policy in self._engines:
                self._engines.pop(job.policy).destroy()
            self._engines[job.policy] = load_engine(self._deepspeed, job, self._ranks, base)
        engine = self._engines[job.policy]
        if has_adapter(engine.module, job.policy):
            # Another policy's turn has made this one's tensors require no gradient: they would silently get none.
            use_adapter(engine.module, job.policy)
        return engine

    def _shared_base(self, job: UpdateJob) -> nn.Module | None:
        """The base that the engines of several adapters share; None where a policy has a model of its own."""
        digest = read_manifest(job.checkpoint_folder).base_digest
        if digest is None or not self._shares_base:
            return None
        if self._base is None or self._base[0] != digest:
            self._release_all()
            self._base = (digest, load_base(job))
        return self._base[1]

    def _release_all(self) -> None:
        while self._engines:
            _, engine = self._engines.popitem()
            engine.destroy()
        self._held.clear()
        self._base = None

    def _reference_model(self, job: UpdateJob, engine: Any) -> nn.Module:
        if has_adapter(engine.module, job.policy):
            return BaseAlone(engine)  # an adapter begins as no change
        assert job.reference_folder is not None, "loss.kl_coefficient is set and the job names no reference"
        digest = read_manifest(job.reference_folder).weights_digest
        if self._reference is None or self._reference[0] != digest:
            model = load_model(job.reference_folder / MODEL_FOLDER)
            buffers = computed_buffers(model)
            model = model.to(device=engine.device, dtype=getattr(torch, job.training.dtype))
            restore_buffers(model, buffers)
            self._reference = (digest, model.requires_grad_(False))
        return self._reference[1]


class BaseAlone(nn.Module):
    """The model that an engine's adapters sit on, answering without any of them."""

    def __init__(self, engine: Any) -> None:
        super().__init__()
        self._engine = engine

    def forward(self, **inputs: Any) -> Any:
        with base_alone(self._engine.module):
            return self._engine(**inputs)


def serve(worker: Worker, ranks: Ranks, connection: Connection | None, folder: Path) -> None:
    """Take jobs until the trainer hangs up."""
    while (text := ranks.broadcast(_next_job(connection))) is not None:
        try:
            answer = Answer(result=worker.update(UpdateJob.model_validate_json(text)))
        # The border of the process: every error crosses to the trainer under its own name.
        except Exception as error:
            traceback.print_exc()
            answer = Answer(failure=failure_of(error, ranks.rank))
            if not _ranks_agree(error, ranks):
                assert answer.failure is not None
                report_failure(folder, ranks.rank, answer.failure)
                os._exit(_FAILED_EXIT_CODE)
        if connection is not None:
            connection.send_bytes(answer.model_dump_json().encode())


def failure_of(error: Exception, rank: int) -> Failure:
    """`error` in the form in which it crosses."""
    if isinstance(error, TroupeError):
        return Failure(kind="named", name=type(error).__name__, message=str(error))
    if isinstance(error, dist.DistError) or "gloo" in str(error):
        return Failure(kind="lost_rank", name=type(error).__name__, message=f"rank {rank} lost another rank: {error}")
    message = f"rank {rank}\n{''.join(traceback.format_exception(error))}"
    return Failure(kind="update", name=type(error).__name__, message=message)


def _ranks_agree(error: Exception, ranks: Ranks) -> bool:
    """Whether every rank raised `error` at the same place, so that all can go on."""
    return isinstance(error, LogprobMismatch) or (isinstance(error, TroupeError) and ranks.size == 1)


def _next_job(connection: Connection | None) -> str | None:
    if connection is None:
        return None
    try:
        return connection.recv_bytes(MAX_MESSAGE_BYTES).decode()
    except EOFError:
        return None


def _join_ranks(training: TrainingConfig, rendezvous: str | None) -> Ranks:
    backend = "nccl" if training.device == "cuda" else "gloo"
    deepspeed.init_distributed(
        dist_backend=backend,
        auto_mpi_discovery=False,
        timeout=datetime.timedelta(seconds=training.update_timeout_seconds),
        init_method=rendezvous,
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    control = dist.new_group(backend="gloo", timeout=_WAIT_FOR_JOBS)
    return Ranks(dist.get_rank(), dist.get_world_size(), control)


def import_models() -> None:
    """Import what loading a model will need: better here, while nobody waits yet, than in the first update."""
    for name in ("AutoModelForCausalLM", "PreTrainedModel", "GenerationMixin", "AutoTokenizer"):
        getattr(transformers, name)


def main() -> None:
    """The process of one rank."""
    parser = argparse.ArgumentParser(description="A training worker; started by DeepSpeedTrainer.")
    parser.add_argument("--handover", type=Path, required=True)
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--end_with_input", action="store_true")
    arguments = parser.parse_args()
    handover, folder = read_handover(arguments.handover), arguments.handover.parent
    if arguments.end_with_input:
        end_with_input()
    else:
        end_with(Owner(handover.owner_pid, handover.owner_started_at), folder=folder)
    transformers.utils.logging.disable_progress_bar()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    _log.setLevel(logging.INFO)
    torch.set_num_threads(handover.training.num_threads)
    if handover.training.device == "cuda":
        torch.cuda.set_device(arguments.local_rank)
        torch.use_deterministic_algorithms(True, warn_only=True)
    ranks = _join_ranks(handover.training, handover.rendezvous)
    connection = None
    if ranks.first:
        with Listener(
            str(folder / SOCKET_FILE), "AF_UNIX", authkey=handover.key.get_secret_value().encode()
        ) as listener:
            connection = listener.accept()
    _log.info("rank %d of %d is ready", ranks.rank, ranks.size)
    serve(Worker(handover, ranks), ranks, connection, folder)
    dist.destroy_process_group()
