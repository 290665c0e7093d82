"""The examples of the documented API, as they stand on its page, with the argument that the page names for a laptop.

Only the numbers of models and episodes are smaller.
"""

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.api import multi_model
from flows.api.multi_model.checkpoints import list_available_checkpoints

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "multi_model.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
QUICK, ADVANCED, LAPTOP, CHECKPOINTS, ENVIRONMENT, MONITOR, RECOVERY, MEMORY, SPEED = EXAMPLES
HEAVY = ("torch", "prefect", "mlflow", "transformers", "deepspeed", "docker", "matplotlib", "peft")
SMALLER = (
    ("max_episodes=100)", 'max_episodes=100, model_types=["tiny"])'),
    ("max_episodes=500)", 'max_episodes=500, model_types=["tiny"])'),
    ("num_models=4, max_episodes=100", "num_models=2, max_episodes=2"),
    ("num_models=6", "num_models=2, episode_length=2"),
    ("max_episodes=500", "max_episodes=2"),
    ("num_models=8", "num_models=2"),
)
NAMES = """
MultiModelTrainer MultiModelConfig SharedLLMManager create_qwen3_manager create_qwen_coder_manager create_qwen_math_manager
create_openai_manager create_claude_manager create_llama3_manager create_multimodel_trainer
create_cooperative_multimodel_trainer create_competitive_multimodel_trainer
quick_start_multimodel_training create_multi_model_coop_compete_env
create_multi_model_team_battle create_multi_model_staged_env create_maze_training_env create_social_training_env
create_unified_scheduler create_cooperative_scheduler create_competitive_scheduler create_lora_manager
create_distributed_lora_scheduler create_unified_monitor create_graph_visualizer LLMConfig RLConfig LoRAConfig TrainingMode
WeightUpdateStrategy LLMBackend list_available_checkpoints load_checkpoint_metadata get_available_models get_version_info
run_benchmark SimplePG OurMethodPolicy MonitoringConfig EnvironmentType CoopCompeteEnv UnifiedScheduler LoRAManager
DistributedLoRAScheduler UnifiedMonitor GraphVisualizer MultiModelTrainingEnvironment UpdateStrategy RLAlgorithm LLMResponse
CooperationFactor CompetenceFactor
"""


def run(code: str, names: dict[str, Any]) -> None:
    """Run an example, whose `await` stands outside of a function."""
    for whole, small in SMALLER:
        code = code.replace(whole, small)
    compiled = compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    found = eval(compiled, names)
    if inspect.iscoroutine(found):
        asyncio.run(found)


def test_every_documented_name_exists_and_is_documented() -> None:
    for name in NAMES.split():
        assert getattr(multi_model, name).__doc__, name


def test_what_public_names_take_and_return_is_public_too() -> None:
    public = [each for name, each in vars(multi_model).items() if not name.startswith("_") and callable(each)]
    methods = [
        member
        for each in public
        for name, member in inspect.getmembers(each, inspect.isfunction)
        if not name.startswith("_")
    ]
    found = [each for call in (*public, *methods) for each in inspect.get_annotations(call).values()]
    own = set(re.findall(r"flows\.api\.multi_model\.\w+\.(\w+)", " ".join(map(inspect.formatannotation, found))))
    assert {"LLMResponse", "SharedLLMManager", "UnifiedScheduler"} <= own
    assert own <= vars(multi_model).keys()


def test_importing_them_loads_no_heavy_library() -> None:
    code = f"import sys, flows.api.multi_model\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_factories_as_documented_make_trainers_and_managers_that_need_nothing_before_they_are_used() -> None:
    names: dict[str, Any] = dict(vars(multi_model))
    for line in LAPTOP.splitlines()[1:]:
        run(line, names)
    assert list(names["trainer"].config.member_types()) == [f"model_{index}_tiny" for index in range(4)]
    assert (
        multi_model.create_competitive_multimodel_trainer(4).config.training_mode
        is multi_model.TrainingMode.COMPETITIVE
    )
    for family in ("qwen3", "qwen_coder", "qwen_math", "llama3"):
        with getattr(multi_model, f"create_{family}_manager")("tiny", "cpu") as manager:
            manager.register_node("a", {"max_new_tokens": 1})
            assert manager.generate_for_node("a", "2 + 2 =").metadata["completion_tokens"] == 1


def test_the_examples_of_optimisation_make_configurations() -> None:
    names: dict[str, Any] = {"MultiModelConfig": multi_model.MultiModelConfig}
    run(MEMORY, names)
    assert (names["config"].kv_cache_size, names["config"].enable_areal) == (5000, False)
    run(SPEED, names)
    assert (names["config"].update_frequency, names["config"].num_gpus) == (5, 8)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_examples_of_training_run_one_after_the_other(
    prefect_harness: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run(QUICK, names)
    assert names["results"]["status"] == "completed", names["results"]
    run(ADVANCED, names)
    assert names["results"]["training_completed"]
    assert set(names["performance"]) == {"model_0_tiny", "model_1_tiny"}
    run(CHECKPOINTS, names)
    assert names["metadata"]["episode"] == 2
    run(ENVIRONMENT, names)
    assert names["trainer"].environment is names["env"]
    run(MONITOR, names)
    names["monitor"].stop()
    run(f"import asyncio\n{RECOVERY}", names)
    assert names["results"]["training_completed"]
    assert list_available_checkpoints()[0].endswith("@1")
