"""Which policies start from the same model: adapters share one, full models do not."""

from collections.abc import Mapping

from components.config import PolicyConfig


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
