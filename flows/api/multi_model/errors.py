"""The documented errors. Each is one of our error tree, and the builtin one that the reference names."""

from asyncio import TimeoutError as AsyncTimeoutError
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from components.errors import ApiIncompatible, ApiUnavailable, BudgetSpent, PermanentError, TransientError, TroupeError

_API_ERRORS = (ApiUnavailable, ApiIncompatible, BudgetSpent)
_NAMES = {"openai": "OpenAI", "anthropic": "Anthropic"}


class ModelLoadingFailed(PermanentError, RuntimeError):
    """A base is not on this machine and cannot be fetched, or its files are damaged: "Model loading failed"."""


class GpuMemoryInsufficient(TransientError, RuntimeError):
    """A GPU, or the host, had too little memory: "GPU memory insufficient". With half of `batch_size` it may be enough."""


class CheckpointNotFound(PermanentError, FileNotFoundError):
    """There is no such checkpoint: "Checkpoint not found"."""


class EpisodeTimeout(TransientError, AsyncTimeoutError):
    """An episode took longer than it may: "Episode timeout"."""


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise torch's out-of-memory errors inside, of a GPU or the host, as GpuMemoryInsufficient. Imports no torch for it."""
    try:
        yield
    except (RuntimeError, MemoryError, TroupeError) as error:  # a worker's error holds its traceback as text
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, MemoryError) or "OutOfMemoryError" in said or "can't allocate memory" in said:
            raise GpuMemoryInsufficient(
                f"GPU memory insufficient: {error}; halve batch_size and train again, or lower kv_cache_size"
            ) from error
        raise


@contextmanager
def api_errors(provider: str) -> Iterator[None]:
    """Raise what an API answers, or fails to, as the APIError of the provider's own SDK, with our error as the cause."""
    try:
        yield
    except TroupeError as error:
        sdk: Any = import_module(provider)
        if not isinstance(error, _API_ERRORS) and not isinstance(error.__cause__, sdk.APIError):
            raise
        import httpx

        request = httpx.Request("POST", "https://api")
        raise sdk.APIError(f"{_NAMES[provider]} API error: {error}", request, body=None) from error
