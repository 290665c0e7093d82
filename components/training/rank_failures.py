"""Errors of a rank, as the trainer is told them."""

import traceback

import torch.distributed as dist

from components.errors import LogprobMismatch, TroupeError
from components.training.ranks import Ranks
from components.training.worker_protocol import Failure


def describe_failure(error: Exception, rank: int) -> Failure:
    """`error` in serializable form."""
    if isinstance(error, TroupeError):
        return Failure(kind="named", name=type(error).__name__, message=str(error))
    if isinstance(error, dist.DistError) or "gloo" in str(error):
        return Failure(kind="lost_rank", name=type(error).__name__, message=f"rank {rank} lost another rank: {error}")
    message = f"rank {rank}\n{''.join(traceback.format_exception(error))}"
    return Failure(kind="update", name=type(error).__name__, message=message)


def do_ranks_agree(error: Exception, ranks: Ranks) -> bool:
    """Whether every rank raised `error` at the same point, so that all can continue."""
    return isinstance(error, LogprobMismatch) or (isinstance(error, TroupeError) and ranks.size == 1)
