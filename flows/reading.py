"""What the store says of runs, as plain JSON documents."""

from collections.abc import Iterator
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef, StageManifest
from components.artifacts.runs import list_runs, read_lineages
from components.config import RunConfig
from components.errors import ConfigurationError
from components.identity import config_key
from tasks.run import Run
from tasks.sessions import run_state, session_records
from tasks.steps import finished_step, first_unfinished_step, step_manifests


def run_rows(store: ArtifactStore) -> list[dict[str, Any]]:
    """`[{run_id, preset, state, step, started_at}]`, newest first. `step` counts finished steps."""
    rows = [_row(store, run_id) for run_id in list_runs(store)]
    return sorted(rows, key=lambda row: str(row["started_at"]), reverse=True)


def read_run(store: ArtifactStore, run_id: str) -> Run:
    """The run under its newest configuration. Raises ConfigurationError when there is none of this name."""
    content = store.read(config_key(run_id))
    if content is None:
        known = ", ".join(list(list_runs(store))[:8]) or "none yet"
        raise ConfigurationError(f"run {run_id!r} is not in {store.uri}; runs there: {known}")
    lineages = read_lineages(store, run_id)
    config = lineages[-1].config if lineages else RunConfig.model_validate_json(content)
    return Run(run_id=run_id, config=config, lineages=tuple(lineages))


def run_document(store: ArtifactStore, run_id: str) -> dict[str, Any]:
    """`{run_id, preset, state, steps: [...], evaluations: [...]}` of one run, read from its commits alone."""
    run = read_run(store, run_id)
    num_finished = first_unfinished_step(store, run)
    state = run_state(store, run, num_finished)
    return {
        "run_id": run_id,
        "preset": run.config.preset,
        "specialisation": run.config.specialisation,
        "state": state.name,
        "error": state.error,
        "num_steps": state.num_steps,
        "store": store.uri,
        "lineages": [{"from_step": each.from_step, "from_stage": each.from_stage} for each in run.lineages],
        "steps": [_step_document(store, run, step) for step in range(num_finished)],
        "evaluations": list(_evaluations(store, run, num_finished)),
    }


def _row(store: ArtifactStore, run_id: str) -> dict[str, Any]:
    run = read_run(store, run_id)
    num_finished = first_unfinished_step(store, run)
    records = session_records(store, run_id)
    return {
        "run_id": run_id,
        "preset": run.config.preset,
        "state": run_state(store, run, num_finished).name,
        "step": num_finished,
        "started_at": records[0].started_at if records else None,
    }


def _step_document(store: ArtifactStore, run: Run, step: int) -> dict[str, Any]:
    manifests = step_manifests(store, run, step)
    report: dict[str, Any] = next((m.output for m in manifests if m.stage == "publish_checkpoint"), {})
    attempts: dict[str, int] = {}
    for manifest in manifests:
        if manifest.stage != "evaluate_policy":
            # Of the part that took most: two shards, each done at once, are no second attempt.
            attempts[manifest.stage] = max(attempts.get(manifest.stage, 0), _num_attempts(store, manifest))
    checkpoints: dict[str, CheckpointRef] = finished_step(store, run, step) or {}
    return {
        "step": step,
        "metrics": report.get("metrics", {}),
        "timings": report.get("timings", {}),
        "attempts": attempts,
        "checkpoint_digest": {name: ref.weights_digest for name, ref in checkpoints.items()},
        "optimizer_digest": {name: ref.optimizer_digest for name, ref in checkpoints.items()},
        "checkpoint_uri": {name: store.folder_uri(ref.folder) for name, ref in checkpoints.items()},
    }


def _evaluations(store: ArtifactStore, run: Run, num_finished: int) -> Iterator[dict[str, Any]]:
    """The reports in the order of their steps. An evaluation at step k is of the policies after k updates."""
    for step in range(num_finished + 1):
        found = [each.output for each in step_manifests(store, run, step) if each.stage == "evaluate_policy"]
        for report in sorted(found, key=lambda report: str(report["sampling"]), reverse=True):  # sample, then greedy
            yield {**report, "interval": list(report["interval"])}


def _num_attempts(store: ArtifactStore, manifest: StageManifest) -> int:
    return max(1, sum(1 for _ in store.list(f"{manifest.key}/attempts/")))
