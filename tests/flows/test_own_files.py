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
from components.session.publishing import training_problems
from components.session.scenario import scenario_of
from flows.own_files import with_environment_source, with_sources
from flows.steps import TEAM_PIPELINE as PIPELINE
from flows.suites import bare_config
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
        user_code.read_source.cache_clear()

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
        ConfigDrift, match=r"other files of own_echo:Echo .*--from-stage collect_rollouts --step N.*`troupe rm r "
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
        user_code.read_source.cache_clear()

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
    with pytest.raises(ConfigDrift, match=rf"other files of own_part:\w+ \(.*--from-stage {stage} --step N"):
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
    with pytest.raises(ConfigDrift, match=r"other files of .*own_part:brevity.*--from-stage compute_rewards --step N"):
        validate_start(LocalArtifactStore(root), "r", with_sources(config), PIPELINE)


def test_evaluation_asks_for_no_own_part(part: Edit, tmp_path: Path) -> None:
    config = naming("update_policy", tmp_path)
    (tmp_path / "own_part.py").unlink()
    user_code.read_source.cache_clear()
    assert with_environment_source(config) == config


@pytest.fixture
def own_rows(tmp_path: Path) -> Iterator[Edit]:
    """Writes the problems, and forgets what this process knows of them."""

    def write(question: str) -> None:
        rows = tmp_path / "data" / "rows.jsonl"
        rows.parent.mkdir(exist_ok=True)
        rows.write_text(
            "".join(f'{{"question": "{question} {number}", "answer": "{number}"}}\n' for number in range(60))
        )
        registry._read_data.cache_clear()

    write("Write")
    yield write
    registry._read_data.cache_clear()


def reading(path: Path, root: Path) -> RunConfig:
    values = config_in(root).model_dump(mode="json")
    environment = {"name": "math", "options": {"dataset": "custom", "train_source": str(path)}}
    agents = dict.fromkeys(("reasoner", "tool_agent"), values["agents"]["plan_agent"])
    return with_sources(parse_config({**values, "environment": environment, "agents": agents}))


def test_a_run_never_goes_on_with_other_problems(own_rows: Edit, tmp_path: Path) -> None:
    root, rows = tmp_path / "store", tmp_path / "data" / "rows.jsonl"
    before = reading(rows, root)
    store_run(root, "r", config=before)
    store = LocalArtifactStore(root)
    assert validate_start(store, "r", reading(rows, root), PIPELINE).run_id == "r"
    own_rows("Please write")
    after = reading(rows, root)
    assert rollout_key(before) != rollout_key(after)
    assert training_problems(before).digest != training_problems(after).digest
    with pytest.raises(ConfigDrift, match=r"other files of the data of math .*--from-stage collect_rollouts --step N"):
        validate_start(store, "r", after, PIPELINE)
    for play in (
        scenario_of(before).check_data,
        lambda: scenario_of(before).eval_plan(scenario_of(before).suite, sampling="greedy", seed=0),
    ):
        with pytest.raises(ConfigurationError, match=r"the data here are .*bring the same files to every host"):
            play()
    own_rows("Write")
    assert validate_start(store, "r", reading(rows, root), PIPELINE).run_id == "r"


def test_a_folder_of_problems_counts_wherever_it_lies_without_notes_of_its_download(
    own_rows: Edit, tmp_path: Path
) -> None:
    before = reading(tmp_path / "data", tmp_path).environment
    (tmp_path / "data" / ".cache").mkdir()
    (tmp_path / "data" / ".cache" / "fetched").write_text("today")
    (tmp_path / "data").rename(tmp_path / "moved")
    registry._read_data.cache_clear()
    after = reading(tmp_path / "moved", tmp_path).environment
    assert before.data is not None
    assert before.data == after.data


def test_what_changed_after_a_process_read_it_begins_no_run_there(edit: Edit, own_rows: Edit, tmp_path: Path) -> None:
    rows, module = tmp_path / "data" / "rows.jsonl", tmp_path / "own_echo.py"
    reading(rows, tmp_path)
    rows.write_text(rows.read_text().replace("Write", "Say"))
    with pytest.raises(
        ConfigurationError, match=r"rows\.jsonl has changed since this process read it; start Python again"
    ):
        reading(rows, tmp_path)
    running = with_sources(echo_in(tmp_path))
    module.write_text(f"# a comment\n{ECHO}")
    with pytest.raises(ConfigurationError, match=r"own_echo\.py has changed since this process read it"):
        with_sources(echo_in(tmp_path))
    assert scenario_of(running).family.name == "own_echo:Echo", "a run that has begun goes on with what was imported"


def test_a_file_that_comes_later_is_read_and_one_more_in_a_folder_is_told(own_rows: Edit, tmp_path: Path) -> None:
    folder, late = tmp_path / "data", tmp_path / "late.jsonl"
    assert reading(late, tmp_path).environment.data is None
    late.write_text((folder / "rows.jsonl").read_text())
    assert reading(late, tmp_path).environment.data is not None
    before = reading(folder, tmp_path)
    (folder / "notes.log").write_text("no data")
    assert reading(folder, tmp_path) == before
    (folder / "more.jsonl").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"more\.jsonl has changed since this process read it"):
        reading(folder, tmp_path)


def test_rows_that_a_process_has_read_are_those_of_the_digest(own_rows: Edit, tmp_path: Path) -> None:
    rows = tmp_path / "data" / "rows.jsonl"
    options = {"dataset": "custom", "train_source": str(rows)}
    scenario_of(bare_config("math", options))
    rows.write_text(rows.read_text().replace("Write", "Say"))
    with pytest.raises(ConfigurationError, match="has changed since this process read it"):
        reading(rows, tmp_path)
