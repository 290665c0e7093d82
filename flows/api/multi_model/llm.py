"""Models by their documented names: nodes that share one model, and the factories of its families."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from components.config import AdapterConfig, ApiConfig
from components.errors import ConfigurationError
from components.freed import Freed
from components.generation.api.chat import KEY_VARIABLES, api_version
from components.generation.base import GenerationRequest
from components.identity import seed_for
from components.methods.population.served_models import Answer, Question, ServedModel
from components.process_variables import read_variable
from components.suggestions import did_you_mean
from flows.api.multi_model.arguments import mapping, question_settings
from flows.api.multi_model.checked_config import number, part, text
from flows.api.multi_model.enums import LLMBackend, UpdateStrategy
from flows.api.multi_model.errors import api_errors, loading, memory_errors
from flows.api.multi_model.model_configs import LLMConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.generation.api.engine import ApiGenerator

_PROVIDERS: Mapping[LLMBackend, str] = {LLMBackend.OPENAI_API: "openai", LLMBackend.ANTHROPIC: "anthropic"}


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

    def __init__(
        self,
        config: LLMConfig | None = None,
        *,
        input_price: float = 0.0,
        output_price: float = 0.0,
        max_cost: float | None = None,
    ) -> None:
        """Prices are those of an API, of a million tokens. A request that could exceed `max_cost` is not sent, but an APIError.

        Raises ConfigurationError for what is none of these, and for an API without a key; ServiceMissing without its SDK.
        """
        self.config: LLMConfig = part(LLMConfig)("config", LLMConfig() if config is None else config)
        prices = {"input_price": input_price, "output_price": output_price, "max_cost": max_cost}
        self._lock = threading.Lock()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._usage: dict[str, dict[str, Any]] = {}
        self._num_updates = 0
        self._backend: Backend | None = None
        if self.config.backend in _PROVIDERS:
            self._backend = _ApiBackend(self.config, _PROVIDERS[self.config.backend], prices)
        elif named := [name for name, each in prices.items() if each]:
            raise ConfigurationError(f"{named[0]} {prices[named[0]]!r}: only an API costs something; leave it out")
        elif self.config.backend is LLMBackend.VLLM:
            raise ConfigurationError(
                "backend vllm: a manager answers in this process or by an API; for a running vLLM server use OPENAI_API with "
                'api_base "http://HOST:PORT/v1", and for training generation.engine vllm'
            )

    def register_node(self, node_id: str, node_config: Mapping[str, Any] | None = None) -> None:
        """Let `node_id` ask; its settings are those of every call that says nothing else.

        Settings: instructions, max_new_tokens, temperature, stop and seed. Raises ValueError for others.
        """
        text("node_id", node_id)
        settings = question_settings(node_config or {}, "a node")
        with self._lock:
            self._nodes[node_id] = settings
            self._usage.setdefault(node_id, {"generation_count": 0, "total_tokens": 0, "last_used": None})

    def generate_for_node(self, node_id: str, prompt: str, **kwargs: Any) -> LLMResponse:
        """An answer to `prompt`; `kwargs` go before the node's settings, these before the model's.

        Raises ValueError for an unknown node or setting, RuntimeError "Model loading failed" or "GPU memory insufficient", and
        the provider's APIError.
        """
        text("prompt", prompt)
        given = question_settings(kwargs, "generate_for_node")
        with self._lock:
            if node_id not in self._nodes:
                nearest = did_you_mean(str(node_id), self._nodes)
                raise ConfigurationError(f"node_id {node_id!r}: is not registered; {nearest}call register_node before")
            settings = {**self._nodes[node_id], **given}
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
        given = mapping("gradients", gradients)
        done = self._opened().update(given, number(0)("learning_rate", learning_rate))
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
        device = local_device(config.device)
        with memory_errors(), ExitStack() as failed:
            with loading(config.model_name):
                self._model = failed.enter_context(ServedModel(config.model_name, device=device))
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
    """A model behind an API. It answers, and is never updated.

    Each thread has a client of its own, which counts its usage; with a `max_cost` all share one, and ask one after the other.
    """

    def __init__(self, config: LLMConfig, provider: str, prices: Mapping[str, float | None]) -> None:
        self._provider = provider
        self._max_length = config.max_length
        self._key = config.api_key or read_variable(KEY_VARIABLES[provider])
        settings = {"provider": provider, "model": config.model_name, "base_url": config.api_base, **prices}
        try:
            self._api = ApiConfig.model_validate({**settings, "max_requests_at_once": 1})
        except ValidationError as error:
            raise ConfigurationError(_api_fault(error)) from error
        self._version = api_version("shared", self._api)
        self._lock = threading.Lock()
        self._opened: list[ApiGenerator] = []
        self._own: Any = threading.local() if self._api.max_cost is None else SimpleNamespace()
        self._turn = nullcontext() if self._api.max_cost is None else threading.Lock()
        self._engine()  # a missing key or SDK is an error at once

    def answer(self, question: Question) -> Answer:
        with self._turn:
            return self._answer(self._engine(), question)

    def _answer(self, engine: "ApiGenerator", question: Question) -> Answer:
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
    """`device`, where auto is cuda if there is one, else cpu. Raises ConfigurationError for cuda where there is none."""
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise ConfigurationError("device 'cuda': torch finds no GPU on this machine; use auto or cpu")
    return device if device != "auto" else "cuda" if has_gpu else "cpu"


def _api_fault(error: ValidationError) -> str:
    """The first fault of the settings of an API, by the names that they have here."""
    fault = error.errors()[0]
    field = ".".join(map(str, fault["loc"]))
    said = fault["msg"].removeprefix("Value error, ")
    return f"{'api_base' if field == 'base_url' else field} {fault['input']!r}: {said}" if field else said
