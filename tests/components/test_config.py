import pytest

from components.config import TrainingConfig, differing_fields, parse_config
from components.errors import ConfigurationError
from flows.steps import TEAM_PIPELINE as PIPELINE

VALUES = {
    "num_steps": 3,
    "environment": {"name": "plan_path"},
    "agents": {"tool_agent": {"policy": "team"}, "plan_agent": {"policy": "team"}},
    "policies": {"team": {}},
}


def test_changing_the_learning_rate_does_not_throw_rollouts_away() -> None:
    one, other = parse_config(VALUES), parse_config({**VALUES, "training": {"learning_rate": 1e-5}})
    assert PIPELINE["collect_rollouts"].config_fields(one) == PIPELINE["collect_rollouts"].config_fields(other)
    assert PIPELINE["update_policy"].config_fields(one) != PIPELINE["update_policy"].config_fields(other)


def test_more_steps_change_the_result_only_under_a_decaying_schedule() -> None:
    longer = {**VALUES, "num_steps": 9}
    assert parse_config(VALUES).result_fields() == parse_config(longer).result_fields()
    decaying = {"training": {"lr_schedule": "linear"}}
    assert parse_config(VALUES | decaying).result_fields() != parse_config(longer | decaying).result_fields()


def test_where_things_are_kept_and_shown_does_not_change_the_result() -> None:
    elsewhere = {**VALUES, "store": {"kind": "local", "root": "/x"}, "tracking": {"kind": "none"}, "preset": "p"}
    assert parse_config(VALUES).result_fields() == parse_config(elsewhere).result_fields()


def test_drift_is_told_leaf_by_leaf() -> None:
    old, new = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "e": {}}
    assert differing_fields(old, new) == ["a.c: 2 -> 5", "d: 3 -> '(absent)'", "e: '(absent)' -> {}"]


def test_drift_of_a_long_text_shows_where_it_begins() -> None:
    long = "x" * 900
    assert differing_fields({"a": f"{long}brief"}, {"a": f"{long}kind"}) == [
        f"a: at character 900: '{'x' * 16}brief' -> '{'x' * 16}kind'"
    ]
    assert differing_fields({"a": long}, {"a": f"{long}kind"}) == [
        f"a: at character 900: '{'x' * 16}' -> '{'x' * 16}kind'"
    ]
    (gone,) = differing_fields({"a": long}, {"a": None})
    assert gone.startswith("a: 'xxx")
    assert gone.endswith("… -> None")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"polices": {}}, "polices: unknown key; did you mean 'policies'"),
        ({"policies": {"team": {}, "spare": {}}}, r"policies \['spare'\] are played by no agent"),
        ({"store": {"kind": "local"}}, "kind local needs root"),
        ({"rollout": {"num_shards": 64}}, "num_shards 64 exceeds num_problems 32"),
        ({"num_steps": -1}, "num_steps: .*greater than or equal to 0"),
        ({"rollout": {"temperature": 0.001}}, r"rollout.temperature: .*greater than or equal to 0\.01"),
        ({"rollout": {"temperature": float("inf")}}, r"rollout.temperature: .*\(got inf\)"),
        ({"rollout": {"temperature": float("nan")}}, r"rollout.temperature: .*\(got nan\)"),
    ],
)
def test_wrong_values_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_config({**VALUES, **change})


def test_a_missing_section_is_named() -> None:
    with pytest.raises(ConfigurationError, match="environment: required and missing"):
        parse_config({key: value for key, value in VALUES.items() if key != "environment"})


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse_config(VALUES).num_steps = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "tokens"),
    [({}, 4096), ({"device": "cuda"}, 16384), ({"device": "cuda", "tokens_per_micro_batch": 512}, 512)],
)
def test_a_micro_batch_is_as_large_as_suits_the_device(given: dict[str, object], tokens: int) -> None:
    assert TrainingConfig.model_validate(given).tokens_per_micro_batch == tokens
