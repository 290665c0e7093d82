"""Tracking in an MLflow server.

Repetitions are harmless in MLflow 3: its metrics table is keyed by (run, name, timestamp, step, value), so an equal point is
stored once; a run is found by its tag `troupe.run_id`, a model version by its tags for step and digest.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from components.errors import ConfigurationError
from components.identity import canonical_json
from components.schema import EvalReport, IterationReport
from components.tracking.base import PROCESS_TAG
from components.tracking.metric_points import evaluation_points, iteration_points
from components.tracking.mlflow_server import (
    check_answers,
    is_away,
    mlflow_exception,
    named_errors,
    new_client,
    tolerating,
)
from components.tracking.pages import page_url
from components.tracking.registry import RUN_ID_TAG, STEP_TAG, mark_success, set_champion

MAX_RACES = 8
"""Lost races in a row before that is an error."""
POLICY_TAG = "troupe.policy"
DIGEST_TAG = "troupe.weights_digest"
PARENT_TAG = "troupe.parent_version"
FOLDER_TAG = "troupe.folder_uri"
FILES_TAG = "troupe.files"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Versions:
    """The versions of a registered model: the newest one's number, 0 before any, and the checkpoints by step and digest."""

    newest: int
    checkpoints: frozenset[tuple[str | None, str | None]]

    def with_next(self, step: str, weights_digest: str) -> "_Versions":
        return _Versions(newest=self.newest + 1, checkpoints=self.checkpoints | {(step, weights_digest)})


