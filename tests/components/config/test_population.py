"""The section `population`: what has no effect is refused by name with a remedy, and what is accepted survives being stored."""

from typing import Any

import pytest

from components.config import PopulationConfig, RunConfig, WeightUpdateConfig, parse_config
from components.errors import ConfigurationError

ADAPTER = {"adapter": {"rank": 4}}
VALUES: dict[str, Any] = {
    "num_steps": 3,
    "environment": {"name": "coop_compete", "options": {"num_members": 2}, "answer_format": "choice"},
    "agents": {"player_0": {"policy": "one"}, "player_1": {"policy": "two"}},
    "policies": {"one": ADAPTER, "two": ADAPTER},
    "rollout": {"mode": "independent"},
    "algorithm": {"advantage": "role_baseline"},
    "population": {},
}
ALONE = {"agents": {"player_0": {"policy": "one"}}, "policies": {"one": ADAPTER}}
TREE = {"rollout": {"mode": "tree"}, "algorithm": {"advantage": "at_grpo"}}
OF_MODES: dict[str, dict[str, Any]] = {
    "cooperation_strength": {"value": 0.3, "modes": {"cooperative", "mixed"}},
    "competition_intensity": {"value": 0.3, "modes": {"competitive", "mixed"}},
    "team_size": {"value": 1, "modes": {"cooperative", "mixed"}},
    "leader": {"value": "player_1", "modes": {"hierarchical"}},
    "leader_term": {"value": 3, "modes": {"hierarchical"}},
    "compliance_bonus": {"value": 0.3, "modes": {"hierarchical"}},
}
OF_STRATEGIES: dict[str, dict[str, Any]] = {
    "every": {"value": 2, "strategies": {"synchronized", "federated", "asynchronous"}},
    "staleness_exponent": {"value": 1.0, "strategies": set()},
    "personal_share": {"value": 0.3, "strategies": {"federated"}},
    "return_temperature": {"value": 1.0, "strategies": {"federated"}},
    "proximal": {"value": 0.1, "strategies": {"federated"}},
    "best_share": {"value": 0.3, "strategies": {"selective"}},
    "exploration": {"value": 0.3, "strategies": {"selective"}},
    "max_rounds_waiting": {"value": 1, "strategies": {"selective"}},
}


def test_the_tables_above_have_every_field() -> None:
    everywhere = {"training_mode", "weight_updates", "discount", "baseline_decay", "rotates_seats", "opponents"}
    assert PopulationConfig.model_fields.keys() == OF_MODES.keys() | everywhere
    assert WeightUpdateConfig.model_fields.keys() == OF_STRATEGIES.keys() | {"strategy"}


@pytest.mark.parametrize("mode", ["cooperative", "competitive", "mixed", "hierarchical"])
@pytest.mark.parametrize("field", OF_MODES)
def test_a_field_of_another_mode_is_refused(mode: str, field: str) -> None:
    value, modes = OF_MODES[field]["value"], OF_MODES[field]["modes"]
    if mode in modes:
        assert getattr(PopulationConfig(training_mode=mode, **{field: value}), field) == value  # type: ignore[arg-type]
        return
    with pytest.raises(ValueError, match=rf"{field} {value} has no effect under training_mode {mode}: leave it out"):
        PopulationConfig(training_mode=mode, **{field: value})  # type: ignore[arg-type]
    default = {field: PopulationConfig.model_fields[field].default}
    assert PopulationConfig(training_mode=mode, **default)  # type: ignore[arg-type]


def test_staleness_counts_where_weights_are_old() -> None:
    assert WeightUpdateConfig(every=2, staleness_exponent=1.0).staleness_exponent == 1.0


