"""The error tree. A class says what failed, and whether a retry may help.

    TroupeError
    ├── TransientError     a retry may help: the stage is retried
    │   ├── StoreUnavailable ── StoreGone
    │   └── PrefectUnavailable, TrackingUnavailable, StaleEngine, EngineUnavailable, WorkerDied, SandboxUnavailable,
    │       ExecutionFailed, RetrieverUnavailable, ApiUnavailable, DeadlineExceeded, TooManyUnscorable
    └── PermanentError     a retry will fail again: raised at once
        ├── ConfigurationError (also a ValueError) ── ConfigDrift
        └── ServiceMissing, StoreRefused, ArtifactMissing, ArtifactCorrupt, StageOvertaken, RecordRefuted,
            RetrieverIncompatible, ApiIncompatible, BudgetSpent, MalformedAction, NothingScorable, TooManyFailedEpisodes,
            WarmStartTooWeak, LogprobMismatch, UpdateFailed, NightFailed

To add one: pick the branch by asking whether the same call may succeed in a minute, and keep it picklable (one message).
"""


class TroupeError(Exception):
    """The root of all errors of the pipeline."""


class TransientError(TroupeError):
    """A retry may help."""


class PermanentError(TroupeError):
    """A retry will fail again."""


class StoreUnavailable(TransientError):
    """The artifact store refused the connection, timed out or answered with a server error."""


class StoreGone(StoreUnavailable):
    """The artifact store has not answered for `store.patience_seconds`. Stages do not retry it."""


class PrefectUnavailable(TransientError):
    """The Prefect server has not answered for `resources.prefect_patience_seconds`."""


class TrackingUnavailable(TransientError):
    """The tracking server did not answer."""


class TrackingNotConfigured(TrackingUnavailable):
    """No tracking server is named, so none will answer this process."""


class StaleEngine(TransientError):
    """An engine holds another policy version than the requested one."""


class EngineUnavailable(TransientError):
    """No inference server answers; the message names their addresses and how to start them."""


class WorkerDied(TransientError):
    """A training worker ended before it answered."""


class SandboxUnavailable(TransientError):
    """No box is available: the Docker daemon does not answer, or boxes do not start."""


class ExecutionFailed(TransientError):
    """The sandbox failed at one program. In an episode this is data: the candidate cannot be scored."""


class RetrieverUnavailable(TransientError):
    """The retriever did not answer, or answered with a server error."""


class ApiUnavailable(TransientError):
    """A model's API did not answer, or answered with a rate limit or a server error, after all retries."""


class DeadlineExceeded(TransientError):
    """The programs of a stage exceeded the time limit of the stage; finished ones are recorded."""


class TooManyUnscorable(TransientError):
    """More of a shard's candidates could not be scored than `rewards.max_failed_fraction` allows."""


class ConfigurationError(PermanentError, ValueError):
    """The user asked for something wrong; the message names the field, the value and the remedy."""


class ConfigDrift(ConfigurationError):
    """The run_id exists with another configuration; the message names the fields."""


class ServiceMissing(PermanentError):
    """A required service or program is missing; the message says how to get it."""


class StoreRefused(PermanentError):
    """The store cannot be used: no credentials, no conditional writes, or no space left."""


class ArtifactMissing(PermanentError):
    """A reference points to nothing in the store."""


class ArtifactCorrupt(PermanentError):
    """The bytes behind a reference differ from its digest."""


class StageOvertaken(PermanentError):
    """Another process has committed a different result of a stage first; the message names the record."""


class RecordRefuted(PermanentError):
    """A program of a shard has another result than the shard's record; the message shows both."""


class RetrieverIncompatible(PermanentError):
    """The retriever's response does not follow the protocol of the request; the message shows it."""


class ApiIncompatible(PermanentError):
    """The response of a model's API does not follow the protocol of the request; the message shows it."""


class BudgetSpent(PermanentError):
    """The next request to a model's API would exceed the budget; the message names it."""


class MalformedAction(PermanentError):
    """An agent's answer does not follow its grammar. In an episode this is data, not a failure."""


class NothingScorable(PermanentError):
    """The sandbox failed at every candidate of a node, so the episode ends. In an episode this is data."""


class TooManyFailedEpisodes(PermanentError):
    """More of a shard's episodes failed than `rollout.max_failed_fraction` allows."""


class WarmStartTooWeak(PermanentError):
    """Behaviour cloning ended below min_success: too weak a start for reinforcement learning."""


class NightFailed(PermanentError):
    """A night's evaluation found a run's newest checkpoint worse than its last, or could not play all subjects."""


class LogprobMismatch(PermanentError):
    """Sampler and trainer compute different log-probabilities of the same tokens under the same weights."""


class UpdateFailed(PermanentError):
    """A training worker reported an error; the message contains its traceback."""
