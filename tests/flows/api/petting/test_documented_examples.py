"""The examples of the documented API, as they stand on its page, on a small model: train, evaluate, configure, play."""

import importlib
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.config import RunConfig
from components.errors import ConfigDrift, ConfigurationError, StoreRefused
from components.runs.lineages import read_config
from components.runs.run import Run
from components.session.engines import Engines
from flows import evaluate as evaluation
from flows.api import petting
from flows.api.petting.agents import build_played_config
from flows.api.petting.configs import run_config
from flows.api.petting.trainer.multi_agents_execution_engine import MultiAgentsExecutionEngine
from flows.api.petting.trainer.multi_agents_ppo_trainer import MultiAgentsPPOTrainer
from flows.presets import preset_config, preset_values, with_overrides
from flows.train import train as flow
from tests.integration.vllm_servers import save_model
from troupe.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("forked")]
ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "petting.md").read_text()
TRAIN, CONFIGURE, EVALUATE, PLAY = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
MODULES = """
trainer trainer.train trainer.multi_agents_ppo_trainer trainer.multi_agents_execution_engine multi_agent_env.base
multi_agent_env.code multi_agent_env.math multi_agent_env.stateful config.code config.math config.stateful config.ppo_trainer
evaluate.evaluate utils utils.cleanup multi_agent_env.search multi_agent_env.games config.search config.games agents
"""
HEAVY = ("torch", "prefect", "mlflow", "transformers", "deepspeed", "docker")
SMALL = (
    "policies.team.tiny={hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64, max_position_embeddings: 1024}",
    "warm_start={min_success: 0.0, max_success: 1.0, max_steps: 2, check_every: 2, num_check_problems: 4}",
    "rollout={num_problems: 2, group_size: 4, problems_per_block: 2}",
    "evaluation={num_problems: 4, problems_per_block: 4}",
)


@pytest.mark.parametrize("module", MODULES.split())
def test_every_documented_module_imports(module: str) -> None:
    assert importlib.import_module(f"flows.api.petting.{module}").__doc__


