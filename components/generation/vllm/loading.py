"""Making a running server hold other weights: full ones by pause, reload, cache reset and resume; adapters by name.

An adapter is served under a name that carries its digest, and the old one is removed. The server's own `load_inplace` is not
used: it reads the adapter's folder again whenever requests arrive, so that files swapped on disk are sampled from, and the
whole engine dies when the folder is gone (vLLM 0.32).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.config import VllmConfig
from components.errors import ConfigurationError
from components.generation.vllm.held import Held, Serving, held_from
from components.generation.vllm.transport import ReplicaFailed, RequestRefused, Transport, encoded

RELOAD = "troupe_reload"
"""What the worker extension in `infra/vllm` adds to a server."""
_WORKER_SAYS_NO = "method failed: Worker failed"
"""In an HTTP 500 that says that the server is well and the call was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a server has to hold, and the folders, as it sees them, where that lies."""

    serving: Serving
    folder: Path
    adapter: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCards:
    """What a server offers. `root` of an adapter is the folder it came from."""

    models: tuple[str, ...]
    adapters: dict[str, str]
    max_model_tokens: int


class Loading:
    """The refresh routes of one server. All raise ReplicaFailed when it does not answer."""

    def __init__(self, transport: Transport, url: str, *, config: VllmConfig) -> None:
        self._transport = transport
        self._url = url
        self._config = config

    def cards(self) -> ModelCards:
        """The models that it serves."""
        answer = self._get("/v1/models")
        try:
            cards = answer["data"]
            models = [card for card in cards if card["parent"] is None]
            return ModelCards(
                models=tuple(card["id"] for card in models),
                adapters={card["id"]: str(card["root"]) for card in cards if card["parent"] is not None},
                max_model_tokens=int(models[0]["max_model_len"]),
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ReplicaFailed(f"{self._url}/v1/models answered in another shape: {error!r}") from error

    def held(self) -> Held:
        """What it says that it holds."""
        return held_from(str((self._get("/weight_info") or {}).get("weight_version")))

    def hold(self, wanted: Wanted) -> None:
        """Load what is missing. Raises ConfigurationError when the server cannot take it."""
        if self.held().weights != wanted.serving.weights:
            self._reload(wanted)
        if wanted.adapter is not None:
            self._load_adapter(wanted.serving, str(wanted.adapter))

    def _reload(self, wanted: Wanted) -> None:
        """New full weights. The version names nothing while they are on their way, and after a failure."""
        self._post("/pause?mode=wait", {})
        try:
            self._say(Held())
            self._call_worker(wanted.folder)
            if not (self._post("/reset_prefix_cache", {}) or {}).get("success"):
                raise ReplicaFailed(f"{self._url} keeps prefixes of the old weights in its cache")
            self._say(Held(weights=wanted.serving.weights))
        finally:
            self._post("/resume", {})

    def _call_worker(self, folder: Path) -> None:
        try:
            self._post("/collective_rpc", {"method": RELOAD, "args": [str(folder.absolute())]})
        except ReplicaFailed as error:
            if _WORKER_SAYS_NO not in str(error):
                raise
            raise ConfigurationError(
                f"generation.engine vllm: the server cannot take the weights in {folder}: {error}. It must see that folder, "
                "serve a model of the same shape and run with the worker extension of infra/vllm"
            ) from error

    def _load_adapter(self, serving: Serving, path: str) -> None:
        held, known = self.held(), self.cards().adapters
        if held.adapters.get(serving.policy) == serving.digest and known.get(serving.model) == path:
            return
        self._say(held.with_adapter(serving.policy, None))
        for name in known:
            if name.rpartition("@")[0] == serving.policy:
                self._post("/v1/unload_lora_adapter", {"lora_name": name})
        try:
            self._post("/v1/load_lora_adapter", {"lora_name": serving.model, "lora_path": path})
        except (RequestRefused, ReplicaFailed) as error:
            if isinstance(error, ReplicaFailed) and _WORKER_SAYS_NO not in str(error):
                raise
            raise ConfigurationError(
                f"generation.engine vllm: the server takes no adapter {serving.model}: {error}. It must see {path} and run "
                "with --enable-lora, a --max-lora-rank of at least the adapter's and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
            ) from error
        self._say(self.held().with_adapter(serving.policy, serving.digest))

    def _say(self, held: Held) -> None:
        self._post("/update_weight_version", {"new_version": held.spelled()})

    def _get(self, path: str) -> Any:
        return self._transport.call(self._url, path, timeout_seconds=self._config.health_timeout_seconds)

    def _post(self, path: str, body: Any) -> Any:
        return self._transport.call(
            self._url, path, encoded(body), timeout_seconds=self._config.request_timeout_seconds
        )
