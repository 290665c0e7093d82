"""Flow runs of iterations, created ahead and reported by a thread, so that no iteration waits for Prefect's server.

By default Prefect makes ten requests per iteration: to create the flow run, name it, start it, read it, and end it. Here the
next flow run is created while a policy is updated, and a thread reports state changes in order. Only success is reported
this way: an iteration that fails, is cancelled or is retried uses Prefect's own path.

This module and `interruptible_flow` are the only ones that use undocumented parts of Prefect: here `FlowRunEngine` with the
methods overridden, `_flow_run_name_set`, `load_subflow_run`, `return_value_to_state_sync`, and the mark
`_is_subflow_tracking_task` of the task run that represents a child in its parent. `test_iteration_runs.py` lists the Prefect
versions for which they were checked.
"""

import copy
import inspect
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import httpx
from prefect import Task
from prefect._internal.states import return_value_to_state_sync
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateDetails
from prefect.context import FlowRunContext, SyncClientContext, TagsContext
from prefect.exceptions import PrefectException
from prefect.flows import Flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.states import Completed, Pending
from prefect.utilities.annotations import NotSet
from prefect.utilities.asyncutils import run_coro_as_sync
from prefect.utilities.engine import link_state_to_flow_run_result, link_state_to_task_run_result, propose_state_sync

from components.errors import TroupeError
from components.machine.background import BackgroundWorker
from components.machine.outages import interrupt
from flows.prefect_runtime.interruptible_flow import InterruptibleEngine

_log = logging.getLogger(__name__)
T = TypeVar("T")
_SHUTDOWN_GRACE_SECONDS = 10.0
"""How long the end of an interrupted run waits for pending reports."""


@contextmanager
def iteration_runs(iteration: Flow[..., T]) -> Iterator[Callable[..., T]]:
    """A function that runs `iteration` as a child of the current flow run. Everything is reported when the block ends.

    The last argument of an iteration is the result of the one before. Raises PrefectUnavailable, from the next iteration or
    at the end of the block, if reporting fails.
    """
    runs = _IterationRuns(iteration)
    token = _current.set(runs)
    try:
        # The parent's heartbeat shows that the process lives. A child's comes from a thread that sleeps in whole seconds and is
        # joined at the child's end, which costs half a second per iteration.
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield runs.run
        runs.behind.raise_errors()
    except Exception:
        runs.behind.wait()
        raise
    except BaseException:
        interrupt()
        runs.behind.wait(_SHUTDOWN_GRACE_SECONDS)
        raise
    finally:
        _current.reset(token)
        runs.drop()
        runs.behind.close()


def create_next_run(*arguments: Any) -> None:
    """Create the next iteration's flow run in the background. Its last argument is a placeholder for this one's result."""
    runs = _current.get()
    if runs is not None:
        runs.make(*arguments)


def in_background(work: Callable[[], object]) -> None:
    """Do `work`, a call to Prefect, in the background; immediately outside `iteration_runs`."""
    runs = _current.get()
    if runs is None:
        work()
    else:
        runs.behind.submit(work)