def test_importing_them_loads_no_heavy_library_and_every_spelling_of_a_path_works() -> None:
    code = (
        "import sys, importlib\n"
        f"for name in {MODULES.split()!r}: importlib.import_module('flows.api.petting.' + name)\n"
        f"assert not {set(HEAVY)!r} & sys.modules.keys()\n"
        "from flows.api.petting import evaluate, train\n"
        "from flows.api.petting.trainer import train as shorter; from flows.api.petting.trainer.train import train as longer\n"
        "from flows.api.petting.evaluate.evaluate import evaluate as evaluated\n"
        "assert train is shorter is longer and evaluate is evaluated\n"
        "from flows.api.petting.utils.cleanup import cleanup\n"
        "from flows.api.petting.config.code.single_policy import get_config\n"
        "import flows.api.petting.config.code, flows.api.petting.config.ppo_trainer\n"
        "assert get_config() == flows.api.petting.config.code.single_policy.get_config()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def trained(prefect_harness: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the first example has trained; the preset of code is a small one there."""
    folder = tmp_path_factory.mktemp("petting")
    values = with_overrides(preset_values()["code-tiny"], SMALL)
    deployment = {"name": "code-tiny", "entrypoint": "flows.train.train", "parameters": {"config": values}}
    (folder / "prefect.yaml").write_text(yaml.safe_dump({"deployments": [deployment]}))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        exec(TRAIN.replace("2000", "1"), {})
    return folder


@pytest.fixture
def there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def patient_flow(*arguments: Any, **named: Any) -> Any:
    """The flow, where a server of its own may take its time to start, as it does on a busy machine."""
    from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS

    assert PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value() == 600
    return flow(*arguments, **named)


def test_the_first_example_trains_a_run_in_its_folder(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalArtifactStore(there / "checkpoints")
    config = read_config(store, "code_single_policy")
    assert config is not None
    assert (config.num_steps, config.specialisation, config.store.root) == (1, "L1", str(there / "checkpoints"))
    monkeypatch.setattr("flows.train.train", patient_flow)
    again = petting.train("code_single_policy", 1)
    assert again["num_steps"] == 1
    assert {each["step"] for each in again["evaluations"]} == {0, 1}
    assert set(again["checkpoint_digest"]) == {"team"}


def test_more_iterations_continue_and_another_configuration_is_refused(there: Path) -> None:
    trainer = MultiAgentsPPOTrainer("code_single_policy", run_id="longer", num_iterations=0)
    trainer.init_workers()
    before = trainer.fit()
    after = trainer.fit(1)
    assert (before["num_steps"], after["num_steps"]) == (0, 1)
    assert after["checkpoint_digest"] == petting.train("code_single_policy", 1)["checkpoint_digest"], "of equal seeds"
    assert trainer.validate(num_episodes=3)["agent"] == "longer@1"
    with pytest.raises(ConfigDrift, match=r"rollout\.group_size: 4 -> 3"):
        petting.train("code_single_policy", 1, train_sample_num=3, run_id="longer")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_options": {"levls": [0]}}, "environment.options.levls: unknown key.*did you mean 'levels'"),
        ({"batch_sise": 3}, "did you mean 'batch_size'"),
        ({"run_id": "Not a name"}, "run_id 'Not a name'"),
    ],
)
def test_a_wrong_training_stores_nothing(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        petting.train("code_single_policy", 1, tmp_path / "new", **settings)
    assert not (tmp_path / "new" / "runs").exists()


@pytest.mark.parametrize(
    ("name", "policies"),
    [
        ("math-l2", 2),
        pytest.param("search-l0", 1, marks=pytest.mark.long),
        pytest.param("stateful-l3", 2, marks=pytest.mark.long),
    ],
)
def test_every_level_trains_and_its_export_plays_as_its_run(
    name: str, policies: int, there: Path, tmp_path: Path
) -> None:
    small = [each for each in SMALL if not each.startswith(("policies", "rollout"))]
    shape = SMALL[0].partition("=")[2]
    chosen = run_config({"config_name": name}).policies
    tiny = [f"policies.{policy}.tiny={shape}" for policy in chosen]
    settings: dict[str, Any] = {"max_response_length": 24, "overrides": [*small, *tiny]}
    summary = petting.train(name, 1, batch_size=2, train_sample_num=4, **settings)
    assert summary["checkpoint_digest"].keys() == chosen.keys()
    assert len(chosen) == policies
    out, uri = tmp_path / "out", (there / "checkpoints").as_uri()
    CliRunner().invoke(app, ["export", name, str(out), "--store", uri], catch_exceptions=False)
    ours = petting.evaluate(f"checkpoints/{name}", num_episodes=4)
    theirs = petting.evaluate(out, {"config_name": name, **settings}, 4)
    assert {key for key in ours if ours[key] != theirs[key]} == {"agent"}
    assert theirs["agent"] == str(out)


def test_the_example_of_evaluation_prints_a_rate(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(EVALUATE.replace("2000", "1").replace("200", "6"), names)
    results = names["results"]
    assert re.fullmatch(r"Success Rate: \d+\.\d\d%\n", capsys.readouterr().out)
    low, high = results["interval"]
    assert (results["n"], results["agent"]) == (6, "code_single_policy@1")
    assert low <= results["success_rate"] == results["num_successes"] / 6 <= high
    assert results["suite"] == "code/test"


def test_what_training_has_played_is_not_played_again(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = [each for each in petting.train("code_single_policy", 1)["evaluations"] if each["step"] == 1]
    monkeypatch.setattr(Engines, "of", lambda *_: pytest.fail("an engine was asked for"))
    for own in played:
        results = petting.evaluate("checkpoints/model_1", "code_single_policy", 4, sampling=own["sampling"])
        assert {name: results[name] for name in ("success_rate", "n")} == {"success_rate": own["success_rate"], "n": 4}
    assert {own["sampling"] for own in played} == {"greedy", "sample"}


@pytest.mark.parametrize("refused", ["probe/", "/manifest.json"])
def test_a_folder_that_takes_no_results_is_evaluated_all_the_same(
    refused: str, there: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create = LocalArtifactStore.create

    def refuse(self: LocalArtifactStore, key: str, content: bytes) -> bool:
        if self.uri == (there / "checkpoints").as_uri() and refused in key:
            raise StoreRefused("the disk is full")
        return create(self, key, content)

    monkeypatch.setattr(LocalArtifactStore, "create", refuse)
    with caplog.at_level(logging.WARNING):
        assert petting.evaluate("checkpoints/model_1", "code_single_policy", 3, seed=len(refused))["n"] == 3
    assert "the evaluation is not kept, and will be played again: the disk is full" in caplog.text


@pytest.mark.parametrize(
    ("path", "agent"),
    [
        ("checkpoints/code_single_policy", "code_single_policy@1"),
        ("checkpoints/code_single_policy/model_0", "code_single_policy@0"),
        ("checkpoints/", "code_single_policy@1"),
    ],
)
def test_a_path_names_a_run_and_its_step(path: str, agent: str, there: Path) -> None:
    assert petting.evaluate(path, "code_single_policy", 2)["agent"] == agent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("checkpoints/model_7", "code_single_policy"), "it has finished 1 updates; use 0 to 1"),
        (
            ("checkpoints/code_singel_policy", "code-l1"),
            "runs there: code_single_policy.*did you mean 'code_single_policy'",
        ),
        (("nowhere/model_1", "code-l1"), "there is no run in .*nowhere"),
        (("checkpoints/code_single_policy", "math-l1"), "its roles .*reasoner.* are played by nobody"),
        (("checkpoints/model_1", "code_single_policy", 0), "num_episodes 0"),
    ],
)
def test_a_wrong_path_names_what_there_is(arguments: tuple[Any, ...], message: str, there: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        petting.evaluate(*arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 3}, "^learning_rate: evaluate takes no such argument; "),
        ({"overrides": ["training.num_ranks=2"]}, "'training.num_ranks=2': changes no evaluation"),
        ({"overrides": "agents.coder.max_new_tokens=6"}, "overrides 'agents"),
    ],
)
def test_an_evaluation_says_what_it_cannot_do(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        petting.evaluate("checkpoints/model_1", **settings)


def test_overrides_change_what_is_played_and_how_a_team_answers(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    playing: list[RunConfig] = []
    report = evaluation.contender_report

    def spy(opened_subject: Any, *arguments: Any) -> Any:
        playing.append(opened_subject.session.config)
        return report(opened_subject, *arguments)

    monkeypatch.setattr(evaluation, "contender_report", spy)
    changes = ["agents.coder.max_new_tokens=5", "generation.dtype=bfloat16", "environment.max_turns=1"]
    petting.evaluate("checkpoints/code_single_policy/model_1", num_episodes=2, sampling="sample", overrides=changes)
    petting.evaluate("checkpoints/model_1", "code_single_policy", 2, overrides=["agents.coder.temperature=0.5"])
    first, second = playing
    assert (first.agents["coder"].max_new_tokens, first.environment.max_turns) == (5, 1)
    assert (first.generation.dtype, second.generation.dtype) == ("bfloat16", "float32")
    assert (second.agents["coder"].temperature, second.agents["tester"].temperature) == (0.5, None)


def test_what_was_trained_is_what_is_evaluated_unless_something_else_is_said() -> None:
    own = preset_config(
        "tiny", ["environment.options.size=5", "environment.answer_format=free", "generation.num_threads=3"]
    )
    run = Run(run_id="mine", config=own)
    for bare in (None, {"config_name": "tiny"}, {"config_name": "mine"}):
        assert build_played_config(bare, run) is own
    said = build_played_config({"config_name": "tiny", "max_turns": 3}, run)
    assert (said.environment.options["size"], said.environment.max_turns) == (4, 3)
    assert (said.environment.answer_format, said.generation) == ("free", own.generation)
    stricter = {"config_name": "tiny", "overrides": ["environment.answer_format=strict"]}
    assert build_played_config(stricter, run).environment.answer_format == "strict"


def test_a_model_folder_plays_every_role(there: Path, tmp_path: Path) -> None:
    save_model(0, tmp_path / "model")
    with pytest.raises(ConfigurationError, match="config_name: name what the model"):
        petting.evaluate(tmp_path / "model")
    with petting.PolicyAgent(tmp_path / "model", "games_single_policy") as agent:
        answers = [
            agent.act({"agent": "plan_agent", "turn": 0, "state": "AB\nCD ", "instructions": ""}) for _ in range(2)
        ]
        assert answers[0] == answers[1], "greedy"
    (tmp_path / "model" / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="base_model_name_or_path is None; set it to the model"):
        petting.evaluate(tmp_path / "model", "games_single_policy", 2)


def test_the_examples_of_a_configuration_and_of_an_environment_play_an_episode(there: Path) -> None:
    names: dict[str, Any] = {}
    exec(CONFIGURE, names)
    assert (names["config"]["learning_rate"], names["config"]["batch_size"]) == (1e-5, 128)
    with petting.PolicyAgent("checkpoints/model_1", "code_single_policy", sampling="sample") as agent:
        names["agent"] = agent
        exec(PLAY, names)
    assert names["done"]
    assert names["info"]["agents"].keys() == {"coder"}
    assert isinstance(names["reward"], float)


def test_the_engine_plays_trees_of_training_problems(there: Path) -> None:
    with MultiAgentsExecutionEngine("checkpoints/model_1", "code_single_policy") as engine:
        tree = engine.generate_env_idx_rollout(3)
        assert {len(node.candidates) for node in tree.nodes} == {4}
        both = engine.generate_multiple_rollouts_concurrent([3, 5, 3])
        assert (list(both), both[3].problem) == ([3, 5], tree.problem)
        with pytest.raises(ConfigurationError, match=r"env_idx_list\.0 'one'"):
            engine.generate_multiple_rollouts_concurrent(["one"])  # type: ignore[list-item]
    assert preset_config("code-tiny").rollout.group_size == 4, "that of the folder"
