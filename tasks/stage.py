"""The decorators that make a stage of a function: a Prefect task under the stage protocol."""

import functools
import inspect
import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Literal, ParamSpec, TypeVar, get_type_hints

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.exceptions import TerminationSignal
from prefect.states import Cancelled, Completed
from prefect.tasks import exponential_backoff

from components.errors import PrefectUnavailable, StoreGone, TransientError
from components.identity import StageKey
from components.machine.outages import is_interrupted
from components.reporting import progress
from components.runs.pipeline import Stage, When
from components.runs.recovery_hints import with_recovery_hints
from components.runs.run import stage_key
from components.runs.stage_protocol import manifest_key, run_stage
from components.session.session import Session
from components.session.step_snapshot import read_attempts_so_far
from components.stage_roles import Retention, Writes

P = ParamSpec("P")
R = TypeVar("R")
INTERRUPTIONS = (KeyboardInterrupt, TerminationSignal)
"""Raised in the main thread by Ctrl-C and by signals that ask the process to end."""
_current: ContextVar[StageKey] = ContextVar("stage_key")
_log = logging.getLogger(__name__)


def current_key() -> StageKey:
    """The key of the running stage, for its journal."""
    return _current.get()


class StageTask(Task[P, R]):
    """A stage's task. It is pickled by name, since its closure cannot be."""

    stage: Stage
    """What the stage declares of itself."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task; without its timeout outside the main thread."""
        if threading.current_thread() is threading.main_thread():
            returned: Any = super().__call__(*args, **kwargs)
        else:
            returned = self.for_threads()(*args, **kwargs)
        if not isinstance(returned, State) or kwargs.get("return_state"):
            return returned
        _raise_interruption(returned)
        return returned.data.result  # type: ignore[union-attr]

    def in_lineage(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result, for a stage or a command that calls this one: it has no task run of its own."""
        returned: Any = self.fn(*args, **kwargs)
        if not isinstance(returned, State):
            return returned  # type: ignore[no-any-return]
        if returned.is_cancelled():
            raise returned.data  # type: ignore[misc]
        return returned.data  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, ...]:
        return _task_named, (self.fn.__module__, self.fn.__name__)

    def for_threads(self) -> Task[P, R]:
        """The same task without a timeout: Prefect cannot stop work in a thread, only report it as late afterwards."""
        task = self.with_options()
        task.timeout_seconds = None
        return task


def _task_named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def stage(
    name: str,
    *,
    version: int,
    reads: tuple[str | When, ...] = (),
    needs: tuple[str, ...] = (),
    scope: Literal["run", "shared"] = "run",
    retries: int = 3,
    delay_seconds: float = 5,
    timeout_seconds: float = 3600,
    ignores: tuple[str, ...] = (),
    writes: Writes | None = None,
    ends_step: bool = False,
    optional: bool = False,
    expires_with: Retention | None = None,
    decisive: Callable[[Any], object] = lambda output: output,
) -> Callable[[Callable[P, R]], StageTask[P, R]]:
    """Make a stage of a function `(session, step, ...) -> reference`, run under the stage protocol.

    The function is called only if its inputs have no manifest. Its return annotation is the type of the committed output.
    `reads`, `needs`, `ignores` and `scope`: see Stage; `writes`, `ends_step`, `optional` and `expires_with`: see Role. Raise
    `version` when equal inputs should give a new result. `decisive` selects what later steps depend on: two processes may
    commit outputs that differ in the rest, such as times.

    **Example** `@stage("compute_rewards", version=5, reads=("seed", "rewards"), needs=("collect_rollouts",))`.
    """
    declared = Stage(
        name=name,
        version=version,
        reads=reads,
        needs=needs,
        scope=scope,
        ignores=ignores,
        writes=writes,
        ends_step=ends_step,
        optional=optional,
        expires_with=expires_with,
        retries=retries,
        delay_seconds=delay_seconds,
        timeout_seconds=timeout_seconds,
    )
    return _under_protocol(declared, decisive)


def _under_protocol(declared: Stage, decisive: Callable[[Any], object]) -> Callable[[Callable[P, R]], StageTask[P, R]]:
    """The decorator of a declared stage."""

    def decorate(compute: Callable[P, R]) -> StageTask[P, R]:
        signature = inspect.signature(compute)
        as_type: Any = get_type_hints(compute)["return"]

        @functools.wraps(compute)
        def run_as_stage(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            session: Session = bound.arguments["session"]
            key = stage_key(declared, session.run, bound.arguments)
            progress.report(declared.name, key.step, 0, 1)
            token = _current.set(key)
            try:
                with with_recovery_hints(session.store, session.run.run_id):
                    result = run_stage(
                        session.store,
                        key,
                        lambda: compute(*args, **kwargs),
                        as_type,
                        attempts_so_far=read_attempts_so_far(key),
                        decisive=decisive,
                    )
            finally:
                _current.reset(token)
            if declared.scope == "run":
                session.note_manifest(manifest_key(key), result.manifest)
            progress.report(declared.name, key.step, 1, 1, reused=result.reused, seconds=result.manifest.seconds)
            if result.reused and TaskRunContext.get() is not None:
                return Completed(name="Cached", data=result.output)  # type: ignore[return-value]
            return result.output  # type: ignore[no-any-return]

        return _stage_task(run_as_stage, declared)

    return decorate


def effect(
    name: str, *, retries: int, delay_seconds: float, timeout_seconds: float
) -> Callable[[Callable[P, R]], StageTask[P, R]]:
    """Make a stage of a function that stores nothing and is repeated on every resume."""
    declared = Stage(
        name=name, version=None, retries=retries, delay_seconds=delay_seconds, timeout_seconds=timeout_seconds
    )
    return lambda function: _stage_task(function, declared)


def _stage_task(function: Callable[P, R], declared: Stage) -> StageTask[P, R]:
    """Prefect keeps no results: the store has them."""
    task = StageTask(
        _cancellable(function),
        name=declared.name.replace("_", "-"),
        retries=declared.retries,
        retry_delay_seconds=exponential_backoff(backoff_factor=declared.delay_seconds),
        retry_jitter_factor=0.2,
        retry_condition_fn=is_transient,
        timeout_seconds=declared.timeout_seconds,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    task.stage = declared
    return task


def is_transient(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Retry what a second attempt may fix: no bugs, no bad configuration, and nothing after an interruption."""
    error = state.result(raise_on_failure=False)
    may_pass = isinstance(error, TransientError | TimeoutError | ConnectionError)
    if not may_pass or isinstance(error, StoreGone | PrefectUnavailable) or is_interrupted():
        return False
    _log.warning("a stage is tried again: %s: %s", type(error).__name__, error)
    return True


def _cancellable(compute: Callable[P, R]) -> Callable[P, R]:
    """`compute` as the function of a Prefect task that an interruption ends as cancelled. Prefect's own word is crashed."""

    @functools.wraps(compute)
    def compute_or_fail(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return compute(*args, **kwargs)
        except INTERRUPTIONS as interruption:
            if TaskRunContext.get() is None:
                raise
            message = "The process was asked to end."
            return Cancelled(message=message, data=interruption)  # type: ignore[return-value]

    return compute_or_fail


def _raise_interruption(returned: State[Any]) -> None:
    """Raise the interruption that ended a task with this state, if one did."""
    interruption = getattr(returned.data, "result", None)
    if returned.is_cancelled() and isinstance(interruption, INTERRUPTIONS):
        raise interruption
