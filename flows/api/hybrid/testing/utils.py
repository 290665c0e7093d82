"""The documented test utilities, over our own cartridge: nothing here is a mock."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import ConfigurationError
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer, training_parts
from flows.api.hybrid.trainer.training_config import TrainingConfig

if TYPE_CHECKING:
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

SMALL_STEPS = 200
"""Steps of an episode in tests, unless they say otherwise."""
_DATABASE, _CHECKPOINTS = "decisions.db", "checkpoints"
_MADE = (f"{_DATABASE}*", f"{_CHECKPOINTS}/*.npz", f"{_CHECKPOINTS}/training_summary.json")


class SmallTrainer(HybridLLMRLTrainer):
    """A trainer whose `train()` is short: `episodes` of at most 200 steps, and evaluations of one episode."""

    episodes = 10

    def train(
        self,
        total_episodes: int | None = None,
        max_steps_per_episode: int = SMALL_STEPS,
        save_interval: int = 100,
        eval_interval: int = 50,
        curriculum_patience: int = 20,
    ) -> dict[str, Any]:
        """Train `total_episodes`, or `episodes`; see `HybridLLMRLTrainer.train`."""
        wanted = self.episodes if total_episodes is None else total_episodes
        return super().train(wanted, max_steps_per_episode, save_interval, eval_interval, curriculum_patience)


def create_mock_environment(
    rom_path: str = "homebrew", observation_type: str = "multi_modal", max_steps: int = SMALL_STEPS
) -> "EnhancedPyBoyPokemonCrystalEnv":
    """A real environment on our own cartridge, whatever the name says, with short episodes."""
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

    return EnhancedPyBoyPokemonCrystalEnv(rom_path, True, observation_type, max_steps=max_steps)


def create_test_trainer(
    episodes: int = 10, headless: bool = True, temp_dir: str = "/tmp/test", **changes: Any
) -> SmallTrainer:
    """A trainer whose `train()` has so many short episodes, with all its files below `temp_dir`.

    It plays our own cartridge beside the scripted language model; `changes` are other values of the configuration.
    """
    if episodes < 1:
        raise ConfigurationError(f"episodes {episodes}: use 1 or more")
    Path(temp_dir).mkdir(parents=True, exist_ok=True)
    config = TrainingConfig.from_json({**generate_test_config(temp_dir), "headless": headless, **changes})
    trainer = SmallTrainer(**training_parts(config))
    trainer.episodes = episodes
    trainer.num_evaluation_episodes = trainer.num_final_episodes = 1
    return trainer


def generate_test_config(temp_dir: str = "/tmp/test", **changes: Any) -> dict[str, Any]:
    """A configuration with the nine documented keys, ready for `json.dump`. Raises ConfigurationError for other keys."""
    folder = Path(temp_dir)
    own = {
        "rom_path": "homebrew",
        "llm_model": "scripted",
        "decision_db_path": str(folder / _DATABASE),
        "save_dir": str(folder / _CHECKPOINTS),
        "log_level": "WARNING",
    }
    return TrainingConfig.from_json({**own, **changes}).to_json()


def cleanup_test_files(temp_dir: str = "/tmp/test") -> list[str]:
    """Remove what trainers of `create_test_trainer` have written below `temp_dir`, and folders left empty; the removed files.

    Nothing else there is touched. Close the trainers first.
    """
    folder = Path(temp_dir)
    found = sorted(each for pattern in _MADE for each in folder.glob(pattern) if each.is_file())
    for each in found:
        each.unlink()
    for empty in (folder / _CHECKPOINTS, folder):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()
    return [str(each) for each in found]
