"""Models by their documented names: one model that several nodes share, here or behind an API."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from components.config import AdapterConfig, ApiConfig
from components.errors import ConfigurationError
from components.frozen import Frozen
from components.generation.api.chat import KEY_VARIABLES, api_version
from components.generation.base import GenerationRequest
from components.identity import seed_for
from components.machine.freed import Freed
from components.machine.process_variables import read_variable
from components.methods.population.served_models import Answer, Question, ServedModel
from components.text.suggestions import did_you_mean
from flows.api.multi_model.configs import LLMConfig
from flows.api.multi_model.enums import LLMBackend, UpdateStrategy
from flows.api.multi_model.errors import api_errors, loading, memory_errors
from flows.api.multi_model.fields import AtLeast0, Count, Text, check_arguments, explain_faults

if TYPE_CHECKING:
    from torch import Tensor

    from components.generation.api.engine import ApiGenerator

_PROVIDERS: Mapping[LLMBackend, str] = {
    LLMBackend.OPENAI_API: "openai",
    LLMBackend.ANTHROPIC: "anthropic",
    LLMBackend.VLLM: "openai",
}
"""Whose API a server speaks; vLLM's is that of OpenAI."""


class _Settings(Frozen):
    """How a prompt is answered."""

    instructions: str = ""
    max_new_tokens: Count = 256
    temperature: AtLeast0 = 0.7
    stop: Annotated[tuple[Text, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)] = ()
    seed: int = 0


def answer_settings(given: object, call: str) -> dict[str, Any]:
    """The given ones of instructions, max_new_tokens, temperature, stop and seed. Raises ConfigurationError for others."""
    with explain_faults(f"{call} takes no such setting", _Settings.model_fields):
        return _Settings.model_validate(given).model_dump(exclude_unset=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMResponse:
    """What a model answered.

    `confidence` is exp(mean log-probability of the answer's tokens), 0 to 1; None from a server, which does not tell.
    `metadata` has the tokens of prompt and answer, why it ended, and the version that answered.
    """

    text: str
    confidence: float | None
    reasoning: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class SharedLLMManager(Freed):
    """One model that several nodes ask, each with settings of its own. Freed by `close` or a `with` block.

    A local model is loaded by the first call that needs it. Nodes may ask from any thread at once.

    **Example**

        with SharedLLMManager(LLMConfig(model_name="tiny", enable_lora=True)) as manager:
            manager.register_node("planner", {"temperature": 0.2})
            manager.generate_for_node("planner", "2 + 2 =").confidence
    """

    @check_arguments
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
        self.config = config or LLMConfig()
        self.config.check_effects()
        prices = {"input_price": input_price, "output_price": output_price, "max_cost": max_cost}
        self._lock = threading.Lock()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._usage: dict[str, dict[str, Any]] = {}
        self._num_updates = 0
        self._backend: _LocalBackend | _ApiBackend | None = None
        if self.config.backend in _PROVIDERS:
            self._backend = _ApiBackend(self.config, prices)
        elif named := [name for name, each in prices.items() if each]:
            raise ConfigurationError(f"{named[0]} {prices[named[0]]!r}: only an API costs something; leave it out")

    @check_arguments
    def register_node(self, node_id: Text, node_config: Mapping[str, Any] | None = None) -> None:
        """Let `node_id` ask; its settings are those of every call that says nothing else.

        Settings: instructions, max_new_tokens, temperature, stop and seed. Raises ValueError for others.
        """
        settings = answer_settings(node_config or {}, "a node")
        with self._lock:
            self._nodes[node_id] = settings
            self._usage.setdefault(node_id, {"generation_count": 0, "total_tokens": 0, "last_used": None})

    @check_arguments
    def generate_for_node(self, node_id: str, prompt: Text, **kwargs: Any) -> LLMResponse:
        """An answer to `prompt`; `kwargs` go before the node's settings, these before the model's.

        Raises ValueError for an unknown node or setting, RuntimeError "Model loading failed" or "GPU memory insufficient", and
        the provider's APIError.
        """
        given = answer_settings(kwargs, "generate_for_node")
        with self._lock:
            if node_id not in self._nodes:
                nearest = did_you_mean(node_id, self._nodes)
                raise ConfigurationError(f"node_id {node_id!r}: is not registered; {nearest}call register_node before")
            number = self._usage[node_id]["generation_count"]
            defaults = {"temperature": self.config.temperature, "seed": seed_for(0, node_id, number)}
            settings: dict[str, Any] = {**defaults, **self._nodes[node_id], **given}
            self._usage[node_id]["generation_count"] += 1
        answer = self._open().answer(Question(prompt=prompt, max_length=self.config.max_length, **settings))
        with self._lock:
            self._usage[node_id]["total_tokens"] += answer.num_prompt_tokens + answer.num_answer_tokens
            self._usage[node_id]["last_used"] = time.time()
        return response(answer, node_id=node_id, weights_digest=answer.version.weights_digest)

    @check_arguments
    def update_shared_parameters(self, gradients: Mapping[str, Any], learning_rate: AtLeast0 = 1e-4) -> dict[str, Any]:
        """Step the shared adapter along `gradients`, by the names that `adapter_tensors` has; all nodes answer by it then.

        `status` is "updated", "frozen" (the strategy stepped nothing) or "unsupported" (a model behind an API). Raises
        ValueError for other names or shapes, NaN and infinity, and then nothing has changed.
        """
        done = self._open().update(dict(gradients), learning_rate)
        if done["status"] == "updated":
            self._num_updates = done["update_count"]
        return {**done, "affected_nodes": sorted(self._nodes) if done["status"] == "updated" else []}

    def adapter_tensors(self) -> "dict[str, Tensor]":
        """Copies of the adapter's tensors. Raises ValueError without an adapter."""
        backend = self._open()
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

    def _open(self) -> "_LocalBackend | _ApiBackend":
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

    def __init__(self, config: LLMConfig, prices: Mapping[str, float | None]) -> None:
        self._provider, self._max_length = _PROVIDERS[config.backend], config.max_length
        is_own_server = config.backend is LLMBackend.VLLM
        if is_own_server and config.api_base is None:
            raise ConfigurationError(
                'api_base: backend vllm is a running server; give its address, as "http://HOST:8000/v1"'
            )
        self._key = config.api_key or (None if is_own_server else read_variable(KEY_VARIABLES[self._provider]))
        settings = {"provider": self._provider, "model": config.model_name, "base_url": config.api_base, **prices}
        with explain_faults("no such setting of an API", settings):
            self._api = ApiConfig.model_validate({**settings, "max_requests_at_once": 1})
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


def response(answer: Answer, **metadata: Any) -> LLMResponse:
    """An answer in the documented form."""
    usage = {"prompt_tokens": answer.num_prompt_tokens, "completion_tokens": answer.num_answer_tokens}
    told = {**usage, "finish_reason": answer.finish_reason, "version": answer.version.step, **metadata}
    return LLMResponse(text=answer.text, confidence=answer.confidence, metadata=told)
