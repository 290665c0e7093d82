"""The method `population`: what has no effect is refused by name with a remedy, and what is accepted survives being stored."""

from itertools import product
from typing import Any, get_args

import pytest

from components.config import RunConfig, parse_config
from components.config.population import TrainingMode, WeightUpdates
from components.errors import ConfigurationError

ADAPTER = {"adapter": {"rank": 4}}
VALUES: dict[str, Any] = {
    "num_steps": 3,
    "environment": {"name": "coop_compete", "options": {"num_members": 2}, "answer_format": "choice"},
    "agents": {"player_0": {"policy": "one"}, "player_1": {"policy": "two"}},
    "policies": {"one": ADAPTER, "two": ADAPTER},
    "rollout": {"mode": "independent"},
    "algorithm": {"advantage": "role_baseline"},
    "method": {"type": "population"},
}
ALONE = {"agents": {"player_0": {"policy": "one"}}, "policies": {"one": ADAPTER}}


def members(**fields: Any) -> dict[str, Any]:
    """A population with these fields."""
    return {"method": {"type": "population", **fields}}


def make_hierarchy(mode: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A hierarchical population with these fields of its mode."""
    return members(training_mode={"type": "hierarchical", **mode}, **fields)


TREE = {"rollout": {"mode": "tree"}, "algorithm": {"advantage": "at_grpo"}}


def test_a_field_of_another_variant_is_refused_by_name_with_its_owner() -> None:
    """Of every mode and strategy, and for every field that only others have."""
    for union, place in ((TrainingMode, "training_mode"), (WeightUpdates, "weight_updates")):
        variants = get_args(get_args(union)[0])
        assert len(variants) == 4
        owners = {
            field: [each for each in variants if field in each.model_fields]
            for each in variants
            for field in each.model_fields.keys() - {"type"}
        }
        for variant, (field, having) in product(variants, owners.items()):
            name, default = variant.model_fields["type"].default, having[0].model_fields[field].default
            values = VALUES | {"method": {"type": "population", place: {"type": name, field: default}}}
            if variant in having:
                assert getattr(getattr(parse_config(values).method, place), field) == default
                continue
            named = " and ".join(each.model_fields["type"].default for each in having)
            with pytest.raises(
                ConfigurationError, match=rf"^method.{place}.{field}: unknown key; type {named} has it$"
            ):
                parse_config(values)


def test_a_name_alone_is_a_variant_with_its_defaults() -> None:
    short = parse_config(VALUES | {"method": {"type": "population", "training_mode": "competitive"}})
    long = {"type": "population", "training_mode": {"type": "competitive", "competition_intensity": 0.4}}
    assert short == parse_config(VALUES | {"method": long})
    assert parse_config(VALUES | {"method": "population"}) == parse_config(VALUES)
    with pytest.raises(
        ConfigurationError, match=r"^method.training_mode.type: unknown; did you mean 'mixed'\? there are"
    ):
        parse_config(VALUES | {"method": {"type": "population", "training_mode": "mixd"}})
    with pytest.raises(
        ConfigurationError, match=r"^method: write it as {type: NAME}, where NAME is one of team.*got None"
    ):
        parse_config(VALUES | {"method": None})


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"method": "team"}, "algorithm.advantage role_baseline keeps averages of a population's agents: set method to population"),
    ({"rollout": {"mode": "single"}}, "role_baseline compares whole episodes: set rollout.mode to independent"),
    ({"algorithm": {"advantage": "grpo"}}, "grpo under rollout.mode independent does not know each agent's return"),
    ({"algorithm": {"advantage": "rloo"}}, "rloo under rollout.mode independent does not know each agent's return"),
    ({"rollout": {"mode": "tree"}, "algorithm": {"advantage": "dr_mas"}}, "dr_mas under rollout.mode tree does not"),
    (make_hierarchy({"leader": "ann"}), "leader 'ann' is no agent; agents are player_0"),
    (make_hierarchy({"leader_term": 2}, rotates_seats=True), "leave one of them out"),
    (members(training_mode={"type": "mixed", "team_size": 3}), "team_size 3 for 2 agents: use a divisor"),
    (ALONE, "training_mode mixed compares agents, and there is one: add another agent, or set it to cooperative"),
    ({"algorithm": {"advantage": "gae", "baseline_decay": 0.5}}, "algorithm.baseline_decay: unknown key; advantage role_base"),
    ({"algorithm": {"advantage": "gae"}, "training": {"zero_stage": 1}}, "zero_stage 1 splits optimizers, and algorithm.adv"),
    ({"algorithm": {"advantage": "gae"}, "loss": {"mask_truncated": True}}, "mask_truncated leaves actions out, and the cr"),
    (
        {"algorithm": {"advantage": "gae"}} | members(weight_updates="federated"),
        "federated starts optimizers anew, with which algorithm.advantage gae keeps its critic: set policies.<name>.adapter",
    ),
    ({"algorithm": {"advantage": "role_baseline", "trace": 0.5}}, "algorithm.trace: unknown key; advantage gae has it"),
    (TREE | {"algorithm": {"advantage": "at_grpo", "discount": 0.5}}, "algorithm.discount: unknown key; advantage role"),
    (members(opponents={"share": 0.4}), "share 0.4 of rollout.num_shards 1 is less than one shard: raise"),
    (members(rotates_seats=True), "num_shards 1 does not seat each member as each of 2 agents equally often"),
    (members(opponents={"lowest_payoff": 1.0}), "lowest_payoff 1 is not below highest_payoff 1"),
    (ALONE | members(training_mode="cooperative", opponents={"share": 1.0}), "nobody to play against"),
    ({"rollout": {"mode": "independent", "overlap": "one_step"}, "loss": {"importance_cap": 2.0}},
     "rollout.overlap one_step does not know the returns of a population's agents: set it to none"),
    ({"rollout": {"mode": "independent", "max_resamples": 1}}, "rollout.max_resamples 1 does not know"),
    (TREE | {"rewards": {"team_credit": "turn_end"}}, "rewards.team_credit turn_end does not know"),
    (members(weight_updates={"every": 3}), "method.weight_updates.every: Input should be less than or equal to 2"),
    (members(weight_updates={"every": 2}), "trains on answers of the weights before: set loss.importance_cap"),
    ({"policies": {"one": {}, "two": ADAPTER}} | members(weight_updates="federated"),
     r"weight_updates federated mixes adapters, and policies \['one'\] have none: set policies.<name>.adapter"),
    ({"policies": {"one": {"adapter": {"rank": 2}}, "two": ADAPTER}} | members(weight_updates="synchronized"),
     "weight_updates synchronized: policies one and two differ in base or adapter: give all trained policies the same"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "named"), REFUSED)
def test_what_does_not_go_with_a_population_is_refused_with_a_remedy(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        parse_config(VALUES | values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        TREE,
        TREE | {"algorithm": {"advantage": "rloo"}},
        {"algorithm": {"advantage": "role_mean", "normalize_std": True}},
        ALONE | members(training_mode="cooperative"),
        make_hierarchy({"leader": "player_1"}),
        {"policies": {"one": {}, "two": {}}} | members(weight_updates={"type": "selective", "best_share": 1.0}),
        {"policies": {"one": ADAPTER | {"trained": False}, "two": ADAPTER}}
        | members(weight_updates={"type": "federated", "personal_share": 0.3}),
    ],
)  # fmt: skip
def test_what_goes_with_a_population_survives_being_stored(values: dict[str, Any]) -> None:
    stored = parse_config(VALUES | values)
    assert RunConfig.model_validate(stored.model_dump(mode="json")) == stored
