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

_EXCEPTIONS = ("CheckpointError", "ConfigurationError", "DecisionValidationError", "EnvironmentError")
_PLACES = {
    "core.adaptive_strategy_system": ("AdaptiveStrategySystem", "GoalOrientedPlanner", "StrategyType"),
    "core.decision_history_analyzer": ("DecisionHistoryAnalyzer",),
    "core.enhanced_pyboy_env": ("EnhancedPyBoyPokemonCrystalEnv",),
    "core.exceptions": (*_EXCEPTIONS, "LLMConnectionError", "TrainingError"),
    "core.game_state_analyzer": ("GameStateAnalysis",),
    "core.hybrid_agent": ("AgentMode", "HybridAgent"),
    "trainer.hybrid_llm_rl_trainer": ("HybridLLMRLTrainer", "create_trainer_from_config"),
    "trainer.llm_manager": ("BaseLLMManager", "LLMManager"),
}
NAMES = {name: f"{__name__}.{module}" for module, names in _PLACES.items() for name in names}
"""Name -> its module. The packages `core` and `trainer` have all of them, too."""
__all__ = [*NAMES]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(NAMES[name]), name)