@pytest.mark.parametrize("strategy", ["asynchronous", "synchronized", "federated", "selective"])
@pytest.mark.parametrize("field", OF_STRATEGIES)
def test_a_field_of_another_strategy_is_refused(strategy: str, field: str) -> None:
    value, strategies = OF_STRATEGIES[field]["value"], OF_STRATEGIES[field]["strategies"]
    if strategy in strategies:
        assert getattr(WeightUpdateConfig(strategy=strategy, **{field: value}), field) == value  # type: ignore[arg-type]
        return
    with pytest.raises(ValueError, match=rf"{field} {value} has no effect under strategy {strategy}: leave it out"):
        WeightUpdateConfig(strategy=strategy, **{field: value})  # type: ignore[arg-type]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"population": None}, "algorithm.advantage role_baseline reads the returns of a population: add its section"),
    ({"rollout": {"mode": "single"}}, "role_baseline credits the actions of whole episodes: set rollout.mode to indep"),
    ({"algorithm": {"advantage": "grpo"}}, "grpo under rollout.mode independent does not know each agent's return"),
    ({"algorithm": {"advantage": "rloo"}}, "rloo under rollout.mode independent does not know each agent's return"),
    ({"rollout": {"mode": "tree"}, "algorithm": {"advantage": "dr_mas"}}, "dr_mas under rollout.mode tree does not"),
    ({"population": {"training_mode": "hierarchical", "leader": "ann"}}, "leader 'ann' is no agent; agents are player_0"),
    ({"population": {"training_mode": "hierarchical", "leader_term": 2, "rotates_seats": True}}, "leave one of them out"),
    ({"population": {"team_size": 3}}, "team_size 3 for 2 agents: use a divisor"),
    (ALONE, "training_mode mixed compares agents, and there is one: add another agent, or set it to cooperative"),
    ({"algorithm": {"advantage": "gae"}, "population": {"baseline_decay": 0.5}}, "baseline_decay 0.5 has no effect"),
    ({"algorithm": {"advantage": "gae"}, "training": {"zero_stage": 1}}, "zero_stage 1 splits optimizers, and algorithm.adv"),
    ({"algorithm": {"advantage": "gae"}, "loss": {"mask_truncated": True}}, "mask_truncated leaves actions out, and a critic"),
    (
        {"algorithm": {"advantage": "gae"}, "population": {"weight_updates": {"strategy": "federated"}}},
        "federated starts optimizers anew, with which algorithm.advantage gae keeps its critic: set policies.<name>.adapter",
    ),
    ({"algorithm": {"advantage": "role_baseline", "trace": 0.5}}, "role_baseline has no trace: leave it out, or set advant"),
    ({"algorithm": {"advantage": "role_mean"}, "population": {"baseline_decay": 0.5}}, "baseline_decay 0.5 has no effect"),
    (TREE | {"population": {"discount": 0.5}}, "discount 0.5 has no effect under rollout.mode tree: leave it out"),
    ({"population": {"opponents": {"share": 0.4}}}, "share 0.4 of rollout.num_shards 1 is less than one shard: raise"),
    ({"population": {"rotates_seats": True}}, "num_shards 1 does not seat each member as each of 2 agents equally often"),
    ({"population": {"opponents": {"lowest_payoff": 1.0}}}, "lowest_payoff 1 is not below highest_payoff 1"),
    (ALONE | {"population": {"training_mode": "cooperative", "opponents": {"share": 1.0}}}, "nobody to play against"),
    ({"rollout": {"mode": "independent", "overlap": "one_step"}, "loss": {"importance_cap": 2.0}},
     "rollout.overlap one_step does not know the returns of a population's agents: set it to none"),
    ({"rollout": {"mode": "independent", "max_resamples": 1}}, "rollout.max_resamples 1 does not know"),
    (TREE | {"rewards": {"team_credit": "turn_end"}}, "rewards.team_credit turn_end does not know"),
    ({"population": {"weight_updates": {"every": 3}}}, "every 3: asynchronous members play by weights of at most one update"),
    ({"population": {"weight_updates": {"every": 2}}}, "trains on answers of the weights before: set loss.importance_cap"),
    ({"policies": {"one": {}, "two": ADAPTER}, "population": {"weight_updates": {"strategy": "federated"}}},
     r"strategy federated mixes adapters, and policies \['one'\] have none: set policies.<name>.adapter"),
    ({"policies": {"one": {"adapter": {"rank": 2}}, "two": ADAPTER},
      "population": {"weight_updates": {"strategy": "synchronized"}}},
     "strategy synchronized: policies one and two differ in base or adapter: give all trained policies the same"),
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
        ALONE | {"population": {"training_mode": "cooperative"}},
        {"population": {"training_mode": "hierarchical", "leader": "player_1"}},
        {"population": {"weight_updates": {"strategy": "selective", "best_share": 1.0}}, "policies": {"one": {}, "two": {}}},
        {"policies": {"one": ADAPTER | {"trained": False}, "two": ADAPTER},
         "population": {"weight_updates": {"strategy": "federated", "personal_share": 0.3}}},
    ],
)  # fmt: skip
def test_what_goes_with_a_population_survives_being_stored(values: dict[str, Any]) -> None:
    stored = parse_config(VALUES | values)
    assert RunConfig.model_validate(stored.model_dump(mode="json")) == stored
