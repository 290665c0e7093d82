"""Retries, timeouts and caching of every stage. No other module spells these out."""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from prefect import Task
from prefect.cache_policies import CachePolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.results import ResultStore, get_default_result_storage
from prefect.serializers import JSONSerializer
from prefect.tasks import exponential_backoff

from components.artifacts.stage import read_manifest
from components.bounded_json import bounded_json
from components.errors import PrefectUnavailable, StoreGone, TransientError
from components.patience import is_interrupted
from tasks.looks import seen_attempts
from tasks.run import stage_key
from tasks.session import Session

_log = logging.getLogger(__name__)
_SERIALIZER = JSONSerializer()
_absent: ContextVar[tuple[str, int] | None] = ContextVar("absent", default=None)


def just_seen_attempts(path: str) -> int | None:
    """The number of attempts that this attempt's cache policy saw at `path`, if it saw no manifest.

    Answered once, so that a retry looks again.
    """
    found = _absent.get()
    _absent.set(None)
    return found[1] if found is not None and found[0] == path else None


@dataclass
class StageCache(CachePolicy):
    """Prefect's record of a stage's output, used only if the stage's manifest names it.

    The manifest is authoritative: a record that outlives a removed run or store is ignored.
    """

    stage: str = ""
    version: int = 1

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str:
        """The record named by the manifest; without a manifest, this task run's own, which the manifest will name."""
        session: Session = inputs["session"]
        key = stage_key(self.stage, self.version, session.run, inputs)
        seen = seen_attempts(key)
        _absent.set(None if seen is None else (key.path, seen))
        manifest = read_manifest(session.store, key) if seen is None else None
        record = manifest and manifest.record
        if record and _may_be_read(task_ctx.result_store, record):
            return record
        return f"troupe/{key.path}/{task_ctx.task_run.id}"


def _may_be_read(results: ResultStore, record: str) -> bool:
    """Whether a record uses the JSON serializer of `stage_options`.

    Prefect loads a record with whatever serializer it names, including pickle.
    """
    default: Any = get_default_result_storage  # typed as what it is in async code
    storage: Any = results.result_storage or default(_sync=True)
    try:
        content = storage.read_path(record, _sync=True)
    except (OSError, ValueError):  # there is none, as Prefect will find
        return True
    try:
        return bool(bounded_json(content)["metadata"]["serializer"] == _SERIALIZER.model_dump(mode="json"))
    except (ValueError, LookupError, TypeError):
        return False


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


def stage_options(stage: str, *, version: int, cached: bool = True) -> dict[str, Any]:
    """Keyword arguments for `prefect.task`. `cached` is False for effects, which every resume repeats."""
    retries, delay_seconds, timeout_seconds = _RETRIES[stage]
    options: dict[str, Any] = {
        "name": stage.replace("_", "-"),
        "retries": retries,
        "retry_delay_seconds": exponential_backoff(backoff_factor=delay_seconds),
        "retry_jitter_factor": 0.2,
        "retry_condition_fn": is_transient,
        "timeout_seconds": timeout_seconds,
    }
    if cached:
        options |= {
            "cache_policy": StageCache(stage=stage, version=version),
            "persist_result": True,
            "result_serializer": _SERIALIZER,
        }
    return options
