"""Tracking in an MLflow server: a run, the versions of its team, and traces of its episodes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from components.identity import canonical_json
from components.metrics import PAYOFF, evaluation
from components.schema import EvalReport, IterationReport
from components.tracking.base import EpisodeTrace, ProblemSet, TeamCheckpoint
from components.tracking.metric_points import read_evaluation_points, read_evaluation_rows, read_iteration_points
from components.tracking.mlflow_registry import MlflowRegistry
from components.tracking.mlflow_runs import About, MlflowRuns
from components.tracking.mlflow_server import MlflowServer, check_answers
from components.tracking.mlflow_traces import MlflowTraces
from components.tracking.pages import page_url


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
        self.server = MlflowServer(url, account=account)
        self.registry = MlflowRegistry(self.server)
        self._runs = MlflowRuns(self.server, experiment)
        self._traces = MlflowTraces(self.server)
        self._register_models = register_models

    def check(self) -> None:
        check_answers(self.server.url)

    def open_run(
        self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str], problems: Sequence[ProblemSet] = ()
    ) -> None:
        """Find or create the run, and mark it RUNNING.

        MLflow parameters are immutable: if one has another value, the new value becomes a tag `troupe.changed.<name>`.
        """
        with self.server.requests():
            self._runs.open(run_id, About(params=dict(params), tags=dict(tags), problems=tuple(problems)))

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        with self.server.requests():
            self._runs.log(report.run_id, read_iteration_points(report), report.step, timestamp_ms)

    def publish_evaluation(self, run_id: str, report: EvalReport, *, model: str, timestamp_ms: int) -> None:
        """Metrics, a table of the problems, the problem set, and tags and alias of the evaluated version.

        The experiment's charts open on the success of the evaluation that is published first, in a game in which several
        agents have payoffs on that of the first. The list of runs shows both.
        """
        points = read_evaluation_points(report)
        name = f"evaluations/{report.step:06d}-{report.suite.replace('/', '-')}-{report.sampling}.json"
        played = ProblemSet(
            name=report.suite, digest=report.suite_digest, purpose="evaluation", source={"num_problems": report.n}
        )
        with self.server.requests():
            self._runs.log(run_id, points, report.step, timestamp_ms)
            self._runs.log_table(run_id, read_evaluation_rows(report), name)
            self._runs.log_problems(self._runs.mlflow_id(run_id), [played])
            paid = [name for name in points if name.endswith(PAYOFF)]
            success = evaluation(report.sampling, "success_rate")
            shown = [*paid, success] if len(paid) > 1 else [success]
            self._runs.show_first(shown[0])
            self._runs.show_columns(run_id, shown)
            if self._register_models:
                self.registry.score(run_id, model, report)

    def publish_checkpoint(self, run_id: str, checkpoint: TeamCheckpoint) -> None:
        """A version of the registered model.

        Its source is the folder of its one policy in a store that MLflow can read. With several policies, or a local store,
        which MLflow refuses as a source, it is a run artifact that names the folders: loading such a version through MLflow
        returns that note, not the weights.
        """
        if not self._register_models:
            return
        with self.server.requests():
            mlflow_id = self._runs.mlflow_id(run_id)
            self.registry.register(
                run_id, checkpoint, mlflow_id=mlflow_id, source=lambda team: self._source(mlflow_id, team)
            )

    def publish_traces(self, run_id: str, traces: Sequence[EpisodeTrace], *, timestamp_ms: int) -> None:
        with self.server.requests():
            mlflow_id = self._runs.mlflow_id(run_id)
            self._traces.log(run_id, mlflow_id, self._runs.experiment_id(), traces, timestamp_ms)

    def publish_file(self, run_id: str, name: str, content: bytes) -> None:
        with self.server.requests():
            self._runs.log_file(run_id, name, content)

    def mark_files(self, run_id: str, checkpoint: TeamCheckpoint, *, are_there: bool) -> None:
        if self._register_models:
            with self.server.requests():
                self.registry.mark_files(run_id, checkpoint, are_there=are_there)

    def finish_run(self, run_id: str, *, succeeded: bool, has_news: bool = True) -> None:
        with self.server.requests():
            self._runs.finish(run_id, succeeded=succeeded, has_news=has_news)

    def remove_run(self, run_id: str) -> list[str]:
        """Delete the run, which MLflow keeps in its trash, and permanently its traces and the versions registered from it."""
        with self.server.requests():
            removed = self._runs.remove(run_id)
            num_traces = self._traces.remove(run_id, self._runs.experiment_id()) if removed else 0
            models = self.registry.remove(run_id)
        traces = [f"{num_traces} traces"] if num_traces else []
        return [*(f"run {mlflow_id}" for mlflow_id in removed), *models, *traces]

    def mark_killed(self, run_id: str, *, process: str | None) -> bool:
        """Mark the run KILLED if it is RUNNING and `process` opened it last, or an older Troupe. Returns whether it was."""
        with self.server.requests():
            return self._runs.kill(run_id, process=process)

    def run_url(self, run_id: str) -> str | None:
        """The run's page, or None until this tracker has opened the run. Sends no request."""
        mlflow_id = self._runs.mlflow_ids.get(run_id)
        return mlflow_id and page_url(self.server.url, f"experiments/{self._runs.experiment_id()}/runs/{mlflow_id}")

    def _source(self, mlflow_id: str, checkpoint: TeamCheckpoint) -> str:
        folders = [files.folder_uri for files in checkpoint.policies.values()]
        if len(folders) == 1 and not folders[0].startswith("file:"):
            return folders[0]
        place = f"checkpoints/{checkpoint.step:06d}"
        note = canonical_json(checkpoint.model_dump(mode="json")).decode()
        self.server.client.log_text(mlflow_id, note, f"{place}/checkpoint.json")
        return f"runs:/{mlflow_id}/{place}"
