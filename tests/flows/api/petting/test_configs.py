"""Configurations by name, and what each key of one sets."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from components.config.parsing import differing_fields
from components.errors import ConfigurationError
from components.session.scenario import scenario_of
from flows.api.petting.config import ppo_trainer
from flows.api.petting.config.code import l2, single_policy, two_policy
from flows.api.petting.configs import DOMAINS, SETTINGS, config_names, get_config, merge_config, run_config
from flows.api.petting.trainer.train import in_folder
from flows.preflight.checks import check_environment
from flows.presets import preset_config

LEVELS = {"_single_policy": "L1", "_two_policy": "L3", "-l0": "L0", "-l1": "L1", "-l2": "L2", "-l3": "L3"}
TEAM = ("agents.tester", "agents.coder")
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "num_iterations": (7, {"num_steps": 7}),
    "seed": (3, {"seed": 3}),
    "env_options": ({"dataset": "procedural", "levels": [1]}, {"environment.options.levels": [1]}),
    "max_turns": (5, {"environment.max_turns": 5}),
    "batch_size": (128, {"rollout.num_problems": 128}),
    "train_sample_num": (4, {"rollout.group_size": 4}),
    "rollout_mode": ("independent", {"rollout.mode": "independent"}),
    "advantage": ("dr_mas", {"algorithm.advantage": "dr_mas"}),
    "alpha": (0.5, {"rewards.team_weight": 0.5}),
    "temperature": (0.7, {"rollout.temperature": 0.7}),
    "max_response_length": (50, {f"{role}.max_new_tokens": 50 for role in TEAM}),
    "learning_rate": (1e-5, {"training.learning_rate": 1e-5, "policies.team.learning_rate": 1e-5}),
    "ppo_epochs": (2, {"training.num_epochs": 2}),
    "val_freq": (5, {"evaluation.every": 5}),
    "val_episodes": (9, {"evaluation.num_problems": 9}),
    "engine": ("vllm", {"generation.engine": "vllm"}),
    "device": ("cuda", {"generation.device": "cuda", "training.device": "cuda"}),
}
"""Key -> another value, and the fields that it sets, for code_single_policy."""
FOLLOWS = {
    "rollout_mode": ["algorithm.advantage=grpo"],
}
"""What such a configuration has to say besides."""
VARIANTS = {
    "engine": (
        "generation.max_batch_tokens: ",
        "generation.kept_prefixes_gib: ",
        "generation.program_calls: ",
        "generation.vllm.",
    ),
}
"""What comes and goes with the section that a value brings, or with the one that it chooses."""


@pytest.mark.parametrize("name", config_names())
def test_every_domain_has_every_level(name: str) -> None:
    end = next(end for end in LEVELS if name.endswith(end))
    config = run_config({"config_name": name})
    assert config.preset == name
    assert config.specialisation == LEVELS[end]
    assert config.environment.name in DOMAINS[name.removesuffix(end)]
    check_environment(scenario_of(config))


def test_the_names_are_those_of_five_domains_at_six_ends() -> None:
    domains = ("code", "math", "search", "stateful", "games")
    assert config_names() == [f"{domain}{end}" for domain in domains for end in LEVELS]


@pytest.mark.parametrize("name", ["code_single_policy", "games-l2", "search-l0", "tiny", "plan-path-qwen"])
def test_a_configuration_as_it_is_given_is_the_named_one(name: str) -> None:
    assert run_config(get_config(name)) == run_config({"config_name": name})


def test_a_single_policy_is_the_preset_and_a_preset_is_itself() -> None:
    (difference,) = differing_fields(
        dump(single_policy.get_config()), preset_config("code-tiny").model_dump(mode="json")
    )
    assert difference == "preset: 'code_single_policy' -> 'code-tiny'"
    assert run_config({"config_name": "tiny"}) == preset_config("tiny")


def test_an_adapter_per_role_is_that_of_the_preset_that_has_one() -> None:
    adapted, given = run_config(l2.get_config()), preset_config("plan-path-l2").policies["tool"]
    assert {name: policy.adapter for name, policy in adapted.policies.items()} == dict.fromkeys(
        ("tester", "coder"), given.adapter
    )
    assert get_config("code-l2")["learning_rate"] == given.learning_rate
    assert run_config(get_config("code-l2", learning_rate=1e-4)).policies["coder"].learning_rate == 1e-4


def dump(config: dict[str, Any]) -> dict[str, Any]:
    return run_config(config).model_dump(mode="json")


@cache
def single() -> dict[str, Any]:
    return dump(single_policy.get_config())


def test_the_table_of_changes_is_whole() -> None:
    assert CHANGES.keys() == SETTINGS.keys()


@pytest.mark.parametrize("key", sorted(CHANGES))
def test_a_key_sets_its_fields_and_no_others(key: str) -> None:
    value, fields = CHANGES[key]
    after = dump({**single_policy.get_config(), key: value, "overrides": FOLLOWS.get(key, [])})
    changes = differing_fields(single(), after)
    beside = [each.partition("=")[0] for each in FOLLOWS.get(key, [])]
    expected = (*(f"{each}: " for each in (*fields, *beside)), *VARIANTS.get(key, ()))
    assert all(change.startswith(expected) for change in changes), changes
    assert all(value_at(after, place) == wanted_value for place, wanted_value in fields.items())


def value_at(values: Any, place: str) -> Any:
    for part in place.split("."):
        values = values[part]
    return values


def test_roles_that_differ_are_read_and_set_by_name() -> None:
    config = two_policy.get_config()
    assert config["max_response_length"] == {"tester": 96, "coder": 64}
    config["max_response_length"]["coder"] = 70
    config["learning_rate"] = {"tester": 1e-4}
    trained = run_config(config)
    assert {role: agent.max_new_tokens for role, agent in trained.agents.items()} == {"tester": 96, "coder": 70}
    assert {name: policy.learning_rate for name, policy in trained.policies.items()} == {"tester": 1e-4, "coder": None}
    assert two_policy.get_config()["max_response_length"]["coder"] == 64, "a dict is the caller's own"
    aliased = run_config({"config_name": "plan-path-l2", "learning_rate": {"tool": 1e-4}}).policies
    assert aliased["tool"].learning_rate == 1e-4 != aliased["plan"].learning_rate


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rat": 1}, r"config\['learning_rat'\]: unknown key; did you mean 'learning_rate'"),
        ({"learning_rate": -1}, r"^config\['learning_rate'\]: Input should be greater than 0 \(got -1\)$"),
        ({"batch_size": "many"}, r"config\['batch_size'\]: .*got 'many'"),
        ({"base_model": Path("some/model")}, r"config\['base_model'\]: .*'some/model'.* is no number, text, list or"),
        ({"max_response_length": {"testr": 3}}, "'testr' is none of them; did you mean 'tester'"),
        ({"env_name": "math"}, "'math': not in code; valid names: code"),
        ({"overrides": ["rollout.group_sise=4"]}, "rollout.group_sise: unknown key; did you mean 'group_size'"),
        ({"config_name": "code_single_polcy"}, "did you mean 'code_single_policy'"),
        ({"config_name": "plan-path", "env_name": "sokoban"}, "plan-path is of plan_path; name the configuration of a"),
    ],
)
def test_a_wrong_key_or_value_names_the_key_and_the_remedy(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run_config({"config_name": "code_single_policy", **settings})


def test_an_environment_and_a_base_model_bring_defaults_that_fit_them() -> None:
    chosen = get_config("stateful_single_policy", env_name="sokoban")
    assert run_config(chosen).environment.name == "sokoban"
    assert chosen["env_options"] == preset_config("sokoban").environment.options
    pretrained = get_config("math_two_policy", base_model="some/model")
    trained = run_config(pretrained)
    assert {(each.base, each.prompt_format) for each in trained.policies.values()} == {("some/model", "chat")}
    assert (trained.environment.answer_format, trained.training.learning_rate) == ("free", 1e-5)
    assert pretrained["learning_rate"] == 1e-5
    late = {**get_config("math_two_policy"), "base_model": "some/model"}
    assert run_config(late).training.learning_rate == 5e-4, "what the dict says is what is trained"


def test_an_exported_model_that_was_built_here_is_no_chat_model(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert (
        run_config({"config_name": "code-l1", "base_model": str(tmp_path)}).policies["team"].prompt_format == "compact"
    )
    (tmp_path / "chat_template.jinja").write_text("")
    assert run_config({"config_name": "code-l1", "base_model": str(tmp_path)}).policies["team"].prompt_format == "chat"


def test_the_presets_of_the_folder_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "agents: {tester: {policy: %s}, coder: {policy: b}}, policies: {%s}"
    text = (
        "deployments: [{name: code-tiny, entrypoint: flows.train.train, parameters: {config: {preset: code-tiny, num_steps: 9,"
        f" environment: {{name: code}}, rollout: {{}}, {own}}}}}}}]"
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prefect.yaml").write_text(text % ("b", "b: {}"))
    assert get_config("code_two_policy")["num_iterations"] == 9
    (tmp_path / "prefect.yaml").write_text(text % ("a", "a: {}, b: {}"))
    with pytest.raises(ConfigurationError, match=r"its policies are .*'a', 'b'.*made of a preset with one policy"):
        get_config("code_two_policy")


def test_what_a_caller_says_is_one_configuration() -> None:
    config = single_policy.get_config()
    assert merge_config(config, {"seed": 1}) == {**config, "seed": 1}
    assert merge_config("code_single_policy", {}) == {"config_name": "code_single_policy"}
    for none in (None, {"seed": 1}):
        with pytest.raises(ConfigurationError, match="name a configuration"):
            merge_config(none, {})


def test_a_run_in_a_folder_keeps_everything_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = in_folder(preset_config("tiny"), "checkpoints/")
    assert (config.store.kind, config.store.root) == ("local", str(tmp_path / "checkpoints"))
    assert config.tracking.kind == "none"
    assert in_folder(preset_config("tiny"), None) == preset_config("tiny")


def test_the_training_part_has_no_environment_and_no_model() -> None:
    part = ppo_trainer.get_config("code-l2", ppo_epochs=3)
    assert {"batch_size", "learning_rate", "ppo_epochs", "advantage"} <= part.keys()
    assert not {"env_options", "max_turns", "device", "config_name", "base_model"} & part.keys()
    assert run_config({"config_name": "math-l1", **part}).training.num_epochs == 3
