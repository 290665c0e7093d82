"""The documented configuration of the curriculum as a rule of `components/hybrid/curriculum.py`."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from components.errors import ConfigurationError
from components.hybrid.curriculum import CurriculumRule, Stage
from components.hybrid.strategies import Strategy
from components.text.suggestions import suggest

PLACE = "curriculum_config"
_KEYS = ("stages", "advancement_patience", "confidence_decay_rate")
_STAGE_KEYS = ("reward_threshold", "min_episodes", "llm_confidence", "strategy_preference")


def read_curriculum(config: Mapping[str, Any] | None) -> CurriculumRule:
    """From much help of the language model to little, by a configuration with the documented keys; None: four stages of ours.

    A stage's `llm_confidence` is the confidence that advice must have to count: it does not fall from stage to stage.
    `confidence_decay_rate` is the factor, for each episode, of what is left of 1 above it. Raises ConfigurationError.

    **Example** a threshold of .4 and a rate of .9: .4, then 1 - .6 * .9 = .46, up to that of the next stage.
    """
    if config is None:
        return CurriculumRule()
    _check_keys(PLACE, config, _KEYS)
    known = {"patience": "advancement_patience", "decay": "confidence_decay_rate"}
    values: dict[str, Any] = {ours: config[theirs] for ours, theirs in known.items() if theirs in config}
    if "stages" in config:
        stages = tuple(_read_stage(number, each) for number, each in enumerate(config["stages"]))
        for number, (before, after) in enumerate(pairwise(stages), start=1):
            if after.llm_confidence > before.llm_confidence:
                raise ConfigurationError(
                    f"{PLACE}.stages[{number}].llm_confidence {1 - after.llm_confidence:g}: is below that of the stage before, "
                    f"{1 - before.llm_confidence:g}, and would let in more advice; raise it, or change the order"
                )
        values["stages"] = stages
    try:
        return CurriculumRule(**values)
    except TypeError as error:
        raise ConfigurationError(f"{PLACE}: {error}; give numbers") from error


def _read_stage(number: int, config: Mapping[str, Any]) -> Stage:
    place = f"{PLACE}.stages[{number}]"
    _check_keys(place, config, _STAGE_KEYS)
    for name in ("reward_threshold", "llm_confidence"):
        if not isinstance(config.get(name), int | float):
            raise ConfigurationError(f"{place}.{name} {config.get(name)!r}: give a number")
    if not 0 <= config["llm_confidence"] <= 1:
        raise ConfigurationError(f"{place}.llm_confidence {config['llm_confidence']}: give a number from 0 to 1")
    wanted = config.get("strategy_preference", Strategy.BALANCED)
    if wanted not in list(Strategy):
        raise ConfigurationError(f"{place}.strategy_preference {wanted!r}: {suggest(str(wanted), list(Strategy))}")
    return Stage(
        name=f"stage {number}",
        reward_threshold=float(config["reward_threshold"]),
        llm_confidence=round(1.0 - float(config["llm_confidence"]), 12),  # in our words: how far the model is trusted
        strategy=Strategy(wanted),
        min_episodes=int(config.get("min_episodes", 10)),
    )


def _check_keys(place: str, config: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in config:
        if name not in known:
            raise ConfigurationError(f"{place}.{name}: unknown key; {suggest(str(name), known)}")
