"""The documented API of a hybrid trainer: a language model and an RL policy share a Game Boy.

Its page says `trainer`, `core`, and `tests.utils` and `tests.benchmarks`; here these are `flows.api.hybrid.trainer`,
`flows.api.hybrid.core`, and `flows.api.hybrid.testing`. All names are here, too, each imported on first use: the environment
alone needs Gymnasium and the emulator, of the extra `hybrid`.

**Example**

    from flows.api.hybrid import create_trainer_from_config

    trainer = create_trainer_from_config("config.json")  # {"rom_path": "homebrew", "llm_model": "tiny"}
    summary = trainer.train(total_episodes=100, max_steps_per_episode=600)
"""

from importlib import import_module
from typing import Any

_CORE = {
    "adaptive_strategy_system": ("AdaptiveStrategySystem", "StrategyType"),
    "decision_history_analyzer": ("DecisionHistoryAnalyzer",),
    "enhanced_pyboy_env": ("EnhancedPyBoyPokemonCrystalEnv",),
    "exceptions": (
        *("CheckpointError", "ConfigurationError", "DecisionValidationError", "EnvironmentError", "LLMConnectionError"),
        *("TrainingError",),
    ),
    "game_state_analyzer": ("GameStateAnalysis",),
    "hybrid_agent": ("AgentMode", "HybridAgent"),
}
_TRAINER = {
    "hybrid_llm_rl_trainer": ("HybridLLMRLTrainer", "create_trainer_from_config"),
    "llm_manager": ("BaseLLMManager", "LLMManager"),
}
CORE = {name: f"{__name__}.core.{module}" for module, names in _CORE.items() for name in names} | {
    "GoalOrientedPlanner": "components.hybrid.goals"
}
TRAINER = {name: f"{__name__}.trainer.{module}" for module, names in _TRAINER.items() for name in names}
"""Name -> its module."""
__all__ = [*CORE, *TRAINER]


def find_name(name: str, places: dict[str, str], package: str) -> Any:
    """The documented object of this name. Raises AttributeError, as a package does."""
    if name not in places:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(places[name]), name)


def __getattr__(name: str) -> Any:
    return find_name(name, CORE | TRAINER, __name__)
