"""The examples of the documented API, word for word as `documented_examples.txt` has them from its page.

What differs is this table: where the packages lie, the ROM, smaller numbers, and what an example leaves out.
"""

import ast
import builtins
import inspect
import json
import logging
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import TroupeError
from components.hybrid.curriculum import CurriculumState
from flows.api.hybrid.configs import TrainingConfig, read_curriculum
from flows.api.hybrid.core import exceptions
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem, StrategyType
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv
from flows.api.hybrid.core.game_state_analyzer import GameStateAnalysis
from flows.api.hybrid.core.hybrid_agent import AgentMode, HybridAgent
from flows.api.hybrid.testing.utils import create_mock_environment, generate_test_config
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer, create_trainer_from_config
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager

pytestmark = pytest.mark.timeout(900)

MAPPED = (
    ("from trainer.", "from flows.api.hybrid.trainer."),
    ("from core.", "from flows.api.hybrid.core."),
    ("from tests.", "from flows.api.hybrid.testing."),
    ("total_episodes=1000", "total_episodes=2, max_steps_per_episode=30"),
    ("total_episodes=500", "total_episodes=1, max_steps_per_episode=30"),
    ("episodes=100", "episodes=1, max_steps_per_episode=30"),
    ("duration=60", "duration=0.05, max_steps_per_episode=30"),
    ("samples=1000", "samples=40"),
    ('"/tmp/test"', '"test"'),
    ("HybridLLMRLTrainer(..., log", "HybridLLMRLTrainer(**parts, log"),
)
ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = re.findall(
    r"^```\w+\n(.*?)^```", (Path(__file__).parent / "documented_examples.txt").read_text(), re.S | re.M
)
HEAVY = ("torch", "prefect", "mlflow", "transformers", "deepspeed", "docker", "pyboy", "gymnasium")
OWNERS = {
    "HybridLLMRLTrainer": HybridLLMRLTrainer,
    "HybridAgent": HybridAgent,
    "AdaptiveStrategySystem": AdaptiveStrategySystem,
    "DecisionHistoryAnalyzer": DecisionHistoryAnalyzer,
    "EnhancedPyBoyPokemonCrystalEnv": EnhancedPyBoyPokemonCrystalEnv,
}
TYPES = {"int": int, "float": float, "str": str, "datetime": datetime, "np.ndarray": np.ndarray, "List[str]": list}


def example(start: str, number: int = 0) -> str:
    """The documented block that begins so."""
    return [block for block in EXAMPLES if block.startswith(start)][number]


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    for theirs, ours in MAPPED:
        code = code.replace(theirs, ours)
    exec(compile(code, "example", "exec"), names)
    return names


def read_documented_keys(block: str) -> dict[str, str]:
    """The keys of a documented dictionary, with those of inner ones as a.b, and the types that are written beside them."""
    keys: dict[str, str] = {}
    above: list[str] = []
    for line in block.splitlines()[1:]:
        found = re.match(r"\s*['\"](\w+)['\"]: *(.*?),? *(?:#.*|//.*)?$", line)
        if found and found[2] in ("{", "["):
            above.append(found[1])
        elif found:
            keys[".".join([*above, found[1]])] = found[2].strip('"')
        elif above and line.strip(" ,") in ("}", "]"):
            above.pop()
    return keys


def assert_documented(value: dict[str, Any], block: str) -> None:
    """All documented keys, no others, and the documented types."""
    keys = read_documented_keys(block)
    flat = {
        name: each
        for key, inner in value.items()
        for name, each in (
            {f"{key}.{k}": v for k, v in inner.items()} if isinstance(inner, dict) else {key: inner}
        ).items()
    }
    assert flat.keys() == keys.keys()
    for key, kind in keys.items():
        assert isinstance(flat[key], (int, float) if kind == "float" else TYPES[kind]), (key, kind)


