from components.config import AdapterConfig, ApiConfig, PolicyConfig
from components.models.model_groups import initial_models

ADAPTED = PolicyConfig(adapter=AdapterConfig())


def test_policies_with_weights_of_their_own_begin_apart() -> None:
    assert initial_models({"b": PolicyConfig(), "a": PolicyConfig()}) == {"a": ("a",), "b": ("b",)}


def test_adapters_of_equal_bases_begin_together_whatever_their_rank() -> None:
    larger = PolicyConfig(adapter=AdapterConfig(rank=32))
    policies = {"solver": larger, "planner": ADAPTED, "judge": PolicyConfig()}
    assert initial_models(policies) == {"judge": ("judge",), "planner+solver": ("planner", "solver")}


def test_other_bases_shapes_and_prompts_are_not_shared() -> None:
    policies = {
        "a": ADAPTED,
        "b": ADAPTED.model_copy(update={"base": "elsewhere"}),
        "c": ADAPTED.model_copy(update={"prompt_format": "chat"}),
    }
    assert initial_models(policies) == {"a": ("a",), "b": ("b",), "c": ("c",)}


def test_a_policy_behind_an_api_begins_from_nothing() -> None:
    api = ApiConfig(provider="openai", model="m")
    assert initial_models({"a": PolicyConfig(api=api, trained=False, prompt_format="chat")}) == {}
