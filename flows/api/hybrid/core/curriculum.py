"""The documented configuration of the curriculum, and where a training is in it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.errors import ConfigurationError
from components.hybrid.curriculum import CurriculumRule, CurriculumState, Event, Stage, first_state, next_state
from components.hybrid.strategies import Strategy
from components.suggestions import suggest

_KEYS = ("stages", "advancement_patience", "confidence_decay_rate")
_STAGE_KEYS = ("reward_threshold", "min_episodes", "llm_confidence", "strategy_preference")


class Curriculum:
    """From much help of the language model to little, by a configuration with the documented keys; None: four stages of ours.

    `confidence_decay_rate` is the factor of an episode, as .995. Advice counts where it is at least as sure as
    `least_confidence`, 1 less the stage's `llm_confidence`: the more the language model is trusted, the less sure it must be.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.has_preference = config is not None
        self.has_patience = config is not None and "advancement_patience" in config
        self.rule = CurriculumRule() if config is None else _rule(config)
        self.state: CurriculumState = first_state(self.rule)

    @property
    def least_confidence(self) -> float:
        """How sure the language model must be to act now."""
        return self.state.least_confidence if self.has_preference else 0.0

    def wait_for(self, patience: int) -> None:
        """The episodes without a gain until a stage stalls, unless the configuration says so itself."""
        if not self.has_patience:
            self.rule = replace(self.rule, patience=patience)

    def end_episode(self, reward: float) -> Event | None:
        """Count an episode; what happened."""
        self.state, event = next_state(self.state, self.rule, reward)
        return event


def _rule(config: Mapping[str, Any]) -> CurriculumRule:
    _check_keys("curriculum_config", config, _KEYS)
    known = {"patience": "advancement_patience", "decay": "confidence_decay_rate"}
    values: dict[str, Any] = {ours: config[theirs] for ours, theirs in known.items() if theirs in config}
    if "stages" in config:
        values["stages"] = tuple(_stage(number, each) for number, each in enumerate(config["stages"]))
    try:
        return CurriculumRule(**values)
    except TypeError as error:
        raise ConfigurationError(f"curriculum_config: {error}; give numbers") from error


def _stage(number: int, config: Mapping[str, Any]) -> Stage:
    place = f"curriculum_config.stages[{number}]"
    _check_keys(place, config, _STAGE_KEYS)
    for name in ("reward_threshold", "llm_confidence"):
        if not isinstance(config.get(name), int | float):
            raise ConfigurationError(f"{place}.{name} {config.get(name)!r}: give a number")
    wanted = config.get("strategy_preference", Strategy.BALANCED)
    if wanted not in list(Strategy):
        raise ConfigurationError(f"{place}.strategy_preference {wanted!r}: {suggest(str(wanted), list(Strategy))}")
    return Stage(
        name=f"stage {number}",
        reward_threshold=float(config["reward_threshold"]),
        llm_confidence=float(config["llm_confidence"]),
        strategy=Strategy(wanted),
        min_episodes=int(config.get("min_episodes", Stage.__dataclass_fields__["min_episodes"].default)),
    )


def _check_keys(place: str, config: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in config:
        if name not in known:
            raise ConfigurationError(f"{place}.{name}: unknown key; {suggest(str(name), known)}")
