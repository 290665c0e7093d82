"""The metrics and rollouts of a run as columns, for data frames."""

from collections.abc import Iterable, Mapping
from typing import Any

from components.runs.history import read_history
from components.runs.session_records import effective_run
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from components.session.prompt_texts import prompt_texts
from troupe.runs.stores import open_named_store
from troupe.viewing.recorded import read_recorded
from troupe.viewing.table import rollout_rows


def load_metrics(run: str, *, store: str | None = None) -> dict[str, list[Any]]:
    """The metrics and timings of a run's finished steps as columns: `step`, then each by its name; None where a step has none.

    `store` is where the run is stored; None: the local services' bucket. Raises ConfigurationError for an unknown run.

    **Example**

    >>> frame = pandas.DataFrame(load_metrics("plan-path"))  # doctest: +SKIP
    >>> frame.plot(x="step", y="rollout/success_rate")  # doctest: +SKIP
    """
    opened = open_named_store(store, run)
    found = effective_run(opened, read_run(opened, run))
    history = read_history(opened, found, first_unfinished_step(opened, found))
    return _columns(
        {"step": each.step, **each.summary.metrics, **each.summary.timings} for each in history.steps if not each.error
    )


def load_rollouts(run: str, *, step: int | None = None, store: str | None = None) -> dict[str, list[Any]]:
    """The rollouts of a step (None: the newest) as columns, a row per candidate: those of `troupe rollouts`.

    Raises ConfigurationError for an unknown run or step.

    **Example**

    >>> frame = pandas.DataFrame(load_rollouts("plan-path", step=3))  # doctest: +SKIP
    >>> frame.groupby("agent")["reward"].mean()  # doctest: +SKIP
    """
    opened = open_named_store(store, run)
    recorded = read_recorded(opened, run, step)
    prompts, _ = prompt_texts(opened, recorded.run, recorded.step, recorded.config.policies)
    return _columns(rollout_rows(recorded, prompts))


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """**Example** rows `{"a": 1}` and `{"a": 2, "b": 3}` are `{"a": [1, 2], "b": [None, 3]}`."""
    listed = list(rows)
    names = dict.fromkeys(name for row in listed for name in row)
    return {name: [row.get(name) for row in listed] for name in names}
