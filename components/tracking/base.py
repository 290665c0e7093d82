"""The tracking border: publishing twice is the same as publishing once."""

from collections.abc import Mapping
from typing import Protocol

from components.schema import EvalReport, IterationReport


class Tracker(Protocol):
    """Publishes what the store already holds. Every verb is idempotent, so an outbox may repeat it after any crash.

    Raises TrackingUnavailable when the service does not answer; the caller keeps the report and tries again later.
    """

    def check(self) -> None:
        """Raise TrackingUnavailable while the service is away, ConfigurationError where it never will take a report from here.

        Both name the address and the remedy.
        """
        ...

    def open_run(self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Make sure that exactly one tracked run exists for `run_id`, with these parameters."""
        ...

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        """Record the metrics of one step. Equal reports at an equal timestamp are recorded once."""
        ...

    def publish_evaluation(self, run_id: str, report: EvalReport, *, timestamp_ms: int) -> None:
        """Record a held-out evaluation at its step."""
        ...

    def publish_checkpoint(self, run_id: str, *, policy: str, step: int, weights_digest: str, folder_uri: str) -> None:
        """Register a checkpoint as a model version with its lineage, once per (run, policy, step, digest)."""
        ...

    def mark_files(self, run_id: str, *, policy: str, step: int, weights_digest: str, are_there: bool) -> None:
        """Say of a checkpoint whether its files are still in the store. Harmless where it is not registered."""
        ...

    def finish_run(self, run_id: str, *, succeeded: bool) -> None:
        """Mark the run's end; a resumed run is opened again by `open_run`."""
        ...

    def remove_run(self, run_id: str) -> list[str]:
        """Remove the run and the models registered from it; what went, in words. Empty when nothing was there."""
        ...

    def run_url(self, run_id: str) -> str | None:
        """Where a person looks at the run, if the service has pages."""
        ...
