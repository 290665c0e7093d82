"""Which models vLLM servers serve for a configuration, and which policies each of them plays."""

from collections.abc import Iterable, Mapping

from components.config import RunConfig
from components.training.sharing import starting_models

URLS_VARIABLE = "TROUPE_VLLM_URLS"
"""The environment variable that tells a process where the local servers are."""


def served_models(config: RunConfig) -> dict[str, tuple[str, ...]]:
    """Served name -> policies. Adapters on one base share its servers, unless each is merged into a base of its own.

    **Example** planner and solver with adapters on "tiny": `{"planner+solver": ("planner", "solver")}`; with
    generation.vllm.merge_adapters: `{"planner": ("planner",), "solver": ("solver",)}`.
    """
    models = starting_models(config.policies)
    if not config.generation.vllm.merge_adapters:
        return models
    return {policy: (policy,) for policies in models.values() for policy in policies}


def served_model(config: RunConfig, policy: str) -> str:
    """The served name under which a policy's servers are found."""
    return next(name for name, policies in served_models(config).items() if policy in policies)


def server_urls(config: RunConfig, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The servers to ask: those of the configuration, else those of `environment`; each knows what it serves."""
    return config.generation.vllm.urls or tuple(filter(None, environment.get(URLS_VARIABLE, "").split(",")))


def spelled_urls(urls: Iterable[str]) -> dict[str, str]:
    """`urls` as `URLS_VARIABLE`; nothing where there are none."""
    joined = ",".join(urls)
    return {URLS_VARIABLE: joined} if joined else {}
