"""The trainer, and the managers of language models, each imported on first use."""

from flows.api.hybrid import NAMES
from flows.api.hybrid import __getattr__ as __getattr__

__all__ = [*NAMES]
