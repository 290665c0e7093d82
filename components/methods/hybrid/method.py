"""The method `hybrid`: an RL policy that shares a game with a language model."""

from collections.abc import Mapping
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config.hybrid import LEARNER_POLICY
from components.methods.base import Method
from components.methods.hybrid.evaluation import HeldOutGames
from components.methods.hybrid.play import make_initial_learner
from components.methods.hybrid.settings import check_cartridge, check_hybrid, hybrid_config
from components.methods.hybrid.shown_run import hybrid_document
from components.runs.run import Run
from components.session.scenario import Scenario
from components.session.session import Session


class HybridTraining(Method):
    """Trains the RL policy, and a language model that learns from its own buttons."""

    evaluation = HeldOutGames()

    def check(self, scenario: Scenario) -> None:
        """Raise ConfigurationError, RomMissing, WrongRom or ServiceMissing where the game cannot be played."""
        game = hybrid_config(scenario.config).game
        check_hybrid(scenario)
        check_cartridge(game.type, game.rom, makes_pictures=scenario.config.tracking.episode_pictures)

    def read_document(self, store: ArtifactStore, run: Run, *, step: int | None) -> dict[str, Any]:
        """Its course and games: see `hybrid_document`."""
        return hybrid_document(store, run, step=step)

    def add_first_checkpoints(
        self, session: Session, checkpoints: Mapping[str, CheckpointRef]
    ) -> dict[str, CheckpointRef]:
        """The learner's checkpoint 0. In mode teacher the language model writes its lesson now."""
        return {LEARNER_POLICY: make_initial_learner(session, checkpoints)}


METHOD = HybridTraining()
