"""A run with own code continues with its original source, or reports what changed."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components import user_code
from components.artifacts.local import LocalArtifactStore
from components.config import RunConfig, parse_config
from components.environments import registry
from components.errors import ConfigDrift, ConfigurationError
from components.runs.resume_checks import validate_start
from components.runs.run import Run, stage_key
from components.session.scenario import scenario_of, with_environment_source, with_sources
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.tasks.stored_runs import config_in, store_run

Edit = Callable[[str], None]
ECHO = """
from troupe import Environment, Step

class Echo(Environment):
    roles = ("tool_agent", "plan_agent")
    def draw(self, options, rng): return {"word": rng.randrange(10**6)}
    def observe(self, state, agent): return str(state["word"])
    def step(self, state, agent, answer): return Step(state=state, solved=answer == str(state["word"]))
"""


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edit]:
    """Writes the module, and forgets what this process knows of it."""
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)

    def write(text: str) -> None:
        (tmp_path / "own_echo.py").write_text(text)
        sys.modules.pop("own_echo", None)
        registry._own.cache_clear()
        user_code.source_digest.cache_clear()

    write(ECHO)
    yield write
    sys.path[:] = before


def echo_in(root: Path) -> RunConfig:
    values = config_in(root).model_dump(mode="json")
    return parse_config({**values, "environment": {"name": "own_echo:Echo"}})


def rollout_key(config: RunConfig) -> str:
    arguments = {"step": 0, "part": "0", "versions": {}}
    return stage_key(PIPELINE["collect_rollouts"], Run(run_id="r", config=config), arguments).path


def test_a_changed_source_is_another_key_of_what_plays_and_of_nothing_else(edit: Edit, tmp_path: Path) -> None:
    before = with_sources(echo_in(tmp_path))
    assert before.environment.source is not None
    edit(ECHO.replace("10**6", "10**5"))
    after = with_sources(echo_in(tmp_path))
    assert rollout_key(before) != rollout_key(after)
    assert PIPELINE["compute_rewards"].config_fields(before) != PIPELINE["compute_rewards"].config_fields(after)
    assert PIPELINE["compute_advantages"].config_fields(before) == PIPELINE["compute_advantages"].config_fields(after)
    assert PIPELINE["update_policy"].config_fields(before) == PIPELINE["update_policy"].config_fields(after)


def test_keys_of_what_is_built_in_name_no_source(tmp_path: Path) -> None:
    config = with_sources(config_in(tmp_path))
    assert config.environment.source is None
    assert "source" not in PIPELINE["collect_rollouts"].config_fields(config)["environment"]
    for stage in PIPELINE.versions:
        assert not {"source", "sources", "functions"} & set(
            json.dumps(PIPELINE[stage].config_fields(config)).split('"')
        )


def test_a_run_goes_on_with_its_source_and_with_no_other(edit: Edit, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    store_run(tmp_path / "store", "r", config=with_sources(echo_in(tmp_path / "store")))
    assert validate_start(store, "r", with_sources(echo_in(tmp_path / "store")), PIPELINE).run_id == "r"
    edit(f"# a comment\n{ECHO}")
    with pytest.raises(
        ConfigDrift, match=r"another source of own_echo:Echo .*--from-stage collect_rollouts --step N.*`troupe rm r "
    ):
        validate_start(store, "r", with_sources(echo_in(tmp_path / "store")), PIPELINE)
    edit(ECHO)
    assert validate_start(store, "r", with_sources(echo_in(tmp_path / "store")), PIPELINE).run_id == "r"


def test_a_host_with_other_files_does_not_play(edit: Edit, tmp_path: Path) -> None:
    config = with_sources(echo_in(tmp_path))
    assert scenario_of(config).family.name == "own_echo:Echo"
    edit(ECHO.replace("10**6", "10**5"))
    with pytest.raises(ConfigurationError, match="bring the same files to every host"):
        scenario_of(config)


OWN = """
def brevity(episode, node): return [0.0 for _ in node.candidates]
def centred(episodes, rewards, algorithm): return rewards
def surrogate(inputs, config): return inputs.logprobs_N
"""
NAMED = {
    "compute_rewards": {"rewards": {"functions": ["own_part:brevity"]}},
    "compute_advantages": {"algorithm": {"advantage": "own_part:centred"}},
    "update_policy": {"loss": {"policy_loss": "own_part:surrogate"}},
}


def naming(stage: str, root: Path) -> RunConfig:
    """A built-in environment with one own part, on which `stage` is the first to depend."""
    values = config_in(root).model_dump(mode="json")
    changed = {section: {**values[section], **fields} for section, fields in NAMED[stage].items()}
    return with_sources(parse_config({**values, **changed}))


@pytest.fixture
def part(edit: Edit, tmp_path: Path) -> Edit:
    """Writes the module of the part, and forgets what this process knows of it."""

    def write(text: str) -> None:
        (tmp_path / "own_part.py").write_text(text)
        sys.modules.pop("own_part", None)
        user_code.source_digest.cache_clear()

    write(OWN)
    return write


@pytest.mark.parametrize("stage", NAMED)
def test_a_part_of_one_s_own_is_in_the_key_of_its_stage_alone(part: Edit, tmp_path: Path, stage: str) -> None:
    plain, before = config_in(tmp_path), naming(stage, tmp_path)
    part(f"# another thought\n{OWN}")
    after = naming(stage, tmp_path)
    for each in PIPELINE.versions:
        keys = [PIPELINE[each].config_fields(config) for config in (plain, before, after)]
        if each == stage:
            assert keys[0] != keys[1] != keys[2]
        else:
            assert keys[0] == keys[1] == keys[2], f"{each} does not depend on it"
    assert rollout_key(plain) == rollout_key(before) == rollout_key(after)


@pytest.mark.parametrize("stage", NAMED)
def test_a_changed_part_is_refused_by_name_with_the_stage_that_it_changes(
    part: Edit, tmp_path: Path, stage: str
) -> None:
    root = tmp_path / "store"
    store_run(root, "r", config=naming(stage, root))
    store = LocalArtifactStore(root)
    part(f"# another thought\n{OWN}")
    with pytest.raises(ConfigDrift, match=rf"another source of own_part:\w+ \(.*--from-stage {stage} --step N"):
        validate_start(store, "r", naming(stage, root), PIPELINE)
    with pytest.raises(ConfigDrift, match="exists with another configuration"):
        validate_start(store, "r", naming(stage, root).model_copy(update={"seed": 5}), PIPELINE)
    part(OWN)
    assert validate_start(store, "r", naming(stage, root), PIPELINE).run_id == "r"


def test_of_several_changed_parts_the_first_stage_is_named(part: Edit, tmp_path: Path) -> None:
    root = tmp_path / "store"
    everything = {key: value for values in NAMED.values() for key, value in values.items()}
    config = parse_config({**config_in(root).model_dump(mode="json"), **everything})
    store_run(root, "r", config=with_sources(config))
    part(f"# another thought\n{OWN}")
    with pytest.raises(
        ConfigDrift, match=r"another source of .*own_part:brevity.*--from-stage compute_rewards --step N"
    ):
        validate_start(LocalArtifactStore(root), "r", with_sources(config), PIPELINE)


def test_evaluation_asks_for_no_own_part(part: Edit, tmp_path: Path) -> None:
    config = naming("update_policy", tmp_path)
    (tmp_path / "own_part.py").unlink()
    user_code.source_digest.cache_clear()
    assert with_environment_source(config) == config