@pytest.fixture(scope="module")
def names(prefect_harness: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The names that the quick start leaves behind; the tests of this module run in its folder, in order."""
    folder = tmp_path_factory.mktemp("hybrid")
    config = {"rom_path": "twin", "observation_type": "state", "llm_model": "tiny"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        left = run(example("from trainer.hybrid_llm_rl_trainer import create_trainer_from_config\n\n# Create"), {})
        left["agent"] = left["trainer"].agent
        yield left
        left["trainer"].close()


def test_importing_what_needs_no_emulator_loads_no_heavy_library() -> None:
    code = (
        "import sys, flows.api.hybrid.trainer.hybrid_llm_rl_trainer\n"
        "import flows.api.hybrid.testing.benchmarks, flows.api.hybrid.core.game_state_analyzer\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def signatures() -> Iterator[tuple[str, str, ast.arguments]]:
    """The documented constructors and methods: whose they are, their names, their parameters."""
    owner = ""
    for block in EXAMPLES:
        if block.startswith(("class GameStateAnalysis", "from ")) or not (
            found := re.match(r"(?:def )?(\w+)\(", block)
        ):
            continue
        if not block.startswith("def "):
            owner = found[1]
        text = re.sub(r"^(?:def )?\w+", "def f", block.strip())
        [function] = ast.parse(f"{text}: ...").body
        assert isinstance(function, ast.FunctionDef)
        yield owner, found[1], function.args


@pytest.mark.parametrize(
    ("owner", "name", "documented"), [pytest.param(*each, id=f"{each[0]}.{each[1]}") for each in signatures()]
)
def test_every_documented_signature_is_ours(owner: str, name: str, documented: ast.arguments) -> None:
    function = OWNERS[owner].__init__ if name == owner else getattr(OWNERS[owner], name)
    ours = inspect.signature(function).parameters
    params = [each.arg for each in documented.args if each.arg != "self"]
    assert [each for each in ours if each != "self"][: len(params)] == params
    defaults = [ast.literal_eval(each) for each in documented.defaults]
    assert [ours[each].default for each in params[len(params) - len(defaults) :]] == defaults
    extra = [each for each in list(ours.values())[1:] if each.name not in params]
    assert all(each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in extra)
    assert function.__doc__ or OWNERS[owner].__doc__


def test_every_documented_signature_is_found() -> None:
    assert len(list(signatures())) == 16


def test_the_configuration_function_and_the_analysis_have_their_signatures() -> None:
    assert list(inspect.signature(create_trainer_from_config).parameters) == ["config_path"]
    documented = re.findall(r"def (\w+)\(self", example("from core.game_state_analyzer"))
    analysis = GameStateAnalysis({"party_count": 1, "hp": 10, "max_hp": 20, "level": 6})
    assert documented[1:] == ["analyze_battle_state", "analyze_exploration_state", "get_summary"]
    battle, exploration, summary = (getattr(analysis, name)() for name in documented[1:])
    assert (battle["in_battle"], battle["own_health"], exploration["goal"] in summary) == (False, 0.5, True)


@pytest.mark.slow
def test_the_quick_start_trains_and_returns_the_documented_summary(names: dict[str, Any]) -> None:
    summary = names["summary"]
    assert_documented(summary, example("{\n    'total_episodes'"))
    assert (summary["total_episodes"], summary["total_steps"]) == (2, 60)


@pytest.mark.slow
def test_decisions_and_metrics_have_the_documented_keys(names: dict[str, Any]) -> None:
    trainer = names["trainer"]
    assert_documented(trainer.decision_analyzer.get_recent_decisions(1)[0], example("{\n    'id'"))
    assert_documented(trainer.get_performance_metrics(), example("{\n    'episode_reward'"))


def test_observations_have_the_documented_parts() -> None:
    env = create_mock_environment()
    observation, info = env.reset(seed=1)
    assert_documented(observation, example("{\n    'screen'"))
    assert (observation["screen"].shape, observation["state_variables"].shape) == ((144, 160, 3), (25,))
    observation, reward, terminated, truncated, info = env.step(5)
    assert (reward, terminated, truncated) == (pytest.approx(0.09), False, False)
    assert sum(info["reward_terms"].values()) == pytest.approx(reward)
    env.close()


def test_the_configuration_has_the_nine_documented_keys_and_the_curriculum_its_own() -> None:
    assert (
        read_documented_keys(example('{\n    "rom_path"')).keys()
        == generate_test_config().keys()
        == TrainingConfig.model_fields.keys()
    )
    keys = read_documented_keys(example("{\n    'stages'"))
    stage = {"reward_threshold": 5.0, "min_episodes": 3, "llm_confidence": 0.8, "strategy_preference": "llm_heavy"}
    config = {"stages": [stage], "advancement_patience": 7, "confidence_decay_rate": 0.9}
    assert {f"stages.{name}" for name in stage} | set(config) - {"stages"} == keys.keys()
    rule = read_curriculum(config)
    [first] = rule.stages
    assert (rule.patience, rule.decay, first.min_episodes, first.strategy) == (7, 0.9, 3, "llm_heavy")
    assert CurriculumState(strategy=first.strategy, llm_confidence=first.llm_confidence).least_confidence == (
        pytest.approx(0.8)
    ), "a threshold"
    with pytest.raises(exceptions.ConfigurationError, match=r"stages\.1\.llm_confidence 0\.7 is below .* 0\.8"):
        read_curriculum({"stages": [stage, {**stage, "llm_confidence": 0.7}]})
    with pytest.raises(exceptions.ConfigurationError, match=r"curriculum_config\.stages\.0\.reward: unknown key"):
        read_curriculum({"stages": [{"reward": 1}]})


def test_modes_strategies_and_exceptions_have_the_documented_names() -> None:
    run(example("from core.hybrid_agent import AgentMode"), {})
    run(example("from core.adaptive_strategy_system import StrategyType"), {})
    found = run(example("from core.exceptions import ("), {})
    assert (list(AgentMode), list(StrategyType)) == (
        ["llm_only", "rl_only", "adaptive"],
        ["llm_heavy", "balanced", "rule_heavy"],
    )
    kinds = {name: each for name, each in found.items() if name.endswith("Error")}
    assert len(kinds) == 6
    assert all(issubclass(each, TroupeError) for each in kinds.values())
    assert issubclass(found["EnvironmentError"], builtins.EnvironmentError)


@pytest.mark.slow
def test_the_example_of_recovery_goes_on_behind_the_last_checkpoint(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    trainer, before = names["trainer"], names["trainer"].episode
    left = iter([True])

    def fail_once(*_: Any) -> None:
        if next(left, False):
            raise exceptions.TrainingError("the power failed")

    trainer.register_callback("episode_end", fail_once)
    run(example("try:"), {"trainer": trainer, "TrainingError": exceptions.TrainingError})
    assert "Training failed: the power failed\n" in capsys.readouterr().out
    assert trainer.episode == before + 2, "one before the failure, one after"


@pytest.mark.slow
def test_the_examples_of_test_utilities_and_benchmarks_run(names: dict[str, Any]) -> None:
    made = run(example("from tests.utils import ("), {})
    assert (made["test_trainer"].episodes, made["test_trainer"].save_dir) == (10, Path("test/checkpoints"))
    assert made["mock_env"].reset(seed=1)[1]["facts"]["map_number"] == 4
    made["test_trainer"].close()
    assert made["cleanup_test_files"]("test") == ["test/decisions.db"]
    assert not Path("test").exists()
    measured = run(example("from tests.benchmarks import ("), names)
    speed, memory, latency = (measured[f"{name}_results"] for name in ("speed", "memory", "latency"))
    assert (speed["episodes"], speed["steps"]) == (1, 30)
    assert speed["steps_per_s"] * speed["seconds"] == pytest.approx(speed["steps"])
    assert 0 < memory["rss_start"] <= memory["rss_peak"]
    assert latency["samples"] == 40 == sum(each["samples"] for each in latency["by_source"].values())
    assert latency["p50"] <= latency["p95"] <= latency["p99"]


@pytest.mark.slow
def test_the_examples_of_logging_and_of_a_callback_are_told_of_an_episode(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = names["trainer"]
    parts = {
        name: getattr(trainer, name) for name in ("env", "agent", "strategy_system", "decision_analyzer", "llm_manager")
    }
    root = logging.getLogger()
    kept, level = root.handlers, root.level
    root.handlers = []  # those of the tests, beside which basicConfig adds none
    try:
        made = run(example("import logging"), {"parts": parts})["trainer"]
        assert made.load_checkpoint("latest")
        run(example("# Access training metrics"), {"trainer": made, "best_reward": -1e9})
        made.train(1, 30)
        [file] = [each for each in root.handlers if isinstance(each, logging.FileHandler)]
        file.close()
    finally:
        root.handlers, root.level = kept, level
    logged, reward = Path("training.log").read_text(), made.get_performance_metrics()["episode_reward"]
    assert f" - flows.api.hybrid.trainer.hybrid_llm_rl_trainer - INFO - episode {made.episode}: reward" in logged
    assert f"Episode {made.episode}: Reward={reward}\n" in capsys.readouterr().out
    assert Path("checkpoints/best_model").read_text().startswith(f"{made.run_id}@"), "the example saves it"


def test_the_example_of_an_own_language_model_decides() -> None:
    class Api:
        def chat(self, context: str) -> str:
            assert context.endswith("Which button?")
            return "The table is north: Up"

    found = run(example("from trainer.llm_manager import BaseLLMManager"), {**vars(typing), "your_llm_api": Api()})
    manager = found["CustomLLMManager"]()
    assert isinstance(manager, BaseLLMManager)
    agent = HybridAgent(manager, AdaptiveStrategySystem(), mode=AgentMode.LLM_ONLY)
    env = create_mock_environment("twin", "state")
    assert agent.get_action(*env.reset(seed=1)) == 4
    assert agent.last_decision == {"action": 4, "source": "llm", "confidence": 0.8}


def test_the_example_of_an_own_reward_is_what_is_trained_on() -> None:
    found = run(
        example("class CustomRewardEnvironment"), {"EnhancedPyBoyPokemonCrystalEnv": EnhancedPyBoyPokemonCrystalEnv}
    )

    class Rewarded(found["CustomRewardEnvironment"]):  # type: ignore[misc]
        def _check_custom_condition(self, current_state: dict[str, Any]) -> bool:
            return bool(current_state["y"] == 6)

    env = Rewarded("twin", True, "state")
    observation, info = env.reset(seed=1)
    agent = HybridAgent(None, AdaptiveStrategySystem(), mode=AgentMode.RL_ONLY)
    earned = []
    for _ in range(30):
        action = agent.get_action(observation, info)
        following, reward, terminated, truncated, info = env.step(action)
        agent.update(observation, action, reward, following, terminated or truncated)
        observation = following
        earned.append(reward)
        assert info["reward_terms"].get("own", 0.0) == pytest.approx(100.0 * (info["state"]["y"] == 6))
    assert agent.adaptive_strategy.get_strategy_stats()["average_reward"] == pytest.approx(sum(earned) / 30)
