"""Models by their documented names: nodes that share one model, and the factories of its families."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from components.config import AdapterConfig, ApiConfig
from components.errors import ConfigurationError
from components.freed import Freed
from components.generation.api.chat import KEY_VARIABLES, api_version
from components.generation.base import GenerationRequest
from components.identity import seed_for
from components.process_variables import read_variable
from components.session.served_models import Answer, Question, ServedModel
from components.suggestions import suggest
from flows.api.multi_model.enums import LLMBackend, UpdateStrategy
from flows.api.multi_model.errors import api_errors, loading, memory_errors
from flows.api.multi_model.model_configs import LLMConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.generation.api.engine import ApiGenerator

_PROVIDERS: Mapping[LLMBackend, str] = {LLMBackend.OPENAI_API: "openai", LLMBackend.ANTHROPIC: "anthropic"}
_SETTINGS = ("instructions", "max_new_tokens", "temperature", "stop", "seed")
"""What a node's configuration, and a call, may say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMResponse:
    """What a model answered.

    `confidence` is exp(mean log-probability of the answer's tokens), 0 to 1; None from an API, which does not tell. `metadata`
    has the tokens of prompt and answer, why it ended, and the version that answered.
    """

    text: str
    confidence: float | None
    reasoning: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """Where a manager's model runs."""

    def answer(self, question: Question) -> Answer:
        """One answer."""
        ...

    def update(self, gradients: "dict[str, Tensor]", learning_rate: float) -> dict[str, Any]:
        """Apply gradients; `status` says whether."""
        ...

    def stats(self) -> dict[str, Any]:
        """What is known of the model."""
        ...

    def close(self) -> None:
        """Free it."""
        ...


class SharedLLMManager(Freed):
    """One model that several nodes ask, each with settings of its own. Freed by `close` or a `with` block.

    A local model is loaded by the first call that needs it. Nodes may ask from any thread at once.

    **Example**

        with SharedLLMManager(LLMConfig(model_name="tiny", enable_lora=True)) as manager:
            manager.register_node("planner", {"temperature": 0.2})
            manager.generate_for_node("planner", "2 + 2 =").confidence
    """

    def __init__(self, config: LLMConfig | None = None) -> None:
        """Raises ConfigurationError for an API without a key, ServiceMissing without its SDK."""
        self.config = config or LLMConfig()
        self._lock = threading.Lock()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._usage: dict[str, dict[str, Any]] = {}
        self._num_updates = 0
        self._backend: Backend | None = None
        if self.config.backend in _PROVIDERS:
            self._backend = _ApiBackend(self.config, _PROVIDERS[self.config.backend])
        elif self.config.backend is LLMBackend.VLLM:
            raise ConfigurationError(
                "backend vllm: a manager answers in this process or by an API; for a running vLLM server use OPENAI_API with "
                'api_base "http://HOST:PORT/v1", and for training generation.engine vllm'
            )

    def register_node(self, node_id: str, node_config: Mapping[str, Any] | None = None) -> None:
        """Let `node_id` ask; its settings are those of every call that says nothing else.

        Settings: instructions, max_new_tokens, temperature, stop and seed. Raises ValueError for others.
        """
        settings = _checked(node_config or {})
        with self._lock:
            self._nodes[node_id] = settings
            self._usage.setdefault(node_id, {"generation_count": 0, "total_tokens": 0, "last_used": None})

    def generate_for_node(self, node_id: str, prompt: str, **kwargs: Any) -> LLMResponse:
        """An answer to `prompt`; `kwargs` go before the node's settings, these before the model's.

        Raises ValueError for an unknown node or setting, RuntimeError "Model loading failed" or "GPU memory insufficient", and
        the provider's APIError.
        """
        with self._lock:
            if node_id not in self._nodes:
                raise ConfigurationError(f"node {node_id!r}: is not registered; {suggest(node_id, self._nodes)}")
            settings = {**self._nodes[node_id], **_checked(kwargs)}
            number = self._usage[node_id]["generation_count"]
            self._usage[node_id]["generation_count"] += 1
        defaults = {"temperature": self.config.temperature, "seed": seed_for(0, node_id, number)}
        question = Question(prompt=prompt, max_length=self.config.max_length, **{**defaults, **settings})
        answer = self._opened().answer(question)
        with self._lock:
            self._usage[node_id]["total_tokens"] += answer.num_prompt_tokens + answer.num_answer_tokens
            self._usage[node_id]["last_used"] = time.time()
        return LLMResponse(
            text=answer.text,
            confidence=answer.confidence,
            metadata={
                "node_id": node_id,
                "prompt_tokens": answer.num_prompt_tokens,
                "completion_tokens": answer.num_answer_tokens,
                "finish_reason": answer.finish_reason,
                "version": answer.version.step,
                "weights_digest": answer.version.weights_digest,
            },
        )

    def update_shared_parameters(
        self, gradients: "Mapping[str, Tensor]", learning_rate: float = 1e-4
    ) -> dict[str, Any]:
        """Step the shared adapter along `gradients`, by the names that `adapter_tensors` has; all nodes answer by it then.

        `status` is "updated", "frozen" (the strategy stepped nothing) or "unsupported" (a model behind an API). Raises
        ValueError for other names or shapes, NaN and infinity, and then nothing has changed.
        """
        done = self._opened().update(dict(gradients), learning_rate)
        if done["status"] == "updated":
            self._num_updates = done["update_count"]
        return {**done, "affected_nodes": sorted(self._nodes) if done["status"] == "updated" else []}

    def adapter_tensors(self) -> "dict[str, Tensor]":
        """Copies of the adapter's tensors. Raises ValueError without an adapter."""
        backend = self._opened()
        if not isinstance(backend, _LocalBackend):
            raise ConfigurationError(f"backend {self.config.backend.value}: its weights are not here")
        return backend.policy.tensors()

    def get_global_stats(self) -> dict[str, Any]:
        """The model, and how often it answered and was updated, in all and by node."""
        with self._lock:
            usage = {node: dict(each) for node, each in self._usage.items()}
            stats = self._backend.stats() if self._backend is not None else {"loaded": False}
        return {
            "llm_model": self.config.model_name,
            "llm_backend": self.config.backend.value,
            "total_generations": sum(each["generation_count"] for each in usage.values()),
            "total_updates": self._num_updates,
            "registered_nodes_count": len(usage),
            "node_usage_stats": usage,
            "llm_internal_stats": stats,
        }

    def close(self) -> None:
        """Free the model, connections and threads."""
        with self._lock:
            backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()

    def _opened(self) -> Backend:
        with self._lock:
            if self._backend is None:
                self._backend = _LocalBackend(self.config)
            return self._backend