class _IterationRuns:
    """The children of one flow run; at most one is created ahead."""

    def __init__(self, iteration: Flow[..., Any]) -> None:
        self.behind = BackgroundWorker("prefect")
        self._iteration = iteration
        self._parent: Context = copy_context()
        self._newest: _IterationEngine | None = None
        self._ahead: Future[_IterationEngine] | None = None

    def run(self, *arguments: Any) -> Any:
        """Run one iteration and return its result."""
        if self._ahead is None:
            self.make(*arguments)
        assert self._ahead is not None
        engine, self._ahead = self._ahead.result(), None
        self._newest = engine
        engine.parameters = self._name_arguments(arguments)
        with engine.start():
            while engine.is_running():
                with engine.run_context():
                    engine.call_flow_fn()
        return engine.result()

    def make(self, *arguments: Any) -> None:
        """Create an iteration's flow run in the background."""
        engine = _IterationEngine(flow=self._iteration, parameters=self._name_arguments(arguments), behind=self.behind)
        before = self._newest.flow_run if self._newest is not None else None
        self._ahead = self.behind.submit(lambda: self._parent.copy().run(engine.made, before))

    def drop(self) -> None:
        """Delete the flow run that was created and is not needed."""
        if self._ahead is None or not self._ahead.done() or self._ahead.exception() is not None:
            return
        try:
            self._ahead.result().discard()
        except (httpx.HTTPError, PrefectException, TroupeError) as error:
            _log.warning("a flow run created ahead stays pending: %s", error)

    def _name_arguments(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        return dict(inspect.signature(self._iteration.fn).bind(*arguments).arguments)


_current: ContextVar[_IterationRuns | None] = ContextVar("iteration_runs", default=None)


@dataclass
class _IterationEngine(InterruptibleEngine):
    """Prefect's engine for a flow run that exists already; success is reported in the background."""

    behind: BackgroundWorker | None = None
    made_run: FlowRun | None = None
    is_new: bool = False
    """Whether the flow run was created here; one from an earlier attempt uses Prefect's own path."""

    def made(self, before: FlowRun | None) -> "_IterationEngine":
        """The engine with its flow run, created as Prefect's `create_flow_run` does, as the child after `before`."""
        client, context, parameters = _client(), FlowRunContext.get(), self.parameters or {}
        assert context is not None, "iterations run inside a flow run"
        result = list(parameters.values())[-1]
        if before is not None:
            _link_result(before, result)
        place = Task(name=self.flow.name, fn=self.flow.fn, version=self.flow.version)
        place._is_subflow_tracking_task = True  # type: ignore[attr-defined]
        task_run = run_coro_as_sync(
            place.create_run(client=_Opened(client), flow_run_context=context, parameters=parameters)  # type: ignore[arg-type]
        )
        assert task_run is not None
        if before is not None:
            context.run_results.pop(id(result), None)  # its address may be reused
        parent = context.flow_run
        assert parent is not None
        is_repeated = parent.run_count > 1
        found = self.load_subflow_run(task_run, client, context) if is_repeated else None
        once = _creating_once(client, key=f"{task_run.id} {parent.run_count}")
        self.made_run = found or once.create_flow_run(
            flow=self.flow,
            name=str(self.flow.flow_run_name).format(**parameters),
            parameters=self.flow.serialize_parameters(parameters),
            state=Pending(),
            parent_task_run_id=task_run.id,
            tags=TagsContext.get().current_tags,
        )
        self.is_new = self._flow_run_name_set = found is None
        return self

    def discard(self) -> None:
        """Delete the flow run if it was created here."""
        if self.is_new and self.made_run is not None:
            client = _client()
            client.delete_flow_run(self.made_run.id)
            assert self.made_run.parent_task_run_id is not None
            client.delete_task_run(self.made_run.parent_task_run_id)

    def create_flow_run(self, client: SyncPrefectClient) -> FlowRun:
        """The flow run created for this engine."""
        assert self.made_run is not None
        return self.made_run

    def set_state(self, state: State[Any], force: bool = False) -> State[Any]:
        """`state`, reported in the background if a new run starts or succeeds; else Prefect's answer, after pending reports."""
        assert self.behind is not None
        assert self.flow_run is not None
        if not self.is_new or force or not (state.is_running() or state.is_completed()):
            self.behind.wait(_SHUTDOWN_GRACE_SECONDS if force else None)
            self.is_new = False
            return super().set_state(state, force)
        state.state_details.flow_run_id = self.flow_run.id
        self.flow_run.state, self.flow_run.state_name, self.flow_run.state_type = state, state.name, state.type
        self.flow_run.run_count += state.is_running()
        self._telemetry.update_state(state)
        self.call_hooks(state)
        self.behind.submit(partial(self._tell, self.client, self.flow_run.id, state.model_copy(deep=False)))
        return state

    def handle_success(self, result: Any) -> Any:
        """Prefect's own, without a round trip through its event loop."""
        context = FlowRunContext.get()
        if not self.is_new or context is None:
            return super().handle_success(result)
        state: State[Any] = return_value_to_state_sync(result, context.result_store)
        self.set_state(state)
        self._return_value = result
        link_state_to_flow_run_result(state, result)
        self._telemetry.end_span_on_success()
        return result

    def result(self, raise_on_failure: bool = True) -> Any:
        """Prefect's own, linked to the flow run in a way that Prefect's pages can show."""
        value = super().result(raise_on_failure)
        if self._return_value is not NotSet and self.flow_run is not None:
            _link_result(self.flow_run, value)
        return value

    @contextmanager
    def setup_run_context(self, client: SyncPrefectClient | None = None) -> Iterator[None]:
        """Prefect's own, without reading a new run back from the server."""
        client = client or self.client
        if self.is_new:
            client = copy.copy(client)
            client.read_flow_run = lambda flow_run_id: self.flow_run  # type: ignore[method-assign,assignment,return-value]
        with super().setup_run_context(client):
            yield

    def _tell(self, client: SyncPrefectClient, flow_run_id: Any, state: State[Any]) -> None:
        if state.is_running():
            parameters = self.flow.serialize_parameters(self.parameters or {})
            client.update_flow_run(flow_run_id, parameters=parameters)
        propose_state_sync(client, state, flow_run_id=flow_run_id)


def _link_result(flow_run: FlowRun, result: Any) -> None:
    """Let Prefect's graph draw an edge from a flow run to the runs that take its result.

    The input is declared as that of a task run, with the flow run's id: the pages of Prefect cannot read inputs of the kind
    `flow_run`, and list no task runs at all of a flow run that has one.
    """
    link_state_to_task_run_result(Completed(state_details=StateDetails(task_run_id=flow_run.id)), result)


def _creating_once(client: SyncPrefectClient, *, key: str) -> SyncPrefectClient:
    """`client`, whose requests for a flow run all make the same one.

    When a slow server's answer is not waited for, Prefect's client asks again, and a second run would end as crashed.
    """

    def request(method: Any, path: Any, **options: Any) -> httpx.Response:
        if (method, path) == ("POST", "/flow_runs/"):
            options["json"] = {**options["json"], "idempotency_key": key}
        return client.request(method, path, **options)

    once = copy.copy(client)
    once.request = request  # type: ignore[method-assign,assignment]
    return once


class _Opened:
    """The flow run's open client; Prefect would open one per call."""

    def __init__(self, client: SyncPrefectClient) -> None:
        self.create_task_run = client.create_task_run

    async def __aenter__(self) -> "_Opened":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None


def _client() -> SyncPrefectClient:
    context = SyncClientContext.get()
    assert context is not None, "no flow run is being worked on in this context"
    return context.client
