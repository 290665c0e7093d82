"""What can go wrong with a history of decisions or a text of the teacher. The branch decides retries."""

from components.errors import ConfigurationError, PermanentError, TransientError


class HistoryLocked(TransientError):
    """Another process is writing the history for longer than the patience of this one."""


class HistoryCorrupt(PermanentError):
    """The file of the history is damaged or not an SQLite database; the message says what to do with it."""


class HistoryUnusable(PermanentError):
    """The file of the history cannot be opened or written: no folder, no permission, no space."""


class HistoryOfOtherVersion(PermanentError):
    """The file was written by another version of Troupe, or by another program."""


class DecisionConflict(PermanentError):
    """A decision contradicts what is recorded: other content at the same step, a gap, or a step after the last one."""


class ConditionRefused(ConfigurationError):
    """A condition of the teacher uses more than its language has; the message names the part and the remedy."""
