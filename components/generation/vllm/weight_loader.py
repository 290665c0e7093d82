"""Loading weights into a running server: full weights by pause, reload, cache reset and resume; adapters by name.

An adapter is served under a name that contains its digest, and the previous one is removed. vLLM's own `load_inplace` is not
used: it rereads the adapter's folder whenever requests arrive, so files swapped on disk are sampled from, and the engine
dies when the folder is gone (vLLM 0.32).
"""

from typing import Any, NamedTuple

from components.config import VllmConfig
from components.errors import ConfigurationError
from components.generation.vllm.loaded_weights import LoadedWeights, ServedVersion, parse_loaded_weights
from components.generation.vllm.transport import ReplicaFailed, RequestRefused, Transport, encode_json

RELOAD = "troupe_reload"
"""The method that the worker extension in `infra/vllm` adds to a server."""
_WORKER_FAILED = "method failed: Worker failed"
"""In an HTTP 500 whose cause is the call and not the server."""


class ModelCards(NamedTuple):
    """What a server offers: its models, its adapters with the folders they came from, and its context length."""

    models: tuple[str, ...]
    adapters: dict[str, str]
    max_model_tokens: int


class Loading:
    """The refresh routes of one server. Every method raises ReplicaFailed when the server does not answer."""

    def __init__(self, transport: Transport, url: str, *, config: VllmConfig) -> None:
        self._transport = transport
        self._url = url
        self._config = config

    async def cards(self) -> ModelCards:
        """The models and adapters that the server offers."""
        answer = await self._get("/v1/models")
        try:
            cards = answer["data"]
            models = [card for card in cards if card["parent"] is None]
            return ModelCards(
                models=tuple(card["id"] for card in models),
                adapters={card["id"]: str(card["root"]) for card in cards if card["parent"] is not None},
                max_model_tokens=int(models[0]["max_model_len"]),
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ReplicaFailed(f"{self._url}/v1/models: unexpected answer: {error!r}") from error

    async def ensure(self, wanted: ServedVersion) -> None:
        """Load what is missing. Raises ConfigurationError when the server cannot load it."""
        if (await self._read_held()).weights != wanted.weights:
            await self._reload(wanted)
        if wanted.adapter is not None:
            await self._load_adapter(wanted, str(wanted.adapter))

    async def _reload(self, wanted: ServedVersion) -> None:
        """Load full weights. The weight version is empty meanwhile, and stays so after a failure."""
        await self._post("/pause?mode=wait", {})
        try:
            await self._set_version(LoadedWeights())
            await self._load_folder(
                "/collective_rpc",
                {"method": RELOAD, "args": [str(wanted.folder.absolute())]},
                "serve a model of the same shape and run with the worker extension of infra/vllm",
            )
            if not (await self._post("/reset_prefix_cache", {}) or {}).get("success"):
                raise ReplicaFailed(f"{self._url} keeps prefixes of the old weights in its cache")
            await self._set_version(LoadedWeights(weights=wanted.weights))
        finally:
            await self._post("/resume", {})

    async def _load_adapter(self, wanted: ServedVersion, path: str) -> None:
        held, known = await self._read_held(), (await self.cards()).adapters
        if held.adapters.get(wanted.policy) == wanted.digest and known.get(wanted.model) == path:
            return
        await self._set_version(held.with_adapter(wanted.policy, None))
        for name in known:
            if name.rpartition("@")[0] == wanted.policy:
                await self._post("/v1/unload_lora_adapter", {"lora_name": name})
        await self._load_folder(
            "/v1/load_lora_adapter",
            {"lora_name": wanted.model, "lora_path": path},
            f"run with --enable-lora, a --max-lora-rank of at least that of {wanted.model} and "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
        )
        await self._set_version((await self._read_held()).with_adapter(wanted.policy, wanted.digest))

    async def _load_folder(self, path: str, body: Any, remedy: str) -> None:
        """Have the server read a folder. Raises ConfigurationError when a healthy server answers that it cannot."""
        try:
            await self._post(path, body)
        except (RequestRefused, ReplicaFailed) as error:
            if isinstance(error, ReplicaFailed) and _WORKER_FAILED not in str(error):
                raise
            raise ConfigurationError(
                f"generation.engine vllm: the server cannot load {body}: {error}. It must see that folder, and {remedy}"
            ) from error

    async def _read_held(self) -> LoadedWeights:
        return parse_loaded_weights(str((await self._get("/weight_info") or {}).get("weight_version")))

    async def _set_version(self, held: LoadedWeights) -> None:
        await self._post("/update_weight_version", {"new_version": held.name_version()})

    async def _get(self, path: str) -> Any:
        return await self._transport.call(self._url, path, timeout_seconds=self._config.health_timeout_seconds)

    async def _post(self, path: str, body: Any) -> Any:
        timeout_seconds = self._config.request_timeout_seconds
        return await self._transport.call(self._url, path, encode_json(body), timeout_seconds=timeout_seconds)
