"""The tracking interface. Publishing twice is the same as publishing once."""

from collections.abc import Mapping
from typing import Protocol

from components.schema import EvalReport, IterationReport

PROCESS_TAG = "troupe.process"
"""The tag of a tracked run with the ProcessId that opened it last, on whatever host."""


class Tracker(Protocol):
    """Publishes what the store already holds. Every method is idempotent, so an outbox may repeat it after any crash.

    Raises TrackingUnavailable if the service does not answer; the caller keeps the report and tries again later.
    """

    def check(self) -> None:
        """Raise TrackingUnavailable while the service is away, ConfigurationError if it will never accept a report."""
        ...

    def open_run(self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Ensure that exactly one tracked run exists for `run_id`, with these parameters."""
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

    def mark_champion(self, run_id: str, *, step: int) -> int:
        """Mark the checkpoint after `step` updates as the champion of its model; how many versions there are of it."""
        ...

    def mark_files(self, run_id: str, *, policy: str, step: int, weights_digest: str, are_there: bool) -> None:
        """Record whether the files of a checkpoint are still in the store. Harmless if it is not registered."""
        ...

    def finish_run(self, run_id: str, *, succeeded: bool) -> None:
        """Mark the run's end; a resumed run is opened again by `open_run`."""
        ...

    def remove_run(self, run_id: str) -> list[str]:
        """Remove the run and the models registered from it. Returns a line for each, none if there was no such run."""
        ...

    def run_url(self, run_id: str) -> str | None:
        """The address of the run's page, or None while it is unknown. Sends no request."""
        ...
