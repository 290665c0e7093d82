"""What a test orders of the tiny preset, and what must come out whatever happened on the way."""

from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from troupe.runs.documents import run_document

SHORT = (
    "warm_start={min_success: 0.0, max_success: 1.0, max_steps: 20, check_every: 20, num_check_problems: 8}",
    "evaluation={num_problems: 8, problems_per_block: 4}",
)
"""What makes the tiny preset shorter still."""


def order(
    root: Path, run_id: str, *, preset: str = "tiny", overrides: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """A training of a preset, its store in `root` unless `overrides` say otherwise."""
    local = ("store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none")
    changes = [*local, *(SHORT if preset == "tiny" else ()), *overrides]
    return {"run_id": run_id, "preset": preset, "overrides": changes, "summary": str(root / f"{run_id}.json"), **more}


def outcome(store: ArtifactStore, run_id: str) -> dict[str, Any]:
    """All that must not depend on interruptions: digests, metrics and evaluations, no wall times."""
    document = run_document(store, run_id)
    kept = ("step", "metrics", "checkpoint_digest", "optimizer_digest")
    return {
        "state": document["state"],
        "steps": [{name: step[name] for name in kept} for step in document["steps"]],
        "evaluations": [_timeless(each) for each in document["evaluations"]],
    }


def _timeless(evaluation: dict[str, Any]) -> dict[str, Any]:
    """An evaluation without the run's name and seconds."""
    metrics = {name: value for name, value in evaluation["metrics"].items() if not name.endswith("/seconds")}
    return {**evaluation, "agent": evaluation["agent"].partition("@")[2], "metrics": metrics}
