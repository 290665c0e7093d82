"""The fields that an algorithm's name sets, and invalid combinations."""

from typing import Any

import pytest
import yaml

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.sections import choose_algorithm, choose_loss

VALUES: dict[str, Any] = {
    "num_steps": 3,
    "environment": {"name": "plan_path"},
    "agents": {"tool_agent": {"policy": "team", "max_new_tokens": 20}, "plan_agent": {"policy": "team"}},
    "policies": {"team": {}},
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("at_grpo", (True, "group", False)),
        ("grpo", (True, "group", False)),
        ("dr_mas", (True, "group", False)),
        ("rloo", (False, "group", True)),
        ("reinforce_pp", (True, "batch", False)),
        ("dr_grpo", (False, "group", False)),
        ("c3", (False, "group", True)),
        ("gigpo", (True, "group", False)),
        ("solver_value", (False, "batch", False)),
    ],
)
def test_a_name_brings_its_fields_along_and_survives_being_written_down(name: Any, expected: tuple[Any, ...]) -> None:
    found = choose_algorithm(advantage=name)
    assert (found.normalize_std, found.normalize_over, found.leave_one_out) == expected
    assert choose_algorithm(**found.model_dump()) == found


@pytest.mark.parametrize(
    "fitting",
    [
        "algorithm: {advantage: c3}, rollout: {mode: nested}",
        "algorithm: {advantage: c3}, rewards: {team_credit: turn_end}",
        "algorithm: {advantage: gigpo, step_weight: 0.5}, rollout: {mode: independent}",
        "algorithm: {advantage: gigpo}, rollout: {mode: single}",
        "algorithm: {advantage: solver_value}",
        "algorithm: {advantage: solver_value, normalize_std: true}, rollout: {mode: independent}",
        "algorithm: {advantage: 'mine:own', epsilon: 0.5}",
    ],
)
def test_an_advantage_goes_with_the_modes_that_have_its_groups(fitting: str) -> None:
    stored = parse_config(VALUES | yaml.safe_load(f"{{{fitting}}}"))
    assert RunConfig.model_validate(stored.model_dump(mode="json")) == stored


def test_gigpo_has_the_papers_weight_and_discount() -> None:
    found = choose_algorithm(advantage="gigpo", step_weight=0.5)
    assert (found.step_weight, found.step_discount) == (0.5, 0.95)
    assert choose_algorithm(advantage="gigpo").step_weight == 1.0


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ({}, False),
        ({"entropy_coefficient": 0.01}, True),
        ({"kl_coefficient": 0.01}, True),
        ({"entropy_coefficient": 0.01, "kl_coefficient": 0.01, "average_over": "nonzero"}, False),
    ],
)
def test_batches_hold_silent_groups_where_a_term_of_the_loss_covers_them(loss: dict[str, Any], expected: bool) -> None:
    plain, changed = parse_config(VALUES), parse_config(VALUES | {"loss": loss})
    assert changed.loss.trains_silent_groups is expected
    same = PIPELINE["compute_advantages"].config_fields(plain) == PIPELINE["compute_advantages"].config_fields(changed)
    assert same is not expected


