"""The method `hybrid` of a configuration as values of `components/hybrid`: settings and games, and checks of both."""

from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from components.config import HybridMethod, RunConfig
from components.config.hybrid import Adaptive, Twin, find_tuned_model
from components.errors import ConfigurationError, ServiceMissing
from components.session.scenario import Scenario

if TYPE_CHECKING:
    from components.hybrid.experience import GamesOpener, HybridSettings
    from components.hybrid.game_boy.cartridges import Cartridge
    from components.hybrid.game_boy.games import EmulatedGames
    from components.hybrid.masked_ppo import PPORule
    from components.hybrid.rewards import RewardWeights
    from components.hybrid.subgoals import Lesson

_LESSON_PAY = 10.0
"""Wished of each subgoal unless `method.weights` says otherwise."""


def hybrid_config(config: RunConfig) -> HybridMethod:
    """The method of a hybrid run."""
    assert isinstance(config.method, HybridMethod), "this run has no hybrid"
    return config.method


def hybrid_settings(scenario: Scenario, lesson: str = "") -> "HybridSettings":
    """What is played and how it is learned. `lesson` holds the subgoals, one a line. Raises ConfigurationError."""
    from components.hybrid.agent import AgentRule
    from components.hybrid.arbitration import Mode
    from components.hybrid.control import ControlRule
    from components.hybrid.experience import HybridSettings
    from components.hybrid.strategies import Strategy

    config = hybrid_config(scenario.config)
    shared = config.mode if isinstance(config.mode, Adaptive) else Adaptive()
    read = _read_lesson(lesson)
    control = ControlRule(
        mode=Mode(config.mode.type),
        strategy=None if shared.strategy is None else Strategy(shared.strategy),
    )
    return HybridSettings(
        num_games=config.num_games,
        max_steps=scenario.config.environment.max_turns,
        goal_badges=scenario.options.goal_badges,  # type: ignore[attr-defined]
        weights=_weights(config, read),
        subgoals=read.subgoals,
        learner=_learner_rule(config),
        agent=AgentRule(
            control=control,
            draws_anew=find_tuned_model(scenario.config) is not None,
            questions_per_episode=shared.questions_per_episode,
        ),
        starts=config.game.starts if isinstance(config.game, Twin) else None,
        curriculum=shared.curriculum,
        keeps_decisions=config.has_history,
    )


def _learner_rule(config: HybridMethod) -> "PPORule":
    from components.hybrid.game_facts import STATE_VARIABLES
    from components.hybrid.masked_ppo import PPORule

    network = config.learner.network
    gains = network.state_gains
    if unknown := sorted(set(gains) - set(STATE_VARIABLES)):
        raise ConfigurationError(
            f"method.learner.network.state_gains.{unknown[0]}: no state variable; they are {', '.join(STATE_VARIABLES)}"
        )
    gains_S = tuple(gains.get(name, 1.0) for name in STATE_VARIABLES) if gains else ()
    chosen = config.learner.model_dump(exclude={"network"})
    return PPORule(**chosen, network=network.type, width=network.width, state_gains=gains_S)


def _weights(config: HybridMethod, lesson: "Lesson") -> "RewardWeights":
    from components.hybrid.rewards import RewardWeights
    from components.hybrid.subgoals import weights_with_lesson

    weights = replace(RewardWeights(), **{str(name): value for name, value in config.weights.items()})
    if not lesson.subgoals:
        return weights
    if weights.party <= 0 and weights.badges <= 0:
        raise ConfigurationError("method.weights: neither party nor badges pays, so subgoals have no goal; pay for one")
    return weights_with_lesson(weights, lesson, wanted=config.weights.get("subgoals", _LESSON_PAY))


def _read_lesson(text: str) -> "Lesson":
    from components.hybrid.game_facts import LARGEST
    from components.hybrid.subgoals import read_lesson

    lesson = read_lesson(text, LARGEST)
    if lesson.refusals:
        raise ConfigurationError(f"method.subgoals: {lesson.refusals[0]}")
    return lesson


def check_hybrid(scenario: Scenario) -> None:
    """Raise ConfigurationError for settings that the game refuses."""
    hybrid_settings(scenario, "\n".join(hybrid_config(scenario.config).subgoals))


def check_cartridge(
    game: str, rom: Path | None = None, *, field: str = "method.game", makes_pictures: bool = False
) -> None:
    """Raise RomMissing or WrongRom for an emulated game without its ROM, and ServiceMissing without the emulator or, if
    episodes are kept as pictures, without what draws them. `field` is where the game is named."""
    if game == "twin":
        return
    open_cartridge(rom)
    if find_spec("pyboy") is None:
        twin = f", or set {field} to twin, which plays the same rules without it" if rom is None else ""
        raise ServiceMissing(f"{field} {game} needs PyBoy: get it by `pip install 'troupe[hybrid]'`{twin}")
    if makes_pictures and find_spec("PIL") is None:
        raise ServiceMissing(
            "tracking.episode_pictures needs Pillow: get it by `pip install 'troupe[hybrid]'`, or set it to false"
        )


def open_cartridge(rom: Path | None) -> "Cartridge":
    """The cartridge of an emulated game, our own without `rom`. Raises RomMissing and WrongRom."""
    from components.hybrid.game_boy.cartridges import crystal_cartridge, homebrew_cartridge

    return homebrew_cartridge() if rom is None else crystal_cartridge(rom)


def games_opener(config: HybridMethod) -> "GamesOpener":
    """What opens the games of the configuration."""
    from components.hybrid.experience import open_twins

    if not config.game.is_emulated:
        return open_twins

    return lambda settings, seed: open_emulated_games(config, settings, seed)


def open_emulated_games(
    config: HybridMethod, settings: "HybridSettings", seed: int, *, renders: bool = False
) -> "closing[EmulatedGames]":
    """The games on the cartridge: for `twin`, that whose rules it plays.

    Raises ServiceMissing without the emulator, RomMissing and WrongRom.
    """
    from components.hybrid.game_boy.games import EmulatedGames
    from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator

    played = open_cartridge(config.game.rom)
    emulators = [PyBoyEmulator(played.rom) for _ in range(settings.num_games)]
    sees_screens = settings.learner.sees_screens
    return closing(
        EmulatedGames(played, emulators, seed=seed, rule=settings, renders=renders, sees_screens=sees_screens)
    )
