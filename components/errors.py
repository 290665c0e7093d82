"""The error tree. A class says what failed and whether a second attempt may cure it.

    TroupeError
    ├── TransientError              a second attempt may cure it: the stage is retried
    │   ├── StoreUnavailable        the artifact store refused, timed out or answered 5xx
    │   │   └── StoreGone           and so for as long as the configuration waits: no stage is retried
    │   ├── PrefectUnavailable      the Prefect server did not answer for as long as the configuration waits
    │   ├── TrackingUnavailable     the tracking server did not answer
    │   ├── StaleEngine             an engine holds another policy version than the one asked for
    │   ├── EngineUnavailable       no inference server is left that answers
    │   ├── WorkerDied              a training worker ended before it answered
    │   ├── SandboxUnavailable      no box can be had: the daemon does not answer, or boxes do not start
    │   ├── ExecutionFailed         the sandbox failed at one program, which says nothing about the program
    │   ├── RetrieverUnavailable    the retriever did not answer, or answered with a server error
    │   ├── ApiUnavailable          a model's API did not answer, or was over its limits, after all retries
    │   ├── DeadlineExceeded        a stage's programs took longer than the stage may
    │   └── TooManyUnscorable       more of a shard could not be scored than the configuration allows
    └── PermanentError              it will fail again: raised at once
        ├── ConfigurationError      the user asked for something wrong (also a ValueError)
        │   └── ConfigDrift         a run_id exists with another configuration
        ├── ServiceMissing          something that must run does not; the message says how to start it
        ├── StoreRefused            the store cannot be used: no credentials, no conditional writes, full
        ├── ArtifactMissing         a reference points to nothing
        ├── ArtifactCorrupt         bytes differ from their digest
        ├── StageOvertaken          another process committed a different result of the stage first
        ├── RecordRefuted           programs of a shard do something else here than its record says
        ├── RetrieverIncompatible   the retriever answers, but not in the protocol it was asked in
        ├── ApiIncompatible         a model's API answers, but not in the protocol it was asked in
        ├── BudgetSpent             the next request to a model's API would cost more than may be spent
        ├── MalformedAction         an agent's answer does not follow its grammar (data in an episode)
        ├── NothingScorable         the sandbox failed at every candidate of a node (data in an episode)
        ├── TooManyFailedEpisodes   more of a shard failed than the configuration allows
        ├── WarmStartTooWeak        behaviour cloning did not reach its gate
        ├── LogprobMismatch         sampler and trainer disagree about the same tokens
        └── UpdateFailed            a training worker reported an error of its own

To add one: pick the branch by asking whether the same call may succeed in a minute, and keep it picklable (one message).
"""


class TroupeError(Exception):
    """The root of all errors that the pipeline raises by name."""


class TransientError(TroupeError):
    """A second attempt may cure it."""


class PermanentError(TroupeError):
    """The same call will fail again."""


class StoreUnavailable(TransientError):
    """The artifact store refused the connection, timed out or answered with a server error."""


class StoreGone(StoreUnavailable):
    """The artifact store has not answered for `store.patience_seconds`: a retry of the stage has been waited for already."""


class PrefectUnavailable(TransientError):
    """The Prefect server has not answered for `resources.prefect_patience_seconds`."""


class TrackingUnavailable(TransientError):
    """The tracking server did not answer."""


class StaleEngine(TransientError):
    """An engine holds another policy version than the one asked for."""


class EngineUnavailable(TransientError):
    """No inference server is left that answers; the message names their addresses and how to start them."""


class WorkerDied(TransientError):
    """A training worker ended before it answered."""


class SandboxUnavailable(TransientError):
    """No box can be had: the Docker daemon does not answer, or boxes do not start."""


class ExecutionFailed(TransientError):
    """The sandbox failed at one program. Inside an episode this is data: the candidate cannot be scored."""


class RetrieverUnavailable(TransientError):
    """The retriever did not answer, or answered with a server error."""


class ApiUnavailable(TransientError):
    """A model's API did not answer, or answered with a rate limit or a server error, after all retries."""


class DeadlineExceeded(TransientError):
    """The programs of a stage took longer than the stage may; what has finished is recorded."""


class TooManyUnscorable(TransientError):
    """A larger share of a shard's candidates could not be scored than `rewards.max_failed_fraction` allows."""


class ConfigurationError(PermanentError, ValueError):
    """The user asked for something wrong; the message names the field, the value and the remedy."""


class ConfigDrift(ConfigurationError):
    """The run_id exists with another configuration; the message names the fields."""


class ServiceMissing(PermanentError):
    """A service or program that must be there is not; the message says how to get it."""


class StoreRefused(PermanentError):
    """The store cannot be used as it is: no credentials, no conditional writes, or no space left."""


class ArtifactMissing(PermanentError):
    """A reference points to nothing in the store."""


class ArtifactCorrupt(PermanentError):
    """The bytes behind a reference differ from its digest."""


class StageOvertaken(PermanentError):
    """Another process has committed a different result of a stage first; the message names the record."""


class RecordRefuted(PermanentError):
    """A program of a shard ends otherwise than the shard's own record says; the message shows both ends."""


class RetrieverIncompatible(PermanentError):
    """The retriever answers, but not in the protocol it was asked in; the message shows what it said."""


class ApiIncompatible(PermanentError):
    """A model's API answers, but not in the protocol it was asked in; the message shows what it said."""


class BudgetSpent(PermanentError):
    """The next request to a model's API would cost more than may be spent; the message names the bound."""


class MalformedAction(PermanentError):
    """An agent's answer does not follow its grammar. Inside an episode this is data, not a failure."""


class NothingScorable(PermanentError):
    """The sandbox failed at every candidate of a node, so nothing can be handed on. It ends that episode, as data."""


class TooManyFailedEpisodes(PermanentError):
    """A larger share of a shard's episodes failed than `rollout.max_failed_fraction` allows."""


class WarmStartTooWeak(PermanentError):
    """Behaviour cloning ended below its gate, from where reinforcement learning does not take off."""


class LogprobMismatch(PermanentError):
    """Sampler and trainer give different log-probabilities to the same tokens under the same weights."""


class UpdateFailed(PermanentError):
    """A training worker reported an error of its own; the message carries its traceback."""