def test_given_fields_are_kept() -> None:
    assert choose_algorithm(advantage="rloo", normalize_std=True, normalize_over="batch").normalize_std
    assert choose_algorithm(leave_one_out=True).leave_one_out
    assert choose_loss(policy_loss="gspo").aggregation == "sequence_mean"
    stored = parse_config({**VALUES, "algorithm": {"advantage": "rloo"}, "loss": {"policy_loss": "gspo"}})
    assert RunConfig.model_validate(stored.model_dump(mode="json")) == stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "algorithm: {advantage: rloo, leave_one_out: false}",
            r"^algorithm\.leave_one_out: unknown key; advantage at_grpo",
        ),
        ("algorithm: {advantage: dr_grpo, normalize_std: true}", r"^algorithm\.normalize_std: unknown key; adv"),
        ("algorithm: {advantage: reinforce_pp, normalize_over: group}", r"algorithm\.normalize_over: unknown key"),
        ("algorithm: {advantage: reinforce_pp, leave_one_out: true}", r"algorithm\.leave_one_out: unknown key"),
        ("algorithm: {advantage: reinforce_pp, normalize_std: false}", r"algorithm\.normalize_std: unknown key"),
        ("algorithm: {advantage: c3}", r"set the mode to nested, or rewards\.team_credit to turn_end or episode_end"),
        ("rollout: {mode: independent}, algorithm: {advantage: c3}", r"set rollout\.mode to tree or nested"),
        ("algorithm: {advantage: gigpo}", r"set rollout\.mode to independent or single"),
        ("algorithm: {advantage: solver_value}, rewards: {shuffle_rewards: true}", "which learns from no "),
        ("algorithm: {step_weight: 1.0}", r"^algorithm\.step_weight: unknown key; advantage gigpo has it$"),
        (
            "rollout: {mode: independent}, algorithm: {advantage: grpo, step_weight: 1.0, step_discount: 0.9}",
            r"step_discount: unknown key; advantage gigpo has it\n.*step_weight|step_weight: .*\n.*step_discount: unknown key",
        ),
        ("algorithm: {advantage: ppo}", r"algorithm\.advantage: .*'at_grpo'"),
        ("algorithm: {advantage: grop}", r"algorithm\.advantage: unknown; did you mean 'grpo'\? .*module:function"),
        ("loss: {policy_loss: gpso}", r"loss\.policy_loss: unknown; did you mean 'gspo'\? .*\(got 'gpso'\)"),
        ("algorithm: {advantage: grpo}", r"set rollout\.mode to independent or single"),
        ("rollout: {mode: independent}", r"set rollout\.mode to"),
        ("rollout: {mode: single}", r"set rollout\.mode to"),
        ("rollout: {mode: single}, algorithm: {advantage: c3}", r"set rollout\.mode to"),
        ("rollout: {mode: nested}, algorithm: {advantage: gigpo}", r"set rollout\.mode to"),
        ("algorithm: {advantage: reinforce_pp}, rollout: {max_resamples: 1}", "set max_resamples to 0"),
        ("rewards: {team_credit: turn}", r"rewards\.team_credit: .*'turn_end'"),
        (
            "rollout: {mode: independent}, algorithm: {advantage: grpo}, rewards: {team_credit: turn_end}",
            "set team_credit to node, or the mode to tree",
        ),
        ("rollout: {mode: nested}, rewards: {team_credit: turn_end}", "set team_credit to node"),
        ("rollout: {branching: [2, 4]}", r"branching \[2, 4\] with mode 'tree': use mode nested"),
        ("rollout: {mode: nested, branching: [1, 1]}", "one at least 2"),
        ("rollout: {mode: nested, branching: [4, 0]}", "each is at least 1"),
        ("rollout: {mode: nested, branching: [16, 17]}", "end in 272 episodes per problem; at most 256"),
        (
            "rollout: {mode: nested, random_handoff_probability: 0.5}",
            "which plays all candidates to the end: set it to 0",
        ),
        (
            "loss: {policy_loss: gspo, aggregation: token_mean}",
            r"^loss\.aggregation: unknown key; policy_loss clip and",
        ),
        ("loss: {aggregation: fixed_length}", "needs fixed_length"),
        ("loss: {dual_clip: 3.0, policy_loss: cispo}", r"^loss\.dual_clip: unknown key; policy_loss clip"),
        ("loss: {dual_clip: 1.1}", r"set it above 1 \+ clip_high = 1.2"),
        ("loss: {importance_veto: 0.01}", "set importance_cap too"),
        ("loss: {reference_every: 4}", "kl_coefficient is 0: set kl_coefficient, for example 0.05"),
        (
            "loss: {reference_every: 4, kl_coefficient: 0.1}, training: {zero_stage: 3}, policies: {team: {adapter: {}}}",
            "needs whole adapters, as of team, and training.zero_stage 3 splits them: set it to 2",
        ),
        ("rollout: {overlap: one_step}", r"set loss\.importance_cap, for example 2"),
        ("rewards: {overlong_buffer: 20}", r"below agents\.tool_agent\.max_new_tokens 20"),
        ("loss: {fixed_length: 19}", r"loss\.fixed_length 19 is below agents\.tool_agent\.max_new_tokens 20"),
    ],
)
def test_combinations_that_mean_nothing_are_refused_with_a_remedy(change: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_config(VALUES | yaml.safe_load(f"{{{change}}}"))


@pytest.mark.parametrize(
    "change",
    [
        "algorithm: {advantage: rloo}",
        "algorithm: {advantage: rloo}, rollout: {mode: independent}",
        "algorithm: {advantage: dr_mas}, rollout: {mode: independent}",
        "algorithm: {advantage: reinforce_pp}, rollout: {mode: independent}",
        "algorithm: {advantage: dr_grpo}, loss: {aggregation: fixed_length, fixed_length: 20}",
        "rollout: {max_resamples: 2}, loss: {clip_high: 0.28}, rewards: {overlong_buffer: 5}",
        "loss: {kl_estimator: k1}",
        "loss: {importance_level: sequence}",
        "rollout: {overlap: one_step}, loss: {importance_cap: 2.0}",
    ],
)
def test_what_has_a_meaning_or_no_effect_is_accepted(change: str) -> None:
    parse_config(VALUES | yaml.safe_load(f"{{{change}}}"))


def test_limits_of_answers_are_inputs_of_the_reward_stage_only_where_length_is_punished() -> None:
    longer = {**VALUES, "agents": {**VALUES["agents"], "tool_agent": {"policy": "team", "max_new_tokens": 30}}}
    punished = {"rewards": {"overlong_buffer": 5}}
    stage = "compute_rewards"
    assert PIPELINE[stage].config_fields(parse_config(VALUES)) == PIPELINE[stage].config_fields(parse_config(longer))
    assert PIPELINE[stage].config_fields(parse_config(VALUES | punished)) != PIPELINE[stage].config_fields(
        parse_config(longer | punished)
    )


def test_the_advantage_is_an_input_of_the_rollouts_only_where_it_decides_what_is_replaced() -> None:
    other, stage = {"algorithm": {"advantage": "dr_mas"}}, "collect_rollouts"
    refills = {"rollout": {"max_resamples": 1}}
    assert PIPELINE[stage].config_fields(parse_config(VALUES)) == PIPELINE[stage].config_fields(
        parse_config(VALUES | other)
    )
    assert PIPELINE[stage].config_fields(parse_config(VALUES | refills)) != PIPELINE[stage].config_fields(
        parse_config(VALUES | refills | other)
    )


def test_a_lone_agent_has_a_warm_start_of_its_own_and_all_other_ways_share_one() -> None:
    unmixed = {"random_handoff_probability": 0.0}

    def fields(mode: str) -> dict[str, Any]:
        grpo = {"algorithm": {"advantage": "grpo"}} if mode != "tree" else {}
        return PIPELINE["warm_start"].config_fields(
            parse_config(VALUES | {"rollout": {"mode": mode, **unmixed}} | grpo)
        )

    assert fields("tree") == fields("independent") != fields("single")


def test_credit_and_fan_outs_belong_to_the_stages_that_they_change_and_to_none_at_their_defaults() -> None:
    plain = PIPELINE["collect_rollouts"].config_fields(parse_config(VALUES))
    assert "branching" not in plain.get("rollout", {})
    credited = parse_config(VALUES | {"rewards": {"team_credit": "turn_end"}})
    assert PIPELINE["collect_rollouts"].config_fields(credited) == plain | {"rewards.team_credit": "turn_end"}
    assert PIPELINE["compute_rewards"].config_fields(credited)["rewards"]["team_credit"] == "turn_end"
    assert "rewards" not in PIPELINE["compute_rewards"].config_fields(parse_config(VALUES))
    fans = parse_config(VALUES | {"rollout": {"mode": "nested", "branching": [2, 3]}})
    assert PIPELINE["collect_rollouts"].config_fields(fans)["rollout"]["branching"] == [2, 3]
