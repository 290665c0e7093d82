"""Having a running server hold weights: its own middleware (`infra/vllm/troupe_weights.py`) loads what it lacks."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from components.config import VllmConfig
from components.errors import ConfigurationError
from components.generation.base import SignFiles
from components.generation.vllm.loaded_weights import ServedVersion
from components.generation.vllm.transport import FolderUnseen, ReplicaFailed, RequestRefused, Transport, encode_json

_WORKER_FAILED = "method failed: Worker failed"
"""In an HTTP 500 whose cause is the call and not the server."""


class ModelCards(NamedTuple):
    """What a server offers: its models and its context length."""

    models: tuple[str, ...]
    max_model_tokens: int


class Loading:
    """The refresh routes of one server. Every method raises ReplicaFailed when the server does not answer."""

    def __init__(
        self, transport: Transport, url: str, *, config: VllmConfig, sign: SignFiles = lambda folder: ()
    ) -> None:
        self._transport = transport
        self._sign = sign
        self._url = url
        self._config = config

    async def cards(self) -> ModelCards:
        """The models that the server offers."""
        timeout_seconds = self._config.health_timeout_seconds
        answer = await self._transport.call(self._url, "/v1/models", timeout_seconds=timeout_seconds)
        try:
            models = [card for card in answer["data"] if card["parent"] is None]
            return ModelCards(
                models=tuple(card["id"] for card in models), max_model_tokens=int(models[0]["max_model_len"])
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ReplicaFailed(f"{self._url}/v1/models: unexpected answer: {error!r}") from error

    async def ensure(self, wanted: ServedVersion) -> None:
        """Load what is missing. Raises ConfigurationError when the server cannot load it."""
        weights = {"weights": wanted.weights}
        await self._load(
            "/troupe/weights",
            weights,
            wanted.folder,
            "serve a model of the same shape and run with the worker extension of infra/vllm",
        )
        if wanted.adapter is not None:
            await self._load(
                "/troupe/adapter",
                {**weights, "name": wanted.model, "digest": wanted.digest},
                wanted.adapter,
                f"run with --enable-lora, a --max-lora-rank of at least that of {wanted.model} and "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
            )

    async def _load(self, path: str, wanted: Any, folder: Path, remedy: str) -> None:
        """Raise ConfigurationError when a healthy server answers that it cannot."""
        body = {**wanted, "folder": str(folder.absolute())}
        try:
            try:
                await self._post(path, body)
            except FolderUnseen:
                files = await asyncio.to_thread(self._sign, folder)
                if not files:
                    raise
                await self._post(path, {**body, "files": [asdict(file) for file in files]})
        except (RequestRefused, ReplicaFailed) as error:
            if isinstance(error, ReplicaFailed) and _WORKER_FAILED not in str(error):
                raise
            raise ConfigurationError(
                f"generation.engine vllm: the server cannot load {body}: {error}. It must be started by infra/vllm/serve.py, "
                f"see that folder or reach an S3 store, and {remedy}"
            ) from error

    async def _post(self, path: str, body: Any) -> None:
        timeout_seconds = self._config.request_timeout_seconds
        await self._transport.call(self._url, path, encode_json(body), timeout_seconds=timeout_seconds)
