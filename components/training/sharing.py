"""Which policies begin from one model: each by itself where its weights are its own, together where they are adapters."""

from collections.abc import Mapping

from components.config import PolicyConfig


def starting_models(policies: Mapping[str, PolicyConfig]) -> dict[str, tuple[str, ...]]:
    """The models that have to be made before training, by name, each with the policies that begin from it.

    Adapters share a model when base, shape and prompts are equal. A policy behind an API has none.

    **Example** planner and solver with adapters on "tiny", judge with weights of its own: `{"planner+solver": ("planner",
    "solver"), "judge": ("judge",)}`.
    """
    sharing: dict[str, list[str]] = {}
    for policy, settings in sorted(policies.items()):
        if settings.api is None:
            shared = (settings.base, settings.tiny.model_dump_json(), settings.prompt_format)
            sharing.setdefault(repr(shared) if settings.adapter else policy, []).append(policy)
    return {"+".join(names): tuple(names) for names in sharing.values()}
