"""A run's team is read as it learned to answer, also where it plays something else."""

from pathlib import Path

import pytest

from components.config import RunConfig
from components.errors import ConfigurationError
from flows.suites import build_played_config, find_named_suite, read_as, suite_config, suite_to_play
from tests.sections import make_config as make_team_config


def make_config(answer_format: str) -> RunConfig:
    return make_team_config({"name": "plan_path", "answer_format": answer_format}, "tool_agent", "plan_agent")


@pytest.mark.parametrize("answer_format", ["strict", "free"])
@pytest.mark.parametrize("name", [None, "plan_path", "sokoban"])
def test_a_team_is_read_as_it_learned(name: str | None, answer_format: str) -> None:
    own = make_config(answer_format)
    assert build_played_config(name, {}, own=own).environment.answer_format == answer_format
    assert read_as(make_config("strict"), own).environment == own.environment


def test_without_a_run_the_environment_decides() -> None:
    assert build_played_config("sokoban", {}, own=None).environment.answer_format == "strict"
    assert read_as(make_config("free"), None) == make_config("free")


def test_the_file_that_train_takes_is_played_and_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = "{name: plan_path, options: {size: 7}}"
    (tmp_path / "mine.yaml").write_text(
        f"{{num_steps: 1, environment: {environment}, agents: {{tool_agent: {{policy: p}}, plan_agent: {{policy: p}}}}, "
        "policies: {p: {}}}"
    )
    monkeypatch.chdir(tmp_path)
    assert build_played_config("mine.yaml", {"min_distance": 3}, own=None).environment.options == {
        "size": 7,
        "min_distance": 3,
    }
    config, suite = suite_config(f"{tmp_path}/mine.yaml/train", ["seed=4"])
    assert (config.environment.options, config.seed, suite) == ({"size": 7}, 4, "train")
    assert [find_named_suite(text) for text in ("a/mine.yml", "sokoban/train", "sokoban", "sokoban/")] == [
        *(("a/mine.yml", "test"), ("sokoban", "train"), ("sokoban", "test"), ("sokoban", "test"))
    ]


def test_a_suite_of_prefect_yaml_is_played_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = make_config("free")
    found = suite_to_play("tiny", own, ["environment.max_turns=3"])
    assert (found.suite.num_problems, found.suite.seed, found.suite.problems_per_block) == (40, 0, 20)
    assert found.suite.environment == found.config.environment
    assert (found.config.environment.max_turns, found.config.environment.answer_format) == (3, "free")
    asked = suite_to_play("tiny", own, num_problems=7, seed=5).suite
    assert (asked.num_problems, asked.seed) == (7, 5)
    assert suite_to_play("tiny/train", None).suite.split == "train", "a split of the preset"
    assert suite_to_play(None, own).suite.num_problems == own.evaluation.num_problems
    (tmp_path / "prefect.yaml").write_text(
        "deployments:\n- name: tiny\n  entrypoint: flows.evaluate.evaluate\n"
        "  parameters: {suite: {environment: {name: sokoban}, num_problems: 3}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert suite_to_play("tiny", None).suite.title == "sokoban/test"
    (tmp_path / "prefect.yaml").write_text("deployments: [{name: mine, entrypoint: flows.evaluate.evaluate}]")
    with pytest.raises(ConfigurationError, match="deployment mine needs `name` and `parameters"):
        suite_to_play("tiny", None)


def test_a_wrong_suite_of_a_project_is_one_line_with_its_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = "{environment: {name: sokoban, max_trns: 3}, num_problems: 0}"
    (tmp_path / "prefect.yaml").write_text(
        f"deployments: [{{name: mine, entrypoint: flows.evaluate.evaluate, parameters: {{suite: {suite}}}}}]"
    )
    monkeypatch.chdir(tmp_path)
    place = "evaluate/mine: parameters.suite."
    with pytest.raises(ConfigurationError) as refused:
        suite_to_play("mine", None)
    assert str(refused.value).splitlines() == [
        f"{place}environment.max_trns: unknown key; did you mean 'max_turns'?",
        f"{place}num_problems: Input should be greater than or equal to 1 (got 0)",
    ]


def test_two_suites_of_a_project_have_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = "{name: mine, entrypoint: flows.evaluate.evaluate, parameters: {suite: {environment: {name: sokoban}}}}"
    (tmp_path / "prefect.yaml").write_text(f"deployments: [{suite}, {suite}]")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="two deployments are called mine"):
        suite_to_play("mine", None)


def test_what_follows_a_file_is_a_suite_after_a_slash_or_no_file() -> None:
    assert find_named_suite("a/mine.yaml/train") == ("a/mine.yaml", "train")
    assert find_named_suite("mine.yml") == ("mine.yml", "test")
    assert find_named_suite("mine.yaml:train") == ("mine.yaml:train", "test")
