"""A population trained by the documented class: it goes on, goes back, halves its batch, stops, and tells what it did."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS

from components.metrics import STEP_SECONDS
from components.reporting.progress import Progress
from components.runs.lineages import read_lineages
from flows.api.multi_model import training
from flows.api.multi_model.checkpoints import list_available_checkpoints, load_checkpoint_metadata, open_folder
from flows.api.multi_model.configs import MonitoringConfig, MultiModelConfig, RLConfig
from flows.api.multi_model.environments import create_multi_model_coop_compete_env
from flows.api.multi_model.monitoring import create_unified_monitor, newest_monitor
from flows.api.multi_model.trainer import MultiModelTrainer, quick_start_multimodel_training
from flows.train import train_population as flow
from tests.components.generation.api.wire_server import KEY, MODEL, openai_error, wire_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("forked")]
TINY: dict[str, Any] = {
    "num_models": 2,
    "model_types": ["tiny"],
    "max_episodes": 4,
    "update_frequency": 2,
    "episode_length": 2,
    "enable_areal": False,
}


def patient_flow(*arguments: Any, **named: Any) -> Any:
    """The flow, where a server of its own may take its time to start, as it does on a busy machine."""
    assert PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value() == 600
    return flow(*arguments, **named)


@pytest.fixture(scope="module")
def trained(prefect_harness: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MultiModelTrainer, Any]]:
    """A trainer whose update ran out of memory once, in its second step, and its results."""
    folder = tmp_path_factory.mktemp("population")
    config = MultiModelConfig(**TINY, checkpoint_dir=str(folder / "ck"))
    trainer = MultiModelTrainer(config, RLConfig(batch_size=8))
    monitor = create_unified_monitor(MonitoringConfig(log_file_path=str(folder / "metrics.json")))
    monitor.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("flows.train.train_population", patient_flow)
        first = asyncio.run(trainer.train_multi_model_episode(0))
    assert (first["episode"], first["weight_coordination"]["strategy"]) == (0, "asynchronous")
    assert sorted(first["weight_coordination"]["models_updated"]) == ["model_0_tiny", "model_1_tiny"]
    second = asyncio.run(trainer.train_multi_model_episode(1))
    assert second["rewards"] != first["rewards"], "the episode's own, not the step's"
    assert second["metrics"] == first["metrics"], "of the step that both are in"
    real = training.train_population

    def short_of_memory(*arguments: Any, **named: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("flows.api.multi_model.training.train_population", short_of_memory)
        with pytest.raises(RuntimeError, match="GPU memory insufficient"):
            asyncio.run(trainer.train())
    assert training.train_population is real
    trainer.config.batch_size //= 2
    yield trainer, asyncio.run(trainer.train())
    asyncio.run(trainer.shutdown())
    monitor.stop()


def test_results_are_those_that_the_reference_names(trained: tuple[MultiModelTrainer, Any]) -> None:
    trainer, results = trained
    assert (results["training_completed"], results["total_episodes"], results["checkpoints_saved"]) == (True, 4, 3)
    assert results["training_metrics"]["episodes"] == [2, 4]
    assert len(results["training_metrics"]["cooperation_ratios"]) == 2
    assert results["training_metrics"]["weight_update_counts"] == [2, 2]
    json.dumps(results)
    for state in results["final_model_states"].values():
        assert (state["update_count"], state["model_type"], state["total_episodes"]) == (2, "tiny", 4)
        assert any(name.endswith("/grad_norm") for name in state["metrics"])
    performance = trainer.get_model_performance_summary()
    assert set(performance) == {"model_0_tiny", "model_1_tiny"}
    assert all(0.5 < each["avg_reward"] < 2.0 and each["total_episodes"] == 4 for each in performance.values())
    status = trainer.get_training_status()
    assert (status["progress"], status["current_episode"], status["is_training"]) == (1.0, 4, False)


def test_the_halved_batch_is_committed_before_the_retry_and_the_run_is_one(
    trained: tuple[MultiModelTrainer, Any],
) -> None:
    trainer, results = trained
    store = open_folder(trainer.config.checkpoint_dir)
    assert store is not None
    (lineage,) = read_lineages(store, results["run_id"])
    assert (lineage.from_step, lineage.from_stage) == (1, training.UPDATE_STAGE)
    assert lineage.config.training.tokens_per_micro_batch == 4 * training.TOKENS_PER_ANSWER, "half of the learner's 8"


def test_checkpoints_are_listed_by_number_and_name_their_weights(trained: tuple[MultiModelTrainer, Any]) -> None:
    trainer, results = trained
    folder = trainer.config.checkpoint_dir
    checkpoints = list_available_checkpoints(folder)
    assert checkpoints == [f"{results['run_id']}@{step}" for step in (2, 1, 0)]
    metadata = [load_checkpoint_metadata(each, folder) for each in checkpoints]
    assert [each["episode"] for each in metadata] == [4, 2, 0]
    digests = [{name: model["weights_digest"] for name, model in each["models"].items()} for each in metadata]
    assert all(len({each[name] for each in digests}) == 3 for name in digests[0]), "each update changed each adapter"
    for missing in ("nobody@1", f"{results['run_id']}@9", "none"):
        with pytest.raises(FileNotFoundError, match="Checkpoint not found"):
            load_checkpoint_metadata(missing, folder)
    with pytest.raises(ValueError, match="checkpoint_id None"):
        load_checkpoint_metadata(None, folder)  # type: ignore[arg-type]
    assert list_available_checkpoints(Path(folder) / "none") == []
    assert asyncio.run(trainer._save_checkpoint(trainer.current_episode)) == checkpoints[0]
    assert [asyncio.run(trainer._save_checkpoint(each)) for each in (0, 3)] == [checkpoints[2], checkpoints[1]]
    with pytest.raises(FileNotFoundError, match="@4' is not in"):
        asyncio.run(trainer._save_checkpoint(8))


def test_a_trainer_goes_on_from_a_checkpoint_and_repeats_what_followed(
    trained: tuple[MultiModelTrainer, Any],
) -> None:
    trainer, results = trained
    again = MultiModelTrainer(replace(trainer.config, enable_monitoring=False), trainer.rl_config)
    assert not again.load_checkpoint("nobody@1")
    assert again.load_checkpoint(f"{results['run_id']}@1")
    again.config.episode_length = 3
    with pytest.raises(ValueError, match=r"another configuration, game or learner: environment\.max_turns: 2 -> 3"):
        asyncio.run(again.train())
    again.config.episode_length = 2
    before = load_checkpoint_metadata(f"{results['run_id']}@2", trainer.config.checkpoint_dir)
    repeated = asyncio.run(again.train())
    assert (repeated["total_episodes"], repeated["training_metrics"]["episodes"]) == (4, [2, 4])
    assert again.get_model_performance_summary() == trainer.get_model_performance_summary()
    after = load_checkpoint_metadata(f"{results['run_id']}@2", trainer.config.checkpoint_dir)
    assert {name: each["weights_digest"] for name, each in after["models"].items()} == {
        name: each["weights_digest"] for name, each in before["models"].items()
    }
    again.environment = create_multi_model_coop_compete_env(2, 0.9)
    assert again.current_episode == 0, "another game is another run, once the checkpoint's has ended"


@pytest.mark.usefixtures("trained")
def test_metrics_of_each_step_are_sent() -> None:
    monitor = newest_monitor()
    assert monitor is not None
    stats = monitor.get_comprehensive_stats()
    assert (stats["num_updates"], stats["is_running"]) == (2, True)
    assert {"population/player_0/return", STEP_SECONDS} <= stats["metrics"].keys()


def test_a_slow_step_ends_in_its_stage_and_old_checkpoints_go(prefect_harness: None, tmp_path: Path) -> None:
    changed = {"checkpoint_dir": str(tmp_path), "enable_monitoring": False, "max_checkpoints": 2, "max_episodes": 8}
    config = MultiModelConfig(**{**TINY, **changed}, episode_timeout_seconds=1e-6)
    trainer = MultiModelTrainer(config)
    trainer.environment = create_multi_model_coop_compete_env(2, 0.9, num_steps=2)
    with pytest.raises(asyncio.TimeoutError, match="Episode timeout: a step of 2 episodes"):
        asyncio.run(trainer.train())
    assert trainer.current_episode == 0
    trainer.config.episode_timeout_seconds = None
    asyncio.run(trainer.train())
    steps = [each.rpartition("@")[2] for each in list_available_checkpoints(tmp_path)]
    assert steps == ["4", "3", "0"], "the newest two, and the start"


def test_a_step_that_hangs_ends_for_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = MultiModelConfig(
        **{**TINY, "checkpoint_dir": str(tmp_path), "enable_monitoring": False}, episode_timeout_seconds=0.1
    )
    released, closed = threading.Event(), threading.Event()

    def hang(config: Any, run_id: str, *, on_session: Any, on_progress: Any, **_: Any) -> None:
        on_session(SimpleNamespace(close=closed.set))
        on_progress(Progress(stage=training.FIRST_STAGE, step=0, done=0, total=1))
        assert released.wait(60)

    monkeypatch.setattr("flows.api.multi_model.training.train_population", hang)
    monkeypatch.setattr("flows.api.multi_model.trainer._LAST_SECONDS", 0.2)
    with pytest.raises(asyncio.TimeoutError, match="Episode timeout"):
        asyncio.run(MultiModelTrainer(config).train())
    assert closed.is_set(), "its workers and requests are ended"
    released.set()


def test_a_start_without_its_models_names_all_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="Model loading failed") as found:
        asyncio.run(MultiModelTrainer(MultiModelConfig()).train())
    said = str(found.value)
    assert all(each in said for each in ("Qwen2.5-14B", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "Llama-3.1", '["tiny"]'))
    assert "memory" not in said, "nobody halves a batch for it"
    answer = asyncio.run(quick_start_multimodel_training())
    assert answer == {"status": "failed", "error": f"ModelLoadingFailed: {said}"}
    assert "Traceback" not in caplog.text
    for wrong in (None, {"num_model": 2}):
        with pytest.raises(ValueError, match=r"config None: |config.num_model: "):
            MultiModelTrainer(wrong)  # type: ignore[arg-type]
    trainer = MultiModelTrainer(MultiModelConfig())
    trainer.environment = "maze"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="environment 'maze'"):
        asyncio.run(trainer.train())


@pytest.mark.long
def test_a_member_behind_an_api_that_fails_ends_the_run_which_goes_on_and_spends_no_more_than_it_may(
    prefect_harness: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with wire_server() as wire:
        wire.answer = lambda state, index: "cooperate"
        told = {"base_url": wire.base_url("openai"), "output_price": 1e6, "max_retries": 0}
        played = {"model_types": ["tiny", "openai"], "model_names": {"tiny": "tiny", "openai": MODEL}}
        values = {**TINY, **played, "checkpoint_dir": str(tmp_path), "enable_monitoring": False}
        trainer = MultiModelTrainer(MultiModelConfig(**values, api_settings={"openai": told}))
        asyncio.run(trainer.train_multi_model_episode(0))
        before = len(wire.exchanges)
        wire.script.extend([openai_error(401, "Your account was closed", code="account_closed")] * 100)
        with pytest.raises(Exception, match="Your account was closed"):
            asyncio.run(trainer.train())
        assert trainer.current_episode == 2, "what was played is stored"
        states = trainer.get_training_status()["model_states"]["model_1_openai"]
        assert (states["model_name"], states["update_count"]) == (MODEL, 0)
        wire.script.clear()
        failed = len(wire.exchanges)
        assert asyncio.run(trainer.train())["training_completed"]
        assert len(wire.exchanges) - failed <= before, "only the second step was played"
        capped = MultiModelTrainer(MultiModelConfig(**values, api_settings={"openai": {**told, "max_cost": 4.0}}))
        with pytest.raises(Exception, match="max_cost"):
            asyncio.run(capped.train())
    for wrong in ({"claude": {}}, {"openai": {"model": "x"}}):
        with pytest.raises(ValueError, match=r"api_settings '(claude|openai)': give fields of an API"):
            asyncio.run(MultiModelTrainer(MultiModelConfig(**values, api_settings=wrong)).train())
