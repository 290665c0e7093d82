"""What can go wrong with a history of decisions, a text of the teacher, a ROM or a save state. The branch decides retries."""

from components.errors import ConfigurationError, PermanentError, TransientError, TroupeError


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


class RomMissing(ConfigurationError):
    """There is no ROM at the path; the message says where to put one."""


class WrongRom(ConfigurationError):
    """The file is not the ROM that it should be: another game, cut short or damaged."""


class SaveStateCorrupt(PermanentError):
    """A save state is damaged, cut short, or was not written by this program."""


class SaveStateOfOtherRom(PermanentError):
    """A save state of another ROM, or of another build of it."""


class TrainingError(TroupeError):
    """A training failed; its cause is the error that ended it. The episodes before are in a checkpoint."""


class LLMConnectionError(TrainingError, TransientError):
    """A language model did not answer."""


class DecisionValidationError(TrainingError, PermanentError, ValueError):
    """An action, a confidence, an answer or what a decision is made from is not what it should be."""