class _LocalBackend:
    """A model in this process."""

    def __init__(self, config: LLMConfig) -> None:
        self._config = config
        adapter = AdapterConfig(rank=config.lora_rank, alpha=config.lora_alpha) if config.enable_lora else None
        with loading(config.model_name), memory_errors(), ExitStack() as failed:
            self._model = failed.enter_context(ServedModel(config.model_name, device=local_device(config.device)))
            self.policy = self._model.policy("shared", adapter)
            failed.pop_all()

    def answer(self, question: Question) -> Answer:
        with memory_errors():
            return self.policy.answer(question)

    def update(self, gradients: "dict[str, Tensor]", learning_rate: float) -> dict[str, Any]:
        config = self._config
        adaptive = config.update_strategy is UpdateStrategy.ADAPTIVE
        rate = (
            min(max(learning_rate, config.min_learning_rate), config.max_learning_rate) if adaptive else learning_rate
        )
        taken = self.policy.update(gradients, rate, selection=config.update_strategy.value)
        return {
            "status": "updated" if taken.stepped else "frozen",
            "update_count": taken.num_updates,
            "learning_rate": rate,
            "gradient_norm": taken.gradient_norm,
            "updated_parameters": list(taken.stepped),
        }

    def stats(self) -> dict[str, Any]:
        version = self.policy.version
        return {"loaded": True, "version": version.step, "weights_digest": version.weights_digest}

    def close(self) -> None:
        self._model.close()


class _ApiBackend:
    """A model behind an API. It answers, and is never updated. Each thread has a client of its own, which counts its usage."""

    def __init__(self, config: LLMConfig, provider: str) -> None:
        self._provider = provider
        self._max_length = config.max_length
        self._key = config.api_key or read_variable(KEY_VARIABLES[provider])
        self._api = ApiConfig.model_validate(
            {"provider": provider, "model": config.model_name, "base_url": config.api_base, "max_requests_at_once": 1}
        )
        self._version = api_version("shared", self._api)
        self._lock = threading.Lock()
        self._opened: list[ApiGenerator] = []
        self._own = threading.local()
        self._engine()  # a missing key or SDK is an error at once

    def answer(self, question: Question) -> Answer:
        engine = self._engine()
        request = GenerationRequest(
            prompt_tokens=engine.tokenizer.encode_chat(question.instructions, question.prompt),
            seeds_K=(question.seed,),
            max_new_tokens=min(question.max_new_tokens, self._max_length),
            temperature=question.temperature,
            stop=question.stop,
        )
        with api_errors(self._provider):
            ((completion,),) = engine.generate([request], self._version)
        usage = engine.take_usage()
        return Answer(
            text=engine.tokenizer.decode(completion.tokens),
            confidence=None,
            num_prompt_tokens=usage.num_prompt_tokens,
            num_answer_tokens=usage.num_answer_tokens,
            finish_reason=completion.finish_reason,
            version=self._version,
        )

    def update(self, gradients: "dict[str, Tensor]", learning_rate: float) -> dict[str, Any]:
        return {"status": "unsupported", "reason": f"the weights of {self._provider}'s models are not here"}

    def stats(self) -> dict[str, Any]:
        with self._lock:
            used = [asdict(engine.usage) for engine in self._opened]
        return {"loaded": True, **{name: sum(each[name] for each in used) for name in used[0]}}

    def close(self) -> None:
        with self._lock:
            for engine in self._opened:
                engine.close()

    def _engine(self) -> "ApiGenerator":
        from components.generation.api.engine import open_api_generator

        if not hasattr(self._own, "engine"):
            self._own.engine = open_api_generator("shared", self._api, api_key=self._key)
            with self._lock:
                self._opened.append(self._own.engine)
        engine: ApiGenerator = self._own.engine
        return engine


def local_device(device: str) -> str:
    """`device`, where auto is cuda if there is one, else cpu."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    for name in settings:
        if name not in _SETTINGS:
            raise ConfigurationError(f"{name}: no setting of a node; {suggest(name, _SETTINGS)}")
    stop = settings.get("stop", ())
    return {**settings, **({"stop": (stop,) if isinstance(stop, str) else tuple(stop)} if "stop" in settings else {})}
