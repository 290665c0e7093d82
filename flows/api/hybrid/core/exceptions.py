"""The documented exceptions. Each is of our error tree; TrainingError catches all that a training raises."""

from collections.abc import Iterator
from contextlib import contextmanager

from components.errors import ConfigurationError as ConfigurationError
from components.errors import PermanentError, ServiceMissing
from components.hybrid.errors import DecisionValidationError as DecisionValidationError
from components.hybrid.errors import LLMConnectionError as LLMConnectionError
from components.hybrid.errors import RomMissing, WrongRom
from components.hybrid.errors import TrainingError as TrainingError


class EnvironmentError(TrainingError, PermanentError, OSError):
    """The game cannot be played: no ROM, another one, no emulator, no screen."""


class CheckpointError(TrainingError, PermanentError):
    """A checkpoint cannot be read or written."""


@contextmanager
def environment_errors() -> Iterator[None]:
    """Raise what is wrong with ROM or emulator inside as EnvironmentError."""
    try:
        yield
    except (RomMissing, WrongRom, ServiceMissing) as error:
        raise EnvironmentError(str(error)) from error
