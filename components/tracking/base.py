"""The tracking interface. Publishing twice is the same as publishing once."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from components.frozen import Frozen
from components.identity import fingerprint
from components.schema import EvalReport, IterationReport

PROCESS_TAG = "troupe.process"
"""The tag of a tracked run with the ProcessId that opened it last, on whatever host."""

VIEW_TAG = "troupe.view"
"""The tag of a tracked run, and of a trace, with the command that shows all that was said."""

STARTED_TAG = "troupe.started_ms"
"""The tag of a tracked run with the milliseconds since 1970 at which the session that opened it last began. A new run starts
then, before its warm start, and not when a tracker first hears of it."""

CHANGED_PREFIX = "changed."
"""Before the name of a field, a tag of a tracked run with the value that differs from its preset's."""


class PolicyFiles(Frozen):
    """The weights of one policy: the digest of its tensors and the address of its folder."""

    weights_digest: str
    folder_uri: str


class TeamCheckpoint(Frozen):
    """The policies of a team after `step` updates, without those that could learn and did not in the last one.

    `model` is the line of teams that it belongs to: the run's preset.
    """

    model: str
    step: int
    policies: Mapping[str, PolicyFiles]

    @property
    def digest(self) -> str:
        """The digest of all weights. **Example** two teams that differ in one policy have different ones."""
        return fingerprint({policy: files.weights_digest for policy, files in self.policies.items()})


class ProblemSet(Frozen):
    """A set of problems: equal digests, equal problems. `source` says where they come from."""

    name: str
    digest: str
    purpose: Literal["training", "evaluation"]
    source: Mapping[str, Any]


class TracedSpan(Frozen):
    """A part of an episode: the whole, a turn, an agent's answer or a call of a tool.

    `parent` is the index of the span that it is a part of; None for the whole. Numbers of tokens are those of an answer and its
    prompt, None elsewhere.
    """

    kind: Literal["episode", "turn", "agent", "tool"]
    name: str
    parent: int | None
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    facts: Mapping[str, Any] = {}
    error: str | None = None
    num_prompt_tokens: int | None = None
    num_answer_tokens: int | None = None


class EpisodeTrace(Frozen):
    """What one team said about one problem in a training step: the spans, each after its parent. `key` is unique in the run.

    `view` is the command that shows the whole tree of the episode.
    """

    key: str
    step: int
    view: str = ""
    spans: tuple[TracedSpan, ...]


class Tracker(Protocol):
    """Publishes what the store already holds. Every method is idempotent, so an outbox may repeat it after any crash.

    Raises TrackingUnavailable if the service does not answer; the caller keeps the report and tries again later.
    """

    def check(self) -> None:
        """Raise TrackingUnavailable while the service is away, ConfigurationError if it will never accept a report."""
        ...

    def open_run(
        self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str], problems: Sequence[ProblemSet] = ()
    ) -> None:
        """Ensure that exactly one tracked run exists for `run_id`, with these parameters and problems to train on."""
        ...

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        """Record the metrics of one step. Equal reports at an equal timestamp are recorded once."""
        ...

    def publish_evaluation(self, run_id: str, report: EvalReport, *, model: str, timestamp_ms: int) -> None:
        """Record a held-out evaluation at its step, with the success of each problem, and beside the checkpoint it is of."""
        ...

    def publish_checkpoint(self, run_id: str, checkpoint: TeamCheckpoint) -> None:
        """Register a checkpoint as a version of its model with its lineage, once per (run, step, digest)."""
        ...

    def publish_traces(self, run_id: str, traces: Sequence[EpisodeTrace], *, timestamp_ms: int) -> None:
        """Show episodes in full."""
        ...

    def publish_file(self, run_id: str, name: str, content: bytes) -> None:
        """Show a file under a path of its own, as "episodes/000050-sample.gif"; a later one of this name replaces it."""
        ...

    def mark_files(self, run_id: str, checkpoint: TeamCheckpoint, *, are_there: bool) -> None:
        """Record whether the files of a checkpoint are still in the store. Harmless if it is not registered."""
        ...

    def finish_run(self, run_id: str, *, succeeded: bool, has_news: bool = True) -> None:
        """Mark the run's end; a resumed run is opened again by `open_run`.

        Without news since it was opened, a run that had ended before ends when it did then.
        """
        ...

    def remove_run(self, run_id: str) -> list[str]:
        """Remove the run and what is registered from it. Returns a line for each, none if there was no such run."""
        ...

    def run_url(self, run_id: str) -> str | None:
        """The address of the run's page, or None while it is unknown. Sends no request."""
        ...
