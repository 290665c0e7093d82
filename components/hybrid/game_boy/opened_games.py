"""The emulated games of a training's settings, for `collect_experience`."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

from components.errors import ConfigurationError
from components.hybrid.experience import GamesOpener, HybridSettings
from components.hybrid.game_boy.cartridges import Cartridge
from components.hybrid.game_boy.games import EpisodeRule
from components.hybrid.game_boy.processes import GamesInProcesses
from components.hybrid.playing import SnapshotGames


def emulator_opener(cartridge: Cartridge, *, num_processes: int, environment: Mapping[str, str]) -> GamesOpener:
    """Opens games on emulators in that many processes, which end with the block.

    Raises ConfigurationError for settings with `starts`: only the twin can begin at a position of play.

    **Example** 16 games in 2 processes play as 16 games of one process, and as the twin plays where the rules are equal.
    """

    def open_games(settings: HybridSettings, seed: int) -> AbstractContextManager[SnapshotGames]:
        if settings.starts is not None:
            raise ConfigurationError("starts: the emulator begins at the start; leave it out, or train on the twin")
        rule = EpisodeRule(
            max_steps=settings.max_steps,
            goal_badges=settings.goal_badges,
            weights=settings.weights,
            subgoals=settings.subgoals,
            is_held_out=settings.is_held_out,
        )
        return GamesInProcesses(
            cartridge,
            settings.num_games,
            num_processes=num_processes,
            seed=seed,
            environment=environment,
            rule=rule,
            sees_screens=settings.learner.sees_screens,
        )

    return open_games
