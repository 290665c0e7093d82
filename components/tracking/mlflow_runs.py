"""The runs of one MLflow experiment, found by their tag `troupe.run_id`.

Repetitions are harmless in MLflow 3: its metrics table is keyed by (run, name, timestamp, step, value), so an equal point is
stored once, and so is an equal dataset.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from components.identity import canonical_json
from components.machine.scratch import scratch_folder
from components.tracking.base import CHANGED_PREFIX, PROCESS_TAG, STARTED_TAG, VIEW_TAG, ProblemSet
from components.tracking.mlflow_server import MlflowServer, is_away, mlflow_exception, tolerating
from components.tracking.pages import LIST_VIEW

MAX_RACES = 8
"""Lost races in a row before that is an error."""
RUN_ID_TAG = "troupe.run_id"
_NOTE_TAG = "mlflow.note.content"
_PRIMARY_METRIC_TAG = "mlflow.experiment.primaryMetric.name"
"""MLflow's pages show the charts of this metric first."""
_LIST_TAG = f"mlflow.sharedViewState.{LIST_VIEW}"
"""What the list of runs shows where the address has `viewStateShareKey` with this name."""
_MOST_COLUMNS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What describes a run."""

    params: Mapping[str, str]
    tags: Mapping[str, str]
    problems: Sequence[ProblemSet] = ()


class MlflowRuns:
    """Finds, creates and describes runs. Its methods are called within `server.requests()`."""

    def __init__(self, server: MlflowServer, experiment: str) -> None:
        self._server = server
        self._experiment = experiment
        self._cached_experiment_id: str | None = None
        self._primary_metric: str | None = None
        self._columns: set[str] = set()
        self._about: dict[str, About] = {}
        self._ended_ms: dict[str, int] = {}
        """When a run had ended before it was opened here."""
        self.mlflow_ids: dict[str, str] = {}
        """By run_id: those that were opened."""

    def open(self, run_id: str, about: About) -> None:
        """Find or create the run, and mark it RUNNING."""
        self._about[run_id] = about
        self.mlflow_ids[run_id] = self._open(run_id)

    def mlflow_id(self, run_id: str) -> str:
        """The id of the one MLflow run of `run_id`, which is opened if needed."""
        if run_id not in self.mlflow_ids:
            self.mlflow_ids[run_id] = self._open(run_id)
        return self.mlflow_ids[run_id]

    def log(self, run_id: str, points: Mapping[str, float], step: int, timestamp_ms: int) -> None:
        """Record values of metrics."""
        from mlflow.entities import Metric

        metrics = [Metric(name, value, timestamp_ms, step) for name, value in points.items()]
        for attempt in range(1, MAX_RACES + 1):
            mlflow_id = self.mlflow_id(run_id)
            try:
                self._client.log_batch(mlflow_id, metrics=metrics)
                return
            except mlflow_exception() as error:
                if attempt == MAX_RACES or is_away(error) or self._is_live(mlflow_id):
                    raise
                self.mlflow_ids.pop(run_id, None)

    def log_problems(self, mlflow_id: str, problems: Sequence[ProblemSet]) -> None:
        """Record what is trained on or evaluated on, as MLflow's datasets."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(
                    each.name, each.digest, source_type="troupe", source=canonical_json(dict(each.source)).decode()
                ),
                tags=[InputTag("mlflow.data.context", each.purpose)],
            )
            for each in problems
        ]
        if inputs:
            self._client.log_inputs(mlflow_id, inputs)

    def log_table(self, run_id: str, columns: Mapping[str, Sequence[object]], file: str) -> None:
        """Store a table as a run artifact, in the form of MLflow's own tables."""
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        self._client.log_text(
            self.mlflow_id(run_id), canonical_json({"columns": list(columns), "data": rows}).decode(), file
        )

    def log_file(self, run_id: str, name: str, content: bytes) -> None:
        """Store a run artifact."""
        path = PurePosixPath(name)
        with TemporaryDirectory(prefix="file-", dir=scratch_folder()) as folder:
            file = Path(folder) / path.name
            file.write_bytes(content)
            self._client.log_artifact(self.mlflow_id(run_id), str(file), str(path.parent))

    def show_first(self, metric: str) -> None:
        """Let the experiment's charts open on `metric`, unless another one is chosen there."""
        if self._primary_metric is not None:
            return
        experiment = self._client.get_experiment(self.experiment_id())
        self._primary_metric = experiment.tags.get(_PRIMARY_METRIC_TAG)
        if self._primary_metric is None:
            self._client.set_experiment_tag(self.experiment_id(), _PRIMARY_METRIC_TAG, metric)
            self._client.set_experiment_tag(
                self.experiment_id(), "mlflow.experiment.primaryMetric.greaterIsBetter", "True"
            )
            self._primary_metric = metric

    def show_columns(self, run_id: str, metrics: Sequence[str]) -> None:
        """Let the list of runs, as `pages.list_url` opens it, show `metrics`, and in what the run differs from its preset."""
        tags = self._about[run_id].tags if run_id in self._about else {}
        wanted = [f"metrics.`{name}`" for name in metrics]
        wanted += [f"tags.`{name}`" for name in tags if name.startswith(CHANGED_PREFIX)]
        if self._columns.issuperset(wanted):
            return
        known = self._client.get_experiment(self.experiment_id()).tags.get(_LIST_TAG)
        shown = json.loads(known)["selectedColumns"] if known else []
        columns = list(dict.fromkeys([*shown, *wanted]))[:_MOST_COLUMNS]
        self._client.set_experiment_tag(
            self.experiment_id(), _LIST_TAG, canonical_json({"selectedColumns": columns}).decode()
        )
        self._columns |= {*columns, *wanted}

    def finish(self, run_id: str, *, succeeded: bool, has_news: bool) -> None:
        """Mark the run's end."""
        mlflow_id = self.mlflow_id(run_id)
        end_time = None if has_news else self._ended_ms.get(run_id)
        self._client.set_terminated(mlflow_id, "FINISHED" if succeeded else "FAILED", end_time=end_time)

    def kill(self, run_id: str, *, process: str | None) -> bool:
        """Mark the run KILLED if it is RUNNING and `process` opened it last, or an older Troupe. Returns whether it was."""
        running = [
            run
            for run in self.existing(run_id)
            if run.info.status == "RUNNING" and run.data.tags.get(PROCESS_TAG) in (None, process)
        ]
        for run in running:
            self._client.set_terminated(run.info.run_id, "KILLED")
        return bool(running)

    def existing(self, run_id: str) -> list[Any]:
        """The live MLflow runs of `run_id`, oldest first; none without the experiment."""
        return self._find(run_id) if self._read_experiment_id() is not None else []

    def remove(self, run_id: str) -> list[str]:
        """Move the run to MLflow's trash; the ids of what was moved."""
        removed = [str(run.info.run_id) for run in self.existing(run_id)]
        for mlflow_id in removed:
            self._client.delete_run(mlflow_id)
        self.mlflow_ids.pop(run_id, None)
        return removed

    def experiment_id(self) -> str:
        """The id of the experiment, which is created if needed."""
        found = self._read_experiment_id()
        if found is None:
            with tolerating("RESOURCE_ALREADY_EXISTS"):
                self._client.create_experiment(self._experiment)
            found = self._read_experiment_id()
            assert found is not None, f"MLflow has created the experiment {self._experiment!r} and does not find it"
        return found

    @property
    def _client(self) -> Any:
        return self._server.client

    def _read_experiment_id(self) -> str | None:
        if self._cached_experiment_id is None:
            experiment = self._client.get_experiment_by_name(self._experiment)
            self._cached_experiment_id = None if experiment is None else str(experiment.experiment_id)
        return self._cached_experiment_id

    def _find(self, run_id: str) -> list[Any]:
        found = self._client.search_runs([self.experiment_id()], f"tags.`{RUN_ID_TAG}` = '{run_id}'")
        return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))

    def _open(self, run_id: str) -> str:
        """The id of the one MLflow run of `run_id`, created if needed, RUNNING, with its parameters.

        MLflow cannot create a run at most once, so concurrent creators make twins. The oldest is kept. A process that sees
        twins deletes them first, so that nothing is added after the copy, and then copies their metrics. If the oldest is
        deleted meanwhile because an even older one has appeared, everything is copied to that one.
        """
        deleted: dict[str, None] = {}
        attempt = 0
        while True:
            attempt += 1
            winner, *twins = self._find_or_create(run_id)
            for twin in twins:
                deleted[twin.info.run_id] = None
                self._client.delete_run(twin.info.run_id)
            try:
                for twin_id in deleted:
                    for name in self._client.get_run(twin_id).data.metrics:
                        history = self._client.get_metric_history(twin_id, name)
                        self._client.log_batch(winner.info.run_id, metrics=history)
                self._describe(winner, self._about.get(run_id, About(params={}, tags={})))
                self._mark_running(run_id, winner.info)
                return str(winner.info.run_id)
            except mlflow_exception() as error:
                if attempt == MAX_RACES or is_away(error):
                    raise
                # A parameter that another process adds at the same moment is a BAD_REQUEST here.
                if error.error_code != "BAD_REQUEST" and self._is_live(winner.info.run_id):
                    raise

    def _find_or_create(self, run_id: str) -> list[Any]:
        runs = self._find(run_id)
        if not runs:
            tags = self._about[run_id].tags if run_id in self._about else {}
            tags = {**tags, **_description(tags), RUN_ID_TAG: run_id}
            started = int(tags[STARTED_TAG]) if STARTED_TAG in tags else None
            self._client.create_run(self.experiment_id(), run_name=run_id, tags=tags, start_time=started)
            runs = self._find(run_id)
        return runs

    def _mark_running(self, run_id: str, info: Any) -> None:
        if info.end_time:
            self._ended_ms[run_id] = info.end_time
        if info.status != "RUNNING":
            self._client.update_run(info.run_id, status="RUNNING")

    def _describe(self, run: Any, about: About) -> None:
        from mlflow.entities import Param, RunTag

        known = run.data.params
        changed = {f"troupe.changed.{k}": v for k, v in about.params.items() if k in known and known[k] != v}
        new_params = [Param(k, v) for k, v in about.params.items() if k not in known]
        new_tags = [RunTag(k, v) for k, v in {**about.tags, **changed}.items() if run.data.tags.get(k) != v]
        if new_params or new_tags:
            self._client.log_batch(run.info.run_id, params=new_params, tags=new_tags)
        self.log_problems(run.info.run_id, about.problems)

    def _is_live(self, mlflow_id: str) -> bool:
        """False for a run that was deleted, by a user or as the loser of a race."""
        try:
            return bool(self._client.get_run(mlflow_id).info.lifecycle_stage == "active")
        except mlflow_exception() as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise


def _description(tags: Mapping[str, str]) -> dict[str, str]:
    """The text at the top of a new run's page, which users may change."""
    if VIEW_TAG not in tags:
        return {}
    text = f"`{tags[VIEW_TAG]}` shows what each agent saw and wrote; add `--step N` for an earlier step."
    return {_NOTE_TAG: text}
