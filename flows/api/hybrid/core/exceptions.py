"""The documented exceptions. Each is of our error tree; TrainingError catches all that a training raises."""

from collections.abc import Iterator
from contextlib import contextmanager

from components.errors import ConfigurationError as ConfigurationError
from components.errors import PermanentError, ServiceMissing, TransientError, TroupeError
from components.hybrid.errors import RomMissing, SaveStateCorrupt, SaveStateOfOtherRom, WrongRom


class TrainingError(TroupeError):
    """A training failed; its cause is the error that ended it. The episodes before are in a checkpoint."""


class EnvironmentError(TrainingError, PermanentError, OSError):
    """The game cannot be played: no ROM, another one, no emulator, no screen, a damaged save state."""


class CheckpointError(TrainingError, PermanentError):
    """A checkpoint cannot be read or written."""


class LLMConnectionError(TrainingError, TransientError):
    """A language model did not answer."""


class DecisionValidationError(TrainingError, PermanentError, ValueError):
    """An action, a confidence, an answer or what a decision is made from is not what it should be."""


@contextmanager
def environment_errors() -> Iterator[None]:
    """Raise what is wrong with ROM, emulator or save state inside as EnvironmentError."""
    try:
        yield
    except (RomMissing, WrongRom, ServiceMissing, SaveStateCorrupt, SaveStateOfOtherRom) as error:
        raise EnvironmentError(str(error)) from error