class MlflowTracker:
    """A Tracker over one MLflow server and one experiment.

    If the server refuses connections, or hangs for REQUEST_TIMEOUT_SECONDS, TrackingUnavailable is raised; for a request that
    it rejects (an invalid name), PermanentError. `account` is entered around all requests: MLflow's client reads credentials
    from the environment at each of them.
    """

    def __init__(
        self,
        url: str,
        experiment: str,
        *,
        register_models: bool,
        account: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"tracking.url {url!r}: give the address of an MLflow server, http(s)://host:port")
        self._url = url.rstrip("/")
        self._experiment = experiment
        self._register_models = register_models
        self._account = account
        self._cached_client: Any = None
        self._cached_experiment_id: str | None = None
        self._mlflow_ids: dict[str, str] = {}
        self._about: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
        self._known: dict[str, _Versions] = {}
        """By model, until another process creates a version of it."""

    def check(self) -> None:
        check_answers(self._url)

    def open_run(self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Find or create the run, and mark it RUNNING.

        MLflow parameters are immutable: if one has another value, the new value becomes a tag `troupe.changed.<name>`.
        """
        self._about[run_id] = (dict(params), dict(tags))
        with self._requests():
            self._mlflow_ids[run_id] = self._opened(run_id)

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        self._log(report.run_id, iteration_points(report), report.step, timestamp_ms)

    def publish_evaluation(self, run_id: str, report: EvalReport, *, timestamp_ms: int) -> None:
        self._log(run_id, evaluation_points(report), report.step, timestamp_ms)
        if self._register_models:
            with self._requests():
                mark_success(self._client(), run_id, report)

    def publish_checkpoint(self, run_id: str, *, policy: str, step: int, weights_digest: str, folder_uri: str) -> None:
        """A version of the registered model `<run_id>.<policy>`; MLflow's alias `latest` is the newest.

        Its source is `folder_uri`. MLflow refuses local folders as sources, so for a local store the source is a run artifact
        that names the folder: loading such a version through MLflow returns that note, not the weights.
        """
        if not self._register_models:
            return
        name = f"{run_id}.{policy}"
        with self._requests():
            known = self._known.pop(name, None) or self._versions_of(name, run_id)
            if (str(step), weights_digest) in known.checkpoints:
                self._without_twins(name, step=step, weights_digest=weights_digest)
                return
            mlflow_id = self._mlflow_id(run_id)
            tags = {RUN_ID_TAG: run_id, POLICY_TAG: policy, STEP_TAG: str(step), DIGEST_TAG: weights_digest}
            if known.newest:
                tags[PARENT_TAG] = str(known.newest)
            source = self._source(mlflow_id, policy, step, folder_uri)
            created = self._client().create_model_version(
                name, source, run_id=mlflow_id, tags=tags | {FOLDER_TAG: folder_uri}, await_creation_for=0
            )
            if int(created.version) == known.newest + 1:
                self._known[name] = known.with_next(str(step), weights_digest)
            else:
                self._without_twins(name, step=step, weights_digest=weights_digest)

    def mark_champion(self, run_id: str, *, step: int) -> int:
        """Give the alias `champion` to the versions of a checkpoint; how many there are."""
        with self._requests():
            return set_champion(self._client(), run_id, step)

    def mark_files(self, run_id: str, *, policy: str, step: int, weights_digest: str, are_there: bool) -> None:
        """Record in a tag and in the description of a version whether its files are still in the store.

        The version itself is not deleted, because later versions name it as their parent.
        """
        if not self._register_models:
            return
        name, files = f"{run_id}.{policy}", "in the store" if are_there else "removed by troupe gc"
        description = "" if are_there else "Its files were removed by `troupe gc`: this version cannot be loaded."
        with self._requests():
            for version in self._versions(name, step=step, weights_digest=weights_digest):
                self._client().set_model_version_tag(name, version.version, FILES_TAG, files)
                self._client().update_model_version(name, version.version, description=description)

    def finish_run(self, run_id: str, *, succeeded: bool) -> None:
        with self._requests():
            self._client().set_terminated(self._mlflow_id(run_id), "FINISHED" if succeeded else "FAILED")

    def remove_run(self, run_id: str) -> list[str]:
        """Delete the run, which MLflow keeps in its trash, and permanently the models registered from it."""
        with self._requests():
            runs = self._runs(run_id)
            for run in runs:
                self._client().delete_run(run.info.run_id)
            models = self._client().search_registered_models(f"tags.`{RUN_ID_TAG}` = '{run_id}'")
            for model in models:
                with tolerating("RESOURCE_DOES_NOT_EXIST"):
                    self._client().delete_registered_model(model.name)
        self._mlflow_ids.pop(run_id, None)
        return [*(f"run {run.info.run_id}" for run in runs), *(f"model {model.name}" for model in models)]

    def mark_killed(self, run_id: str, *, process: str | None) -> bool:
        """Mark the run KILLED if it is RUNNING and `process` opened it last, or an older Troupe. Returns whether it was."""
        with self._requests():
            running = [
                run
                for run in self._runs(run_id)
                if run.info.status == "RUNNING" and run.data.tags.get(PROCESS_TAG) in (None, process)
            ]
            for run in running:
                self._client().set_terminated(run.info.run_id, "KILLED")
            return bool(running)

    def run_url(self, run_id: str) -> str | None:
        """The run's page, or None until this tracker has opened the run. Sends no request."""
        mlflow_id = self._mlflow_ids.get(run_id)
        return mlflow_id and page_url(self._url, f"experiments/{self._cached_experiment_id}/runs/{mlflow_id}")

    @contextmanager
    def _requests(self) -> Iterator[None]:
        with self._account(), named_errors(self._url):
            yield

    def _client(self) -> Any:
        if self._cached_client is None:
            self._cached_client = new_client(self._url)
        return self._cached_client

    def _experiment_id(self) -> str:
        if self._cached_experiment_id is None:
            experiment = self._client().get_experiment_by_name(self._experiment)
            if experiment is None:
                with tolerating("RESOURCE_ALREADY_EXISTS"):
                    self._client().create_experiment(self._experiment)
                experiment = self._client().get_experiment_by_name(self._experiment)
            self._cached_experiment_id = str(experiment.experiment_id)
        return self._cached_experiment_id

    def _runs(self, run_id: str) -> list[Any]:
        """The live MLflow runs of `run_id`, oldest first."""
        found = self._client().search_runs([self._experiment_id()], f"tags.`{RUN_ID_TAG}` = '{run_id}'")
        return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))

    def _mlflow_id(self, run_id: str) -> str:
        if run_id not in self._mlflow_ids:
            self._mlflow_ids[run_id] = self._opened(run_id)
        return self._mlflow_ids[run_id]

    def _opened(self, run_id: str) -> str:
        """The id of the one MLflow run of `run_id`, created if needed, RUNNING, with its parameters.

        MLflow cannot create a run at most once, so concurrent creators make twins. The oldest is kept. A process that sees
        twins deletes them first, so that nothing is added after the copy, and then copies their metrics. If the oldest is
        deleted meanwhile because an even older one has appeared, everything is copied to that one.
        """
        deleted: dict[str, None] = {}
        attempt = 0
        while True:
            attempt += 1
            winner, *twins = self._found_or_created(run_id)
            for twin in twins:
                deleted[twin.info.run_id] = None
                self._client().delete_run(twin.info.run_id)
            try:
                for twin_id in deleted:
                    for name in self._client().get_run(twin_id).data.metrics:
                        history = self._client().get_metric_history(twin_id, name)
                        self._client().log_batch(winner.info.run_id, metrics=history)
                self._describe(winner, *self._about.get(run_id, ({}, {})))
                if winner.info.status != "RUNNING":
                    self._client().update_run(winner.info.run_id, status="RUNNING")
                return str(winner.info.run_id)
            except mlflow_exception() as error:
                if attempt == MAX_RACES or is_away(error):
                    raise
                # A parameter that another process adds at the same moment is a BAD_REQUEST here.
                if error.error_code != "BAD_REQUEST" and self._is_live(winner.info.run_id):
                    raise

    def _found_or_created(self, run_id: str) -> list[Any]:
        runs = self._runs(run_id)
        if not runs:
            _, tags = self._about.get(run_id, ({}, {}))
            self._client().create_run(self._experiment_id(), run_name=run_id, tags={**tags, RUN_ID_TAG: run_id})
            runs = self._runs(run_id)
        return runs

    def _describe(self, run: Any, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        from mlflow.entities import Param, RunTag

        known = run.data.params
        changed = {f"troupe.changed.{k}": v for k, v in params.items() if k in known and known[k] != v}
        new_params = [Param(k, v) for k, v in params.items() if k not in known]
        new_tags = [RunTag(k, v) for k, v in {**tags, **changed}.items() if run.data.tags.get(k) != v]
        if new_params or new_tags:
            self._client().log_batch(run.info.run_id, params=new_params, tags=new_tags)

    def _log(self, run_id: str, points: Mapping[str, float], step: int, timestamp_ms: int) -> None:
        with self._requests():
            from mlflow.entities import Metric

            metrics = [Metric(name, value, timestamp_ms, step) for name, value in points.items()]
            for attempt in range(1, MAX_RACES + 1):
                mlflow_id = self._mlflow_id(run_id)
                try:
                    self._client().log_batch(mlflow_id, metrics=metrics)
                    return
                except mlflow_exception() as error:
                    if attempt == MAX_RACES or is_away(error) or self._is_live(mlflow_id):
                        raise
                    self._mlflow_ids.pop(run_id, None)

    def _is_live(self, mlflow_id: str) -> bool:
        """False for a run that was deleted, by a user or as the loser of a race."""
        try:
            return bool(self._client().get_run(mlflow_id).info.lifecycle_stage == "active")
        except mlflow_exception() as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def _versions(self, name: str, *, step: int, weights_digest: str) -> list[Any]:
        """The model versions of one checkpoint, oldest first; more than one only after a race."""
        tags = f"tags.`{STEP_TAG}` = '{step}' and tags.`{DIGEST_TAG}` = '{weights_digest}'"
        found = self._client().search_model_versions(f"name = '{name}' and {tags}")
        return sorted(found, key=lambda version: int(version.version))

    def _without_twins(self, name: str, *, step: int, weights_digest: str) -> None:
        """Delete all versions of one checkpoint but the oldest."""
        for twin in self._versions(name, step=step, weights_digest=weights_digest)[1:]:
            with tolerating("RESOURCE_DOES_NOT_EXIST"):
                self._client().delete_model_version(name, twin.version)

    def _versions_of(self, name: str, run_id: str) -> _Versions:
        """The versions of the registered model, which is created if needed."""
        found: list[Any] = []
        token = None
        while not found or token:
            page = self._client().search_model_versions(f"name = '{name}'", page_token=token)
            if not page:
                with tolerating("RESOURCE_ALREADY_EXISTS"):
                    self._client().create_registered_model(name, tags={RUN_ID_TAG: run_id})
                break
            found, token = [*found, *page], page.token
        return _Versions(
            newest=max((int(version.version) for version in found), default=0),
            checkpoints=frozenset((version.tags.get(STEP_TAG), version.tags.get(DIGEST_TAG)) for version in found),
        )

    def _source(self, mlflow_id: str, policy: str, step: int, folder_uri: str) -> str:
        if not folder_uri.startswith("file:"):
            return folder_uri
        place = f"checkpoints/{policy}/{step:06d}"
        note = canonical_json({"folder_uri": folder_uri, "policy": policy, "step": step}).decode()
        self._client().log_text(mlflow_id, note, f"{place}/checkpoint.json")
        return f"runs:/{mlflow_id}/{place}"
