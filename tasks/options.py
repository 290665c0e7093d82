"""Retries and timeouts of every stage. No other module spells these out."""

import logging
from collections.abc import Mapping
from typing import Any

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import exponential_backoff

from components.errors import PrefectUnavailable, StoreGone, TransientError
from components.outages import is_interrupted

_log = logging.getLogger(__name__)


def is_transient(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Retry what a second attempt may fix: no bugs, no bad configuration, and nothing after an interruption."""
    error = state.result(raise_on_failure=False)
    may_pass = isinstance(error, TransientError | TimeoutError | ConnectionError)
    if not may_pass or isinstance(error, StoreGone | PrefectUnavailable) or is_interrupted():
        return False
    _log.warning("a stage is tried again: %s: %s", type(error).__name__, error)
    return True


_RETRIES: Mapping[str, tuple[int, float, float]] = {
    # stage: retries, first delay in seconds (doubled each time), timeout in seconds
    "warm_start": (1, 5, 4 * 3600),
    "refresh_weights": (5, 2, 600),
    "collect_rollouts": (3, 5, 4 * 3600),
    "compute_rewards": (3, 5, 3600),
    "compute_advantages": (3, 5, 600),
    "update_policy": (2, 5, 12 * 3600),
    "publish_checkpoint": (5, 5, 1800),
    "evaluate_policy": (2, 5, 4 * 3600),
}


def stage_options(stage: str) -> dict[str, Any]:
    """Keyword arguments for `prefect.Task`. Prefect keeps no results: the store has them."""
    retries, delay_seconds, timeout_seconds = _RETRIES[stage]
    return {
        "name": stage.replace("_", "-"),
        "retries": retries,
        "retry_delay_seconds": exponential_backoff(backoff_factor=delay_seconds),
        "retry_jitter_factor": 0.2,
        "retry_condition_fn": is_transient,
        "timeout_seconds": timeout_seconds,
        "cache_policy": NO_CACHE,
        "persist_result": False,
    }
