"""The documented exceptions. Each is of our error tree; TrainingError catches all that a training raises."""

from components.errors import ConfigurationError as ConfigurationError
from components.errors import PermanentError
from components.hybrid.errors import DecisionValidationError as DecisionValidationError
from components.hybrid.errors import LLMConnectionError as LLMConnectionError
from components.hybrid.errors import TrainingError as TrainingError


class EnvironmentError(TrainingError, PermanentError, OSError):
    """The game cannot be played: no ROM, another one, no emulator, no screen."""


class CheckpointError(TrainingError, PermanentError):
    """A checkpoint cannot be read or written."""
