"""Prefect tasks around the stage protocol."""

import functools
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, get_type_hints

from prefect import Task
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.states import Completed

from components import progress
from components.identity import StageKey
from components.runs.recovery_hints import with_recovery_hints
from components.runs.run import stage_key
from components.runs.stage_protocol import manifest_key, run_stage
from components.session.session import Session
from components.session.step_snapshot import seen_attempts
from tasks.interruptions import cancellable, raise_interruption
from tasks.options import stage_options

P = ParamSpec("P")
R = TypeVar("R")
_current: ContextVar[StageKey] = ContextVar("stage_key")


def current_key() -> StageKey:
    """The key of the running stage, for its journal."""
    return _current.get()


class StageTask(Task[P, R]):
    """A stage's task. It is pickled by name, since its closure cannot be."""

    version_number: int
    """Part of the key of its results."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task; without its timeout outside the main thread."""
        if threading.current_thread() is threading.main_thread():
            returned: Any = super().__call__(*args, **kwargs)
        else:
            returned = self.for_threads()(*args, **kwargs)
        if not isinstance(returned, State) or kwargs.get("return_state"):
            return returned
        raise_interruption(returned)
        return returned.data.result  # type: ignore[union-attr]

    def __reduce__(self) -> tuple[Any, ...]:
        return _task_named, (self.fn.__module__, self.fn.__name__)

    def for_threads(self) -> Task[P, R]:
        """The same task without a timeout: Prefect cannot stop work in a thread, only report it as late afterwards."""
        task = self.with_options()
        task.timeout_seconds = None
        return task


def _task_named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def stage_task(
    stage: str, *, version: int, decisive: Callable[[Any], object] = lambda output: output
) -> Callable[[Callable[P, R]], StageTask[P, R]]:
    """Make a Prefect task of a function `(session, step, ...) -> reference`, run under the stage protocol.

    The function is called only if its inputs have no manifest. Its return annotation is the type of the committed output.
    Raise `version` when equal inputs should give a new result. `decisive` selects what later steps depend on: two
    processes may commit outputs that differ in the rest, such as times.
    """

    def decorate(compute: Callable[P, R]) -> StageTask[P, R]:
        signature = inspect.signature(compute)
        as_type: Any = get_type_hints(compute)["return"]

        @functools.wraps(compute)
        def staged(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            session: Session = bound.arguments["session"]
            key = stage_key(stage, version, session.run, bound.arguments)
            progress.report(stage, key.step, 0, 1)
            token = _current.set(key)
            try:
                with with_recovery_hints(session.store, session.run, key.step):
                    result = run_stage(
                        session.store,
                        key,
                        lambda: compute(*args, **kwargs),
                        as_type,
                        seen_attempts=seen_attempts(key),
                        decisive=decisive,
                    )
            finally:
                _current.reset(token)
            session.note_manifest(manifest_key(key), result.manifest)
            progress.report(stage, key.step, 1, 1, reused=result.reused, seconds=result.manifest.seconds)
            if result.reused and TaskRunContext.get() is not None:
                return Completed(name="Cached", data=result.output)  # type: ignore[return-value]
            return result.output  # type: ignore[no-any-return]

        task = StageTask(cancellable(staged), **stage_options(stage))
        task.version_number = version
        return task

    return decorate


def effect_task(stage: str) -> Callable[[Callable[P, R]], StageTask[P, R]]:
    """Make a Prefect task of a function that stores nothing and is repeated on every resume."""

    return lambda function: StageTask(cancellable(function), **stage_options(stage))
