"""The documented test utilities, over our own cartridge: nothing here is a mock."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import parse_section
from flows.api.hybrid.configs import ObservationType, TrainingConfig
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer, build_trainer

if TYPE_CHECKING:
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

SMALL_STEPS = 200
"""Steps of an episode in tests, unless they say otherwise."""
_DATABASE, _CHECKPOINTS = "decisions.db", "checkpoints"


class SmallTrainer(HybridLLMRLTrainer):
    """A trainer whose `train()` is short: `episodes` of at most 200 steps."""

    episodes = 10

    def train(
        self, total_episodes: int | None = None, max_steps_per_episode: int = SMALL_STEPS, *intervals: int, **named: int
    ) -> dict[str, Any]:
        """Train `total_episodes`, or `episodes`; see `HybridLLMRLTrainer.train`."""
        return super().train(total_episodes or self.episodes, max_steps_per_episode, *intervals, **named)


def create_mock_environment(
    rom_path: str = "homebrew", observation_type: ObservationType = "multi_modal", max_steps: int = SMALL_STEPS
) -> "EnhancedPyBoyPokemonCrystalEnv":
    """A real environment on our own cartridge, whatever the name says, with short episodes."""
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

    return EnhancedPyBoyPokemonCrystalEnv(rom_path, True, observation_type, max_steps=max_steps)


def create_test_trainer(
    episodes: int = 10, headless: bool = True, temp_dir: str = "/tmp/test", **changes: Any
) -> SmallTrainer:
    """A trainer whose `train()` has so many short episodes, with all its files below `temp_dir`.

    It plays our own cartridge beside the tiny language model; `changes` are other values of the configuration.
    """
    config = parse_section(TrainingConfig, {**generate_test_config(temp_dir), "headless": headless, **changes})
    trainer = build_trainer(config, SmallTrainer)
    trainer.episodes = episodes
    return trainer


def generate_test_config(temp_dir: str = "/tmp/test", **changes: Any) -> dict[str, Any]:
    """A configuration with the nine documented keys, ready for `json.dump`. Raises ConfigurationError for other keys."""
    folder = Path(temp_dir)
    own = {
        "rom_path": "homebrew",
        "llm_model": "tiny",
        "initial_strategy": "balanced",
        "decision_db_path": str(folder / _DATABASE),
        "save_dir": str(folder / _CHECKPOINTS),
        "log_level": "WARNING",
    }
    return parse_section(TrainingConfig, {**own, **changes}).model_dump()


def cleanup_test_files(temp_dir: str = "/tmp/test") -> list[str]:
    """Remove history and store that trainers of `create_test_trainer` have made below `temp_dir`, and it, if it is empty then;
    what was removed. Nothing else there is touched. Close the trainers first.
    """
    folder = Path(temp_dir)
    found = [*sorted(folder.glob(f"{_DATABASE}*"))]
    for each in found:
        each.unlink()
    if (folder / _CHECKPOINTS / "format.json").is_file():
        shutil.rmtree(folder / _CHECKPOINTS)
        found.append(folder / _CHECKPOINTS)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return [str(each) for each in found]
