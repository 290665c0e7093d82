"""Which policies start from the same model: adapters share one, full models do not."""

from collections.abc import Mapping

from components.config import PolicyConfig, RunConfig, VllmGeneration


def initial_models(policies: Mapping[str, PolicyConfig]) -> dict[str, tuple[str, ...]]:
    """The models to prepare before training, by name, each with its policies.

    Adapters share a model when base, shape and prompts are equal. A policy behind an API has none.

    **Example** planner and solver with adapters on "tiny", judge with full weights: `{"planner+solver": ("planner",
    "solver"), "judge": ("judge",)}`.
    """
    sharing: dict[str, list[str]] = {}
    for policy, settings in sorted(policies.items()):
        if settings.api is None:
            shared = (settings.base, settings.tiny.model_dump_json(), settings.prompt_format)
            sharing.setdefault(repr(shared) if settings.adapter else policy, []).append(policy)
    return {"+".join(names): tuple(names) for names in sharing.values()}


def name_served_models(config: RunConfig) -> dict[str, tuple[str, ...]]:
    """Name of an engine's model -> policies. Adapters on one base share its engines, unless they are merged.

    **Example** planner and solver with adapters on "tiny": `{"planner+solver": ("planner", "solver")}`; with
    generation.vllm.merge_adapters: `{"planner": ("planner",), "solver": ("solver",)}`.
    """
    models = initial_models(config.policies)
    if isinstance(config.generation, VllmGeneration) and config.generation.vllm.merge_adapters:
        return {policy: (policy,) for policies in models.values() for policy in policies}
    return models


def name_served_model(config: RunConfig, policy: str) -> str:
    """The name of the model of a policy's engine."""
    return next(name for name, policies in name_served_models(config).items() if policy in policies)
