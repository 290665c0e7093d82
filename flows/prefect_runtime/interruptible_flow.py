"""Flow runs that an interruption of their process ends as Cancelled in Prefect.

By default Prefect reports them as Crashed, and shows what the user ended as a failure. Like `iteration_runs`, this module uses
undocumented parts of Prefect: `FlowRunEngine` with the methods overridden or called here.
"""

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import Flow
from prefect.flow_engine import FlowRunEngine
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.callables import get_call_parameters
from pydantic import ValidationError
from yaml import YAMLError

from components.errors import ConfigurationError
from components.machine.outages import interrupt
from tasks.stage import INTERRUPTIONS


class OneLineRefusals(logging.Filter):
    """Takes the traceback from records of refusals. Where a user's own code has failed, it stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let all records pass."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ConfigurationError) and is_own_refusal(error):
            record.msg, record.args, record.exc_info, record.exc_text = "Refused: %s", (error,), None, None
        return True


def is_own_refusal(error: ConfigurationError) -> bool:
    """Whether nothing but checks of ours, of pydantic and of YAML lie behind the error."""
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, ConfigurationError | ValidationError | YAMLError):
            return False
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return True


_FILTER = OneLineRefusals()


def shorten_refusals() -> None:
    """Let the logs of flow runs and task runs of this process tell refusals in one line."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addFilter(_FILTER)


P = ParamSpec("P")
R = TypeVar("R")


class InterruptibleEngine(FlowRunEngine[..., Any]):
    """Prefect's engine, whose run is cancelled by an interruption."""

    def handle_crash(self, exc: BaseException) -> None:
        """Report the end of the run after an exception that is no error of its code."""
        if isinstance(exc, INTERRUPTIONS):
            self.handle_cancellation(exc)
        else:
            super().handle_crash(exc)


class InterruptibleFlow(Flow[P, R]):
    """A flow that is interruptible where it is called. The run of a worker ends as the worker says."""

    def with_options(self, *, name: str) -> "InterruptibleFlow[P, R]":  # type: ignore[override]
        """The same flow under another name."""
        return InterruptibleFlow(self.fn, name=name, flow_run_name=self.flow_run_name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        """Run the flow in this process and return its result."""
        engine = InterruptibleEngine(flow=self, parameters=get_call_parameters(self.fn, args, kwargs))
        with engine.start():
            while engine.is_running():
                with engine.run_context():
                    engine.call_flow_fn()
        return engine.result()  # type: ignore[return-value]


def interruptible_flow(
    *, name: str, flow_run_name: Callable[[], str]
) -> Callable[[Callable[P, R]], InterruptibleFlow[P, R]]:
    """Make an interruptible flow of a function, whose refusals are one line of its log."""
    shorten_refusals()
    return lambda function: InterruptibleFlow(function, name=name, flow_run_name=flow_run_name)


class ThreadRunner(ThreadPoolTaskRunner[Any]):
    """Ends with its flow. After an interruption its threads are abandoned; uncommitted work is computed again."""

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if exc_type is not None and not issubclass(exc_type, Exception):
            interrupt()
            if self._executor is not None:
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = None
        super().__exit__(exc_type, exc_value, traceback)
