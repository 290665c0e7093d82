"""DeepSpeed itself: the only module that imports it, because that takes seconds."""
# ruff: noqa: E402  the imports below the line about unused packages depend on it

import datetime
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

# These imports take seconds for unused features (DeepSpeed's autotuner, device maps, image losses). None makes them fail
# at once, so that the features count as not installed.
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

from components.config import TrainingConfig
from components.training.base import UpdateJob
from components.training.deepspeed_config import complete_config
from components.training.gradient_checkpointing import recompute_activations
from components.training.optimizer_state import make_fresh
from components.training.ranks import Ranks

# DeepSpeed would compile a shared-memory collective, which needs a C++ compiler, takes half a minute and, if killed, leaves
# a lock that blocks every later start. gloo does not need it.
deepspeed.ops.__compatible_ops__ = {}

_WAIT_FOR_JOBS = datetime.timedelta(days=365)


class RealDeepSpeed:
    """DeepSpeed under one training configuration."""

    def __init__(self, training: TrainingConfig, base: dict[str, Any]) -> None:
        self._training = training
        self._config = complete_config(base, training)

    def learner(self, model: nn.Module, job: UpdateJob) -> Any:
        """A new learner with torch's AdamW, whose arithmetic is the same under every ZeRO stage."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(
            parameters,
            lr=job.training.learning_rate,
            betas=job.training.adam_betas,
            weight_decay=job.training.weight_decay,
        )
        learner, *_ = deepspeed.initialize(
            model=model, model_parameters=parameters, optimizer=optimizer, config=self._config
        )
        make_fresh(learner)
        # Dropout would make the trainer's log-probabilities differ from the sampler's.
        learner.module.eval()
        if self._training.gradient_checkpointing:
            recompute_activations(learner.module)
        return learner

    def whole(self, parameters: Sequence[nn.Parameter]) -> AbstractContextManager[None]:
        """Inside, parameters partitioned by ZeRO 3 hold all their values."""
        if self._training.zero_stage < 3:
            return nullcontext()
        context: AbstractContextManager[None] = deepspeed.zero.GatheredParameters(list(parameters))
        return context


def choose_device() -> None:
    """Compute on the CUDA device of this process's LOCAL_RANK."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def join_ranks(training: TrainingConfig, rendezvous: str) -> Ranks:
    """The ranks of the worker, after they have met at `rendezvous`."""
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
    """Import what loading a model needs, before the first update."""
    for name in ("AutoModelForCausalLM", "PreTrainedModel", "GenerationMixin", "AutoTokenizer"):
        getattr(transformers, name)
